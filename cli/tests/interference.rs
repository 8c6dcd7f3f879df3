//! No blast radius: hundreds of concurrent fault plans, next to clean traffic, each with the outcome that it has alone.

use crate::support::{Shop, seed, soak};
use model::random::Random;
use model::trace::{Call, Outcome, Trace};
use model::{Fault, FaultKind};
use request_faults::space::{Effect, SpaceKind, sites};
use requests::{Credentials, Reply, RequestSpec, Sender};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const PLANS: usize = 300;
const IN_FLIGHT: usize = 240;
/// After this many rounds with too few clean requests, these count as starved.
const ROUNDS_MAX: usize = 40;
/// Minimum number of clean requests before the last plan is sent.
const CLEAN: usize = 100;
const BYSTANDERS: usize = 32;

/// Everything about a request that must not depend on concurrent ones: all but times.
#[derive(Debug, PartialEq, Eq, Clone)]
struct Observation {
    outcome: Outcome,
    calls: Vec<(String, String, String, Outcome, Option<usize>, bool)>,
    gaps: usize,
    body: Vec<u8>,
}

fn observation(reply: &Reply) -> Observation {
    let call =
        |c: &Call| (c.caller.clone(), c.callee.clone(), c.label().to_owned(), c.outcome, c.fault, c.scope.is_some());
    Observation {
        outcome: reply.outcome,
        calls: reply.trace.walk().into_iter().map(call).collect(),
        gaps: reply.trace.gaps(),
        body: reply.body.to_vec(),
    }
}

fn index(random: &mut Random, count: usize) -> usize {
    random.below(count as u64) as usize
}

fn plans(good: &Trace, random: &mut Random) -> Vec<Vec<Fault>> {
    const KINDS: [(FaultKind, u64); 9] = [
        (FaultKind::Unavailable, 0),
        (FaultKind::Status, 13),
        (FaultKind::Status, 5),
        (FaultKind::Deadline, 0),
        (FaultKind::Reset, 0),
        (FaultKind::Delay, 20),
        (FaultKind::LostReply, 0),
        (FaultKind::EmptyReply, 0),
        (FaultKind::CorruptReply, 0),
    ];
    const SPACES: [SpaceKind; 3] = [SpaceKind::Services, SpaceKind::Temporal, SpaceKind::CrashPoints];
    let mut plans: Vec<Vec<Fault>> = Vec::new();
    while plans.len() < PLANS {
        let plan: Vec<Fault> = (0..1 + random.below(4))
            .map(|_| {
                let (kind, arg) = KINDS[index(random, KINDS.len())];
                let sites = sites(SPACES[index(random, SPACES.len())], good, &[], Effect { kind, arg });
                sites[index(random, sites.len())].fault.clone()
            })
            .collect();
        if !plans.contains(&plan) {
            plans.push(plan);
        }
    }
    plans
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_concurrent_plans_affect_neither_one_another_nor_clean_traffic() {
    let Some(shop) = Shop::up("interference", "paper") else { return };
    let state = shop.run(&["ps", "--json"]).exits(0).json();
    let trust = std::fs::read_to_string(state["state"]["trust_file"].as_str().unwrap()).unwrap();
    let credentials = Credentials::parse(&trust).unwrap();
    let spec = RequestSpec::parse(&shop.url("/"), "GET").unwrap();
    let mut random = Random(seed("interference"));

    let mut sender = Sender::new(credentials.clone(), None);
    for _ in 0..3 {
        sender.send(&spec, &[]).await.unwrap();
    }
    let good = sender.send(&spec, &[]).await.unwrap().trace;
    let (status, page) = sender.send_clean(&spec).await.unwrap();
    assert_eq!((status, good.walk().len()), (200, 14));
    for _ in 0..if soak() { 20 } else { 1 } {
        let plans = Arc::new(plans(&good, &mut random));

        let mut alone = Vec::new();
        for plan in plans.iter() {
            alone.push(observation(&sender.send(&spec, plan).await.unwrap()));
        }
        let distinct: std::collections::HashSet<String> = alone.iter().map(|s| format!("{:?}", s.calls)).collect();
        let failed = alone.iter().filter(|s| s.outcome == Outcome::Replied { status: 500 }).count();
        println!("{PLANS} plans: {failed} fail, {} distinct behaviors", distinct.len());
        assert!(distinct.len() > PLANS / 4 && failed > 10 && failed < PLANS - 10, "the plans differ in what they do");

        // clean requests without pause on their own connections, until the last plan has ended
        let done = Arc::new(AtomicBool::new(false));
        let clean = Arc::new(AtomicUsize::new(0));
        let mut bystanders = tokio::task::JoinSet::new();
        for _ in 0..BYSTANDERS {
            let (mut sender, spec, page, done, clean) =
                (Sender::new(credentials.clone(), None), spec.clone(), page.clone(), done.clone(), clean.clone());
            bystanders.spawn(async move {
                while !done.load(Ordering::Relaxed) {
                    let (status, body) = sender.send_clean(&spec).await.expect("a clean request is answered");
                    assert_eq!(status, 200);
                    assert_eq!(body, page, "a clean request gets the page it always gets");
                    clean.fetch_add(1, Ordering::Relaxed);
                }
            });
        }

        // every plan at least three times, in three orders, one in flight per worker
        let (next, at_once, most) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let alone = Arc::new(alone);
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..IN_FLIGHT {
            let mut sender = Sender::new(credentials.clone(), None);
            let (spec, plans, alone, next, at_once, most, clean) = (
                spec.clone(),
                plans.clone(),
                alone.clone(),
                next.clone(),
                at_once.clone(),
                most.clone(),
                clean.clone(),
            );
            workers.spawn(async move {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let enough = n >= 3 * PLANS && clean.load(Ordering::Relaxed) >= CLEAN;
                    if enough || n >= ROUNDS_MAX * PLANS {
                        return;
                    }
                    let i = (n * 7 + n / PLANS) % PLANS;
                    most.fetch_max(at_once.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    let reply = sender.send(&spec, &plans[i]).await.unwrap();
                    at_once.fetch_sub(1, Ordering::Relaxed);
                    let words: Vec<String> = plans[i].iter().map(ToString::to_string).collect();
                    assert_eq!(observation(&reply), alone[i], "plan [{}] concurrently and alone", words.join("; "));
                }
            });
        }
        while let Some(worker) = workers.join_next().await {
            worker.unwrap();
        }
        done.store(true, Ordering::Relaxed);
        while let Some(bystander) = bystanders.join_next().await {
            bystander.unwrap();
        }
        let (runs, most, clean) =
            (next.load(Ordering::Relaxed) - IN_FLIGHT, most.load(Ordering::Relaxed), clean.load(Ordering::Relaxed));
        println!("{runs} runs of plans, up to {most} at once, beside {clean} clean requests");
        assert!(most >= 200, "only {most} were in flight at once");
        assert!(clean >= CLEAN, "only {clean} clean requests went through meanwhile");
        // afterwards requests behave as before
        assert_eq!(observation(&sender.send(&spec, &plans[0]).await.unwrap()), alone[0]);
        assert_eq!(sender.send_clean(&spec).await.unwrap(), (200, page.clone()));
    }
}
