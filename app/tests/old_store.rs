//! Stores written by 0.1.0, before the use cases had specs of their own and before many fields were renamed, work as
//! they did. Each field that has another name in Rust than on disk is read from one of them.
//!
//! `tests/stores/0.1.0` holds, newest first: a map, a campaign of flips, an import, an interrupted sweep with every
//! kind of condition, a finished sweep, a recording with a fault, a recording.
//!
//! `tests/stores/0.1.0-findings` holds, newest first: a flip in a process that survived, flips in a process that
//! crashed, a campaign with undetected flips, two maps of an hour apart, a recording with a comparison of its sockets,
//! a sweep with two bugs. Four services of one program: front calls ads, whose failure it ignores, and cart, which
//! calls stock.

use app::history::{DiffSpec, ReportSpec, RunsSpec, ShowSpec};
use app::kind::Difference;
use app::kinds::flip::spec_of;
use app::kinds::sweep::StoredSpec;
use app::socket_comparison::SocketComparison;
use app::spec::Version;
use app::view::{Block, Mark};
use app::{Context, history, socket_comparison};
use flows::ObservedBy;
use model::campaign::{Campaign, DeviationKind, Latency, Logged};
use model::flip::{FlipGroup, FlipType, Outcome};
use model::sweep::{Bug, Case, Space};
use model::trace::Trace;
use model::{KindName, Run, Verdict};
use std::collections::BTreeSet;
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

