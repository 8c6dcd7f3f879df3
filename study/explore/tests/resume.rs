//! A sweep that an earlier version began. `fixtures/*-0.1.jsonl` were written by the version of commit ff778fd, which
//! took its fingerprints from std's `DefaultHasher`, and end after 8 of 16 cases.

use crate::service::{self, Home};
use explore::runner::SpacePlan;
use explore::{SpaceRun, fingerprint};
use model::FaultKind;
use model::sweep::Case;
use request_faults::SpaceKind;
use request_faults::space::{Effect, sites};
use runs::RunDir;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

const CASES: &str = include_str!("fixtures/cases-0.1.jsonl");
const CAUSES: &str = include_str!("fixtures/causes-0.1.jsonl");

async fn sweep(service: &service::Service, run: &model::Run, dir: &RunDir) -> SpaceRun {
    let sweeper = service::sweeper(service, run);
    let good = sweeper.sender().send(&sweeper.spec, &[]).await.unwrap().trace;
    assert_eq!(fingerprint::of(&good), 14_912_090_116_660_760_034, "as the earlier version computed it");
    let effect = Effect { kind: FaultKind::Unavailable, arg: 0 };
    let sites = sites(SpaceKind::Temporal, &good, &[], effect);
    let plan = SpacePlan { index: 0, kind: SpaceKind::Temporal, name: "temporal".into(), sites, time_max: None };
    sweeper.sweep(plan, &good, dir, |_| {}).await.unwrap()
}

#[tokio::test]
async fn a_sweep_of_an_earlier_version_resumes_with_the_same_fingerprints() {
    let service = service::start().await;
    let home = Home::new("resumed");
    let (run, dir) = home.begin().await;
    dir.write("cases.jsonl", CASES.as_bytes()).unwrap();
    dir.write("causes.jsonl", CAUSES.as_bytes()).unwrap();
    let resumed = sweep(&service, &run, &dir).await;
    assert_eq!(service.requests.load(Ordering::Relaxed), 1 + 8, "the good run and the cases that were missing");

    let home = Home::new("whole");
    let (run, dir) = home.begin().await;
    let whole = sweep(&service, &run, &dir).await;

    let fingerprints = |run: &SpaceRun| run.cases.iter().map(|case| case.fingerprint).collect::<Vec<_>>();
    assert_eq!(fingerprints(&resumed), fingerprints(&whole));
    assert_eq!((resumed.space.behaviors, whole.space.behaviors), (8, 8));
    assert_eq!(resumed.causes, whole.causes);
}

/// The time left of the spaces does not include this work.
#[tokio::test]
async fn the_reproduction_of_bugs_reports_its_progress() {
    let service = service::start().await;
    let home = Home::new("bugs");
    let (run, dir) = home.begin().await;
    let spaces = [sweep(&service, &run, &dir).await];
    let sweeper = service::sweeper(&service, &run);
    let good = sweeper.sender().send(&sweeper.spec, &[]).await.unwrap().trace;
    let mut reported = Vec::new();
    let bugs = explore::bugs::find(&sweeper, &good, &spaces, "record", |done, total| reported.push((done, total)));
    let bugs = bugs.await.unwrap().bugs;
    assert!(!bugs.is_empty());
    let causes = reported.len() as u64 - 1;
    assert!(causes >= bugs.len() as u64, "{reported:?}");
    assert_eq!(reported, (0..=causes).map(|done| (done, causes)).collect::<Vec<_>>());
}

#[tokio::test]
async fn stored_cases_keep_their_keys() {
    let case: Case = serde_json::from_str(CASES.lines().nth(2).unwrap()).unwrap();
    assert_eq!(serde_json::to_string(&case).unwrap(), CASES.lines().nth(2).unwrap());
    let all: BTreeSet<u64> =
        CASES.lines().map(|line| serde_json::from_str::<Case>(line).unwrap().fingerprint).collect();
    assert_eq!(all.len(), 6);
}
