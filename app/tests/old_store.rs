//! A store written by 0.1.0, before the use cases had specs of their own, works as it did.
//!
//! `tests/stores/0.1.0` holds, newest first: a map, a campaign of flips, an import, an interrupted sweep with every
//! kind of condition, a finished sweep, a recording with a fault, a recording.

use app::history::{DiffSpec, ReportSpec, RunsSpec, ShowSpec};
use app::kinds::sweep::StoredSpec;
use app::spec::Version;
use app::{Context, history};
use std::path::{Path, PathBuf};

const RUNS: RunsSpec = RunsSpec { version: Version, limit: 20 };

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let path = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &path)
        } else {
            std::fs::copy(entry.path(), path).map(drop).unwrap()
        }
    }
}

/// A copy, because opening a store writes to it.
fn store(name: &str) -> Context {
    let home = std::env::temp_dir().join(format!("faultloom-old-store-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&home);
    copy(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/stores/0.1.0"), &home);
    Context::new(home)
}

#[tokio::test]
async fn runs_of_every_kind_are_listed_shown_and_reported() {
    let context = store("kinds");
    let listed = history::list(&context, &RUNS).await.unwrap();
    let found: Vec<(String, &str)> =
        listed.iter().map(|run| (run.run.kind.to_string(), run.summary.as_str())).collect();
    let expected = [
        ("map", "2 nodes, 0 edges"),
        ("flip", "6 flips, 0 errors, 0 undetected"),
        ("recording", "2 calls, status 200"),
        ("sweep", ""),
        ("sweep", "4 cases, 0 failed, 0 bugs"),
        ("recording", "2 calls, status 200"),
        ("recording", "2 calls, status 200"),
    ];
    assert_eq!(found, expected.map(|(kind, summary)| (kind.to_owned(), summary)));
    for run in listed.iter().filter(|run| run.run.verdict.is_some()) {
        let id = run.run.id.to_string();
        let shown = history::show(&context, &ShowSpec { version: Version, run: id.clone() }).await.unwrap();
        assert!(!shown.view.blocks.is_empty(), "{id}");
        history::report(&context, &ReportSpec { version: Version, run: id.clone(), output: None }).await.unwrap();
        let twice = DiffSpec { version: Version, before: id.clone(), after: id.clone() };
        assert!(!history::diff(&context, &twice).await.unwrap().differs, "{id}");
    }
    std::fs::remove_dir_all(&context.home).unwrap();
}

#[tokio::test]
async fn the_spec_of_an_interrupted_sweep_is_read_and_written_as_before() {
    let context = store("sweep");
    let listed = history::list(&context, &RUNS).await.unwrap();
    let run = &listed.iter().find(|run| run.run.verdict.is_none()).unwrap().run;
    let spec: StoredSpec = serde_json::from_value(run.spec.clone()).unwrap();
    assert_eq!(spec.expect.status.as_deref(), Some("200"));
    assert_eq!(spec.expect.body.as_deref(), Some("hello"));
    assert_eq!(spec.expect.max_latency_ms, Some(9000));
    spec.expect.oracle().unwrap();
    assert_eq!(serde_json::to_value(&spec).unwrap(), run.spec, "names on disk stay");
    std::fs::remove_dir_all(&context.home).unwrap();
}
