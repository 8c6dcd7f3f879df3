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
    let has_cause = |case: &&Case| causes.iter().any(|cause| cause["pattern"] == case.fingerprint);
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

#[tokio::test]
async fn a_resumed_exploration_replaces_its_cases_and_keeps_those_of_other_spaces() {
    let service = service::start().await;
    let home = Home::new("guided-resumed");
    let (run, dir) = home.begin().await;
    let partial = interrupted_after(3, &service, &run, &dir).await;
    let other = Case { space: 1, ..partial.cases[0].clone() };
    dir.append_file("cases.jsonl").unwrap().append(std::slice::from_ref(&other)).unwrap();

    let whole = explore(&service::sweeper(&service, &run), &dir, |_| {}).await;
    assert!(whole.finished && whole.cases.len() > 4, "{} cases", whole.cases.len());
    let (own, others): (Vec<Case>, Vec<Case>) = stored(&dir).into_iter().partition(|case| case.space == 0);
    assert_eq!((own, others), (whole.cases, vec![other]));
    assert_causes_are_stored(&dir);
}