/// A copy of a stored folder for one test, because opening a store writes to it.
pub(crate) fn store(folder: &str, name: &str) -> Context {
    let home = std::env::temp_dir().join(format!("faultloom-old-store-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&home);
    copy(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/stores").join(folder), &home);
    Context::new(home)
}

/// The runs of a store, newest first.
async fn runs(context: &Context) -> Vec<Run> {
    history::list(context, &RUNS).await.unwrap().into_iter().map(|listed| listed.run).collect()
}

async fn shown(context: &Context, run: &Run) -> Vec<Block> {
    let spec = ShowSpec { version: Version, run: run.id.to_string() };
    history::show(context, &spec).await.unwrap().view.blocks
}

async fn diff(context: &Context, before: &Run, after: &Run) -> Difference {
    let spec = DiffSpec { version: Version, before: before.id.to_string(), after: after.id.to_string() };
    history::diff(context, &spec).await.unwrap()
}

/// Every run that is finished is shown, equal to itself and has a report.
async fn check_each(context: &Context) {
    for run in runs(context).await.iter().filter(|run| run.verdict.is_some()) {
        assert!(!shown(context, run).await.is_empty(), "{}", run.id);
        assert!(!diff(context, run, run).await.differs, "{}", run.id);
        let report = ReportSpec { version: Version, run: run.id.to_string(), output: None, unredacted: false };
        history::report(context, &report).await.unwrap();
    }
}

#[tokio::test]
async fn runs_of_every_kind_are_listed_shown_and_reported() {
    let context = store("0.1.0", "kinds");
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
    check_each(&context).await;
    std::fs::remove_dir_all(&context.home).unwrap();
}

#[tokio::test]
async fn the_spec_of_an_interrupted_sweep_is_read_and_written_as_before() {
    let context = store("0.1.0", "sweep");
    let listed = history::list(&context, &RUNS).await.unwrap();
    let run = &listed.iter().find(|run| run.run.verdict.is_none()).unwrap().run;
    let spec: StoredSpec = serde_json::from_value(run.spec.clone()).unwrap();
    assert_eq!(spec.expect.status.as_deref(), Some("200"));
    assert_eq!(spec.expect.body.as_deref(), Some("hello"));
    assert_eq!(spec.expect.max_latency_ms, Some(9000));
    spec.expect.check().unwrap();
    assert_eq!(serde_json::to_value(&spec).unwrap(), run.spec, "names on disk stay");
    std::fs::remove_dir_all(&context.home).unwrap();
}

#[tokio::test]
async fn findings_are_listed_shown_compared_and_reported() {
    let context = store("0.1.0-findings", "findings");
    let listed = history::list(&context, &RUNS).await.unwrap();
    let found: Vec<(&str, Option<Verdict>, &str)> =
        listed.iter().map(|run| (run.run.kind.as_str(), run.run.verdict, run.summary.as_str())).collect();
    let expected = [
        ("flip", Verdict::Pass, "1 flip, 0 errors, 0 undetected"),
        ("flip", Verdict::Pass, "2 flips, 1 error, 0 undetected"),
        ("flip", Verdict::Fail, "26 flips, 15 errors, 2 undetected"),
        ("map", Verdict::Pass, "5 nodes, 3 edges"),
        ("map", Verdict::Pass, "4 nodes, 3 edges"),
        ("recording", Verdict::Pass, "3 calls, status 200"),
        ("sweep", Verdict::Fail, "11 cases, 8 failed, 2 bugs"),
    ];
    assert_eq!(found, expected.map(|(kind, verdict, summary)| (kind, Some(verdict), summary)));
    check_each(&context).await;

    let [survivor, _, campaign, later, earlier, recording, sweep] = &runs(&context).await[..] else { unreachable!() };
    let maps = diff(&context, earlier, later).await;
    let [Block::GraphChanges { changes, .. }, _] = &maps.view.blocks[..] else { panic!("changes of a map") };
    assert_eq!((maps.differs, changes.len()), (true, 3), "redis, its edge, and the edge to ads: {changes:?}");
    assert!(!diff(&context, sweep, recording).await.differs, "the same request without faults");
    let flips = diff(&context, campaign, survivor).await;
    let [_, Block::Changes(rows), _] = &flips.view.blocks[..] else { panic!("rows of two campaigns") };
    assert_eq!(
        rows.iter().map(|row| (row.subject.as_str(), row.mark)).collect::<Vec<_>>()[..],
        [("DF", Mark::Same), ("WVAL", Mark::Same)]
    );
    std::fs::remove_dir_all(&context.home).unwrap();
}

/// The run of a kind with the number `index` of that kind, newest first.
async fn run(context: &Context, kind: &'static str, index: usize) -> Run {
    let kind = KindName::new(kind);
    runs(context).await.into_iter().filter(|run| run.kind == kind).nth(index).unwrap()
}

/// The good run, the spaces and the bugs.
async fn sweep(context: &Context) -> (Trace, Vec<Space>, Vec<Bug>) {
    let blocks = shown(context, &run(context, "sweep", 0).await).await;
    let [_, Block::Traces { traces, .. }, Block::Spaces(spaces), Block::Bugs { bugs, .. }] = &blocks[..] else {
        panic!("the blocks of a sweep")
    };
    (traces[0].clone(), spaces.clone(), bugs.clone())
}

#[tokio::test]
async fn bugs_and_behaviors_of_a_sweep_are_read() {
    let context = store("0.1.0-findings", "bugs");
    let (good, spaces, bugs) = sweep(&context).await;
    let counts: Vec<(&str, u64, u64, u64)> =
        spaces.iter().map(|s| (s.name.as_str(), s.cases, s.failures, s.behaviors)).collect();
    assert_eq!(counts, [("services", 8, 6, 6), ("crash-points", 3, 2, 3)]);

    let [cart, stock] = &bugs[..] else { panic!("two bugs") };
    assert_eq!((cart.name.as_str(), cart.title.as_str()), ("SimpleRLFI", "cart fails"));
    assert_eq!((cart.mistake.as_str(), cart.failing_cases), ("a missing check", 5));
    assert_eq!(cart.again, "faultloom record --fault 'cart unavailable'");
    assert_eq!(cart.faults, ["cart unavailable".parse().unwrap()]);
    assert_eq!((stock.failed.caller.as_str(), stock.failed.callee.as_str()), ("cart", "stock"));
    assert_eq!(stock.story[1], "cart/GET / answered with status 500; front did not handle that and answered 500.");
    assert_eq!(stock.spaces, ["services", "crash-points"]);

    // fingerprints are compared with new ones when a sweep is resumed
    let dir = context.store().await.unwrap().dir(run(&context, "sweep", 0).await.id);
    let cases: Vec<Case> = dir.records("cases.jsonl").unwrap();
    let fingerprint = |sites: &[u32]| cases.iter().find(|case| case.sites == sites).unwrap().fingerprint;
    assert_eq!(explore::fingerprint::of(&good), fingerprint(&[]));
    assert_eq!(explore::fingerprint::of(&cart.trace), fingerprint(&[1]));
    assert_eq!(explore::fingerprint::of(&stock.trace), fingerprint(&[2]));
    let distinct: BTreeSet<u64> = cases.iter().filter(|case| case.space == 0).map(|case| case.fingerprint).collect();
    assert_eq!(distinct.len() as u64, spaces[0].behaviors);
    std::fs::remove_dir_all(&context.home).unwrap();
}

#[tokio::test]
async fn a_comparison_of_sockets_is_read_and_reported() {
    let context = store("0.1.0-findings", "sockets");
    let recording = run(&context, "recording", 0).await;
    let dir = context.store().await.unwrap().dir(recording.id);
    let SocketComparison { graph, rows } = socket_comparison::load(&dir).unwrap().unwrap();
    assert_eq!((graph.nodes.len(), graph.edges.len()), (4, 3));
    let found: Vec<(&str, &str, ObservedBy, bool)> =
        rows.iter().map(|r| (r.from.as_str(), r.to.as_str(), r.observed_by, r.reason.is_empty())).collect();
    let expected = [
        ("cart", "redis", ObservedBy::Sockets, false),
        ("cart", "stock", ObservedBy::Both, true),
        ("client", "front", ObservedBy::Messages, false),
        ("front", "ads", ObservedBy::Messages, false),
        ("front", "cart", ObservedBy::Both, true),
    ];
    assert_eq!(found, expected);
    assert!(rows[0].reason.starts_with("redis is no service of the target"), "{}", rows[0].reason);
    let report = ReportSpec { version: Version, run: recording.id.to_string(), output: None, unredacted: false };
    let page = std::fs::read_to_string(history::report(&context, &report).await.unwrap().path).unwrap();
    assert!(page.contains("redis is no service of the target"));
    std::fs::remove_dir_all(&context.home).unwrap();
}

async fn campaign(context: &Context, index: usize) -> Campaign {
    match &shown(context, &run(context, "flip", index).await).await[..] {
        [Block::Campaign { campaign, .. }] => campaign.clone(),
        _ => panic!("one campaign"),
    }
}

#[tokio::test]
async fn undetected_flips_and_their_latency_are_read() {
    let context = store("0.1.0-findings", "campaign");
    let campaign = campaign(&context, 2).await;
    let variant = &campaign.variants[0];
    let latency = |undetected, errors, at_once, p90, max| Latency {
        group: FlipGroup::Df,
        undetected,
        errors,
        at_once,
        median: 0,
        p90,
        max,
    };
    assert_eq!(variant.latency, [latency(true, 2, 2, 0, 0), latency(false, 13, 10, 1, 5)]);
    let stories: Vec<_> = variant.stories.iter().map(|story| (story.id, story.deviation.as_ref().unwrap())).collect();
    let [(13, space), (21, whole)] = stories[..] else { panic!("two undetected flips: {stories:?}") };
    assert_eq!((space.kind, space.reply, space.replies, space.byte), (DeviationKind::Corrupt, 1, 8, 3));
    assert_eq!((space.golden.as_str(), space.actual.as_str()), ("2\\n", "2 \\n"));
    assert_eq!((whole.golden.as_str(), whole.actual.as_str()), ("1\\n", "42\\n"));
    assert_eq!(whole.replies_since, Some(0));

    // the tables are counted from the log when a campaign is resumed
    let stored = run(&context, "flip", 2).await;
    assert_eq!(spec_of(&stored).unwrap().draw.types, [(FlipType::Wval, 26)]);
    let log: Vec<Logged> = context.store().await.unwrap().dir(stored.id).records("injections.jsonl").unwrap();
    assert_eq!(log.len(), 27, "26 flips and a control");
    let undetected: Vec<&Logged> = log.iter().filter(|line| line.outcome == Some(Outcome::Undetected)).collect();
    assert_eq!(undetected.len(), 2);
    for line in undetected {
        assert!(variant.stories.contains(line));
    }
    std::fs::remove_dir_all(&context.home).unwrap();
}

#[tokio::test]
async fn flips_in_running_processes_are_read() {
    let context = store("0.1.0-findings", "live");
    for (index, is_running, after_each) in [(0, true, &[true][..]), (1, false, &[true, false])] {
        let campaign = campaign(&context, index).await;
        let live = campaign.variants[0].live.as_ref().unwrap();
        assert_eq!((live.is_running, live.check.as_deref()), (is_running, Some("true")));
        let flips: Vec<bool> = live.flips.iter().map(|flip| flip.live.unwrap().is_running).collect();
        assert_eq!(flips, after_each);
        let stored = run(&context, "flip", index).await;
        let spec = spec_of(&stored).unwrap().live.unwrap();
        assert_eq!((spec.pid, spec.flips as usize), (live.pid, after_each.len()));
        let log: Vec<Logged> = context.store().await.unwrap().dir(stored.id).records("injections.jsonl").unwrap();
        assert_eq!(
            log.iter().filter(|line| line.live.is_some()).collect::<Vec<_>>(),
            live.flips.iter().collect::<Vec<_>>()
        );
    }
    std::fs::remove_dir_all(&context.home).unwrap();
}
