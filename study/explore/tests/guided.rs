//! The cases of guided exploration on disk.

use crate::service::{self, Home, Service};
use explore::{Progress, SpaceRun, Sweeper};
use model::sweep::Case;
use model::{FaultKind, Verdict};
use request_faults::space::Effect;
use runs::RunDir;
use serde_json::Value;
use std::sync::atomic::Ordering;

async fn explore(sweeper: &Sweeper, dir: &RunDir, progress: impl FnMut(Progress)) -> SpaceRun {
    let good = sweeper.sender().send(&sweeper.spec, &[]).await.unwrap().trace;
    let effect = Effect { kind: FaultKind::Unavailable, arg: 0 };
    sweeper.guided(0, "guided".into(), effect, &good, dir, progress).await.unwrap()
}

fn stored(dir: &RunDir) -> Vec<Case> {
    dir.records("cases.jsonl").unwrap()
}

/// Every failing case on disk has its cause there.
fn assert_causes_are_stored(dir: &RunDir) {
    let causes: Vec<Value> = dir.records("causes.jsonl").unwrap();
    let has_cause = |case: &&Case| causes.iter().any(|cause| cause["pattern"] == case.cause_key());
    assert!(stored(dir).iter().filter(|case| case.verdict == Verdict::Fail).all(|case| has_cause(&case)));
}

async fn interrupted_after(cases: u64, service: &Service, run: &model::Run, dir: &RunDir) -> SpaceRun {
    let sweeper = service::sweeper(service, run);
    let stop = sweeper.stop.clone();
    explore(&sweeper, dir, |progress| {
        assert_eq!(stored(dir).len() as u64, progress.done, "a case is stored before it is reported");
        stop.store(progress.done >= cases, Ordering::Relaxed);
    })
    .await
}

#[tokio::test]
async fn an_interrupted_exploration_has_its_cases_on_disk() {
    let service = service::start().await;
    let home = Home::new("guided-interrupted");
    let (run, dir) = home.begin().await;
    let partial = interrupted_after(4, &service, &run, &dir).await;
    assert!(!partial.finished);
    assert_eq!((stored(&dir), partial.cases.len()), (partial.cases, 4));
    assert!(partial.space.failures > 0);
    assert_causes_are_stored(&dir);
}

/// A resumed exploration began again and repeated every request.
#[tokio::test]
async fn a_resumed_exploration_sends_only_what_is_missing() {
    let service = service::start().await;
    let home = Home::new("guided-whole");
    let (run, dir) = home.begin().await;
    let uninterrupted = explore(&service::sweeper(&service, &run), &dir, |_| {}).await;
    let sent = service.requests.swap(0, Ordering::Relaxed);
    assert_eq!(sent, 1 + uninterrupted.cases.len() as u64, "the good run and the cases");

    // interrupted after every number of cases
    for cases in 1..uninterrupted.cases.len() as u64 {
        let home = Home::new("guided-resumed");
        let (run, dir) = home.begin().await;
        let partial = interrupted_after(cases, &service, &run, &dir).await;
        let other = Case { space: 1, ..partial.cases[0].clone() };
        dir.append_file("cases.jsonl").unwrap().append(std::slice::from_ref(&other)).unwrap();
        service.requests.store(0, Ordering::Relaxed);
        let whole = explore(&service::sweeper(&service, &run), &dir, |_| {}).await;
        assert!(whole.finished);
        assert_eq!(service.requests.load(Ordering::Relaxed), 1 + sent - 1 - partial.cases.len() as u64);
        assert_eq!(without_times(&whole.cases), without_times(&uninterrupted.cases));
        assert_eq!(
            (whole.space.sites, whole.causes),
            (uninterrupted.space.sites.clone(), uninterrupted.causes.clone())
        );
        let (own, others): (Vec<Case>, Vec<Case>) = stored(&dir).into_iter().partition(|case| case.space == 0);
        assert_eq!((own, others), (whole.cases, vec![other]));
        assert_causes_are_stored(&dir);
    }
}

fn without_times(cases: &[Case]) -> Vec<Case> {
    cases.iter().map(|case| Case { latency_us: 0, ..case.clone() }).collect()
}

/// Cases complete in any order then, but each number must belong to the same faults.
#[tokio::test(flavor = "multi_thread")]
async fn the_order_does_not_depend_on_the_concurrency() {
    let service = service::start().await;
    let mut runs = Vec::new();
    for concurrency in [1, 2, 3, 8, 64] {
        let home = Home::new(&format!("guided-{concurrency}"));
        let (run, dir) = home.begin().await;
        let mut sweeper = service::sweeper(&service, &run);
        sweeper.concurrency = concurrency;
        let explored = explore(&sweeper, &dir, |_| {}).await;
        runs.push((without_times(&explored.cases), explored.space.sites));
    }
    assert!(runs.iter().all(|run| *run == runs[0]));
}

/// Earlier versions stored no observations, so what follows from their cases is unknown.
#[tokio::test]
async fn cases_of_an_earlier_version_are_run_again() {
    let service = service::start().await;
    let home = Home::new("guided-old");
    let (run, dir) = home.begin().await;
    let partial = interrupted_after(3, &service, &run, &dir).await;
    std::fs::remove_file(dir.file("guided.jsonl")).unwrap();
    let other = Case { space: 1, ..partial.cases[0].clone() };
    dir.append_file("cases.jsonl").unwrap().append(std::slice::from_ref(&other)).unwrap();
    let whole = explore(&service::sweeper(&service, &run), &dir, |_| {}).await;
    assert!(whole.finished && whole.cases.len() > 4, "{} cases", whole.cases.len());
    let (own, others): (Vec<Case>, Vec<Case>) = stored(&dir).into_iter().partition(|case| case.space == 0);
    assert_eq!((own, others), (whole.cases, vec![other]));
}

#[tokio::test]
async fn an_observation_of_other_faults_is_refused() {
    let service = service::start().await;
    let home = Home::new("guided-damaged");
    let (run, dir) = home.begin().await;
    interrupted_after(3, &service, &run, &dir).await;
    let text = std::fs::read_to_string(dir.file("guided.jsonl")).unwrap();
    let damaged = text.replace("\"case\":1,\"sites\":[0]", "\"case\":1,\"sites\":[2]");
    assert_ne!(text, damaged);
    std::fs::write(dir.file("guided.jsonl"), damaged).unwrap();
    let sweeper = service::sweeper(&service, &run);
    let good = sweeper.sender().send(&sweeper.spec, &[]).await.unwrap().trace;
    let effect = Effect { kind: FaultKind::Unavailable, arg: 0 };
    let failure = sweeper.guided(0, "guided".into(), effect, &good, &dir, |_| {}).await.err().unwrap();
    assert!(failure.to_string().contains("guided.jsonl is damaged: case 1"), "{failure}");
}
