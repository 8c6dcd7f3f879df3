//! Whether fault plans in flight disturb one another, or clean traffic: every plan alone first, then all of them at once beside requests
//! without an envelope. Outcomes must be equal, down to the body.

use model::sweep::Site;
use model::trace::Trace;
use model::{Failure, Fault, FaultKind};
use request_faults::space::{Effect, SpaceKind, sites};
use requests::{Credentials, Reply, RequestSpec, Sender};
use serde::Serialize;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often each plan flies in company.
const ROUNDS: usize = 5;

/// What must not depend on what else is in flight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fingerprint {
    pub status: Option<u32>,
    pub pattern: u64,
    pub fired: Vec<usize>,
    pub body: u64,
}

#[derive(Debug, Serialize)]
pub struct Interference {
    pub seed: u64,
    pub plans: usize,
    pub distinct_outcomes: usize,
    pub clean_requests: u64,
    /// Plans whose outcome in company differed from their outcome alone, and clean requests that were not answered as before.
    pub differences: Vec<String>,
}

/// A small generator (splitmix64) is enough to pick plans, and its seed repeats them everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        wire::call_id::derive(self.0, 1) % below.max(1)
    }
}

fn plans(good: &Trace, count: usize, seed: u64) -> Vec<Vec<Fault>> {
    // those that end at once: what waits for deadlines would only make the run long
    let kinds = [
        (FaultKind::Unavailable, 0),
        (FaultKind::Status, 13),
        (FaultKind::Deadline, 0),
        (FaultKind::Reset, 0),
        (FaultKind::Delay, 3),
        (FaultKind::LostReply, 0),
        (FaultKind::EmptyReply, 0),
        (FaultKind::CorruptReply, 0),
    ];
    let mut dice = Dice(seed);
    let mut plans = Vec::with_capacity(count);
    while plans.len() < count {
        let space = [SpaceKind::Temporal, SpaceKind::CrashPoints, SpaceKind::Services][dice.roll(3) as usize];
        let faults = 1 + dice.roll(4);
        let plan = (0..faults).map(|_| {
            let (kind, arg) = kinds[dice.roll(kinds.len() as u64) as usize];
            let sites: Vec<Site> = sites(space, good, &[], Effect { kind, arg });
            sites[dice.roll(sites.len() as u64) as usize].fault.clone()
        });
        plans.push(plan.collect());
    }
    plans
}

fn fingerprint(reply: &Reply) -> Fingerprint {
    let mut hasher = DefaultHasher::new();
    reply.body.hash(&mut hasher);
    Fingerprint {
        status: reply.status(),
        pattern: crate::pattern::of(&reply.trace),
        fired: reply.trace.walk().iter().filter_map(|c| c.fault).collect(),
        body: hasher.finish(),
    }
}

/// Runs `count` plans alone, then all in flight at once. An error: the target cannot be asked at all.
pub async fn measure(
    credentials: &Credentials,
    spec: &RequestSpec,
    count: usize,
    seed: u64,
) -> Result<Interference, Failure> {
    let mut sender = Sender::new(credentials.clone(), None);
    let good = sender.send(spec, &[]).await?.trace;
    if good.walk().is_empty() {
        return Err(Failure::unknown("the request makes no call that could be faulted"));
    }
    let clean = sender.send_clean(spec).await.map_err(Failure::environment)?;
    let plans = plans(&good, count, seed);
    let mut alone = Vec::with_capacity(plans.len());
    for plan in &plans {
        alone.push(fingerprint(&sender.send(spec, plan).await?));
    }

    let done = Arc::new(AtomicBool::new(false));
    let mut bystanders = Vec::new();
    for _ in 0..8 {
        let (mut sender, spec, clean, done) =
            (Sender::new(credentials.clone(), None), spec.clone(), clean.clone(), done.clone());
        bystanders.push(tokio::spawn(async move {
            let (mut requests, mut different) = (0u64, 0u64);
            while !done.load(Ordering::Relaxed) {
                requests += 1;
                different += u64::from(sender.send_clean(&spec).await.ok() != Some(clean.clone()));
            }
            (requests, different)
        }));
    }
    let mut flights = Vec::new();
    for plan in plans.clone() {
        let (mut sender, spec) = (Sender::new(credentials.clone(), None), spec.clone());
        flights.push(tokio::spawn(async move {
            let mut outcomes = Vec::with_capacity(ROUNDS);
            for _ in 0..ROUNDS {
                outcomes.push(fingerprint(&sender.send(&spec, &plan).await?));
            }
            Ok::<_, Failure>(outcomes)
        }));
    }
    let mut differences = Vec::new();
    for (i, flight) in flights.into_iter().enumerate() {
        for together in flight.await.map_err(|e| Failure::unknown(e.to_string()))?? {
            if together != alone[i] {
                let plan: Vec<String> = plans[i].iter().map(ToString::to_string).collect();
                differences.push(format!("[{}]: alone {:?}, in company {together:?}", plan.join("; "), alone[i]));
            }
        }
    }
    done.store(true, Ordering::Relaxed);
    let mut clean_requests = 0;
    for bystander in bystanders {
        let (requests, different) = bystander.await.map_err(|e| Failure::unknown(e.to_string()))?;
        clean_requests += requests;
        if different > 0 {
            differences.push(format!("{different} of {requests} clean requests were answered differently"));
        }
    }
    let distinct = alone.iter().map(|f| (f.status, f.pattern)).collect::<std::collections::HashSet<_>>().len();
    Ok(Interference { seed, plans: count, distinct_outcomes: distinct, clean_requests, differences })
}
