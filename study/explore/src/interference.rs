//! Measures whether concurrent fault plans disturb one another, or requests without an envelope. Every plan runs alone
//! first, then all of them run at once beside clean requests. The outcomes must be equal, down to the body.

use crate::fingerprint;
use model::sweep::Site;
use model::trace::Trace;
use model::{Failure, Fault, FaultKind};
use request_faults::space::{Effect, SpaceKind, sites};
use requests::{Credentials, Reply, RequestSpec, Sender};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often each plan is sent concurrently with the others.
const ROUNDS: usize = 5;

/// The part of a reply that must not depend on concurrent requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReplyDigest {
    pub status: Option<u32>,
    pub fingerprint: u64,
    pub fired: Vec<usize>,
    pub body: u64,
}

#[derive(Debug, Serialize)]
pub struct Interference {
    pub seed: u64,
    pub plans: usize,
    pub distinct_outcomes: usize,
    pub clean_requests: u64,
    /// Plans whose concurrent outcome differed from their outcome alone, and clean requests that got a different reply.
    pub differences: Vec<String>,
}

/// Picks plans: the same seed gives the same plans on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        wire::call_id::derive(self.0, 1) % limit.max(1)
    }
}

fn plans(good: &Trace, count: usize, seed: u64) -> Vec<Vec<Fault>> {
    // only kinds that end at once: waiting for deadlines would only make the run longer
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
    let mut random = Random(seed);
    let mut plans = Vec::with_capacity(count);
    while plans.len() < count {
        let space = [SpaceKind::Temporal, SpaceKind::CrashPoints, SpaceKind::Services][random.below(3) as usize];
        let faults = 1 + random.below(4);
        let plan = (0..faults).map(|_| {
            let (kind, arg) = kinds[random.below(kinds.len() as u64) as usize];
            let sites: Vec<Site> = sites(space, good, &[], Effect { kind, arg });
            sites[random.below(sites.len() as u64) as usize].fault.clone()
        });
        plans.push(plan.collect());
    }
    plans
}

fn digest(reply: &Reply) -> ReplyDigest {
    ReplyDigest {
        status: reply.status(),
        fingerprint: fingerprint::of(&reply.trace),
        fired: reply.trace.walk().iter().filter_map(|c| c.fault).collect(),
        body: fingerprint::siphash_1_3(&reply.body),
    }
}

/// Runs `count` plans alone, then all of them at once. Errors: the target cannot be reached, or the request makes no
/// calls.
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
        alone.push(digest(&sender.send(spec, plan).await?));
    }

    let done = Arc::new(AtomicBool::new(false));
    let mut clean_tasks = Vec::new();
    for _ in 0..8 {
        let (mut sender, spec, clean, done) =
            (Sender::new(credentials.clone(), None), spec.clone(), clean.clone(), done.clone());
        clean_tasks.push(tokio::spawn(async move {
            let (mut requests, mut different) = (0u64, 0u64);
            while !done.load(Ordering::Relaxed) {
                requests += 1;
                different += u64::from(sender.send_clean(&spec).await.ok() != Some(clean.clone()));
            }
            (requests, different)
        }));
    }
    let mut tasks = Vec::new();
    for plan in plans.clone() {
        let (mut sender, spec) = (Sender::new(credentials.clone(), None), spec.clone());
        tasks.push(tokio::spawn(async move {
            let mut outcomes = Vec::with_capacity(ROUNDS);
            for _ in 0..ROUNDS {
                outcomes.push(digest(&sender.send(&spec, &plan).await?));
            }
            Ok::<_, Failure>(outcomes)
        }));
    }
    let mut differences = Vec::new();
    for (i, task) in tasks.into_iter().enumerate() {
        for concurrent in task.await.map_err(|e| Failure::unknown(e.to_string()))?? {
            if concurrent != alone[i] {
                let plan: Vec<String> = plans[i].iter().map(ToString::to_string).collect();
                differences.push(format!("[{}]: alone {:?}, concurrently {concurrent:?}", plan.join("; "), alone[i]));
            }
        }
    }
    done.store(true, Ordering::Relaxed);
    let mut clean_requests = 0;
    for task in clean_tasks {
        let (requests, different) = task.await.map_err(|e| Failure::unknown(e.to_string()))?;
        clean_requests += requests;
        if different > 0 {
            differences.push(format!("{different} of {requests} clean requests got a different reply"));
        }
    }
    let distinct = alone.iter().map(|f| (f.status, f.fingerprint)).collect::<std::collections::HashSet<_>>().len();
    Ok(Interference { seed, plans: count, distinct_outcomes: distinct, clean_requests, differences })
}
