//! Writes the view model of made-up runs as files whose paths are those of the API, to develop the workbench and to
//! test and measure it without a target.
//!
//! `cargo run -p report --example view_fixture -- FOLDER [SPANS]`

#[path = "fixture/flips.rs"]
mod flips;
#[path = "fixture/net.rs"]
mod net;
#[path = "fixture/shop.rs"]
mod shop;

use model::sweep::{Case, Sweep};
use model::trace::Trace;
use model::{KindName, Run, Verdict};
use report::view::{Audience, FlipView, Head, MapView, RecordingView, RunHead, RunView, SweepView, TraceView, compare};
use report::{FlipReport, MapReport, RecordingReport, SweepReport};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(folder) = arguments.first() else {
        eprintln!("usage: view_fixture FOLDER [SPANS]");
        std::process::exit(2);
    };
    let spans = arguments.get(1).and_then(|text| text.parse().ok());
    write_all(&Path::new(folder).join("api/v1"), spans)
}

/// Each with an id of its own.
fn run(kind: KindName, title: &str, verdict: Option<Verdict>) -> Run {
    static RUNS: AtomicU8 = AtomicU8::new(1);
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    let id = format!("019aa3b4-5c6d-7e8f-9a0b-1c2d3e4f5a{number:02x}");
    Run { id: id.parse().expect("an id"), ..shop::run(kind, title, verdict) }
}

fn head(summary: &str) -> Head {
    Head { audience: Audience::Owner, summary: summary.to_owned() }
}

fn write_all(api: &Path, spans: Option<usize>) -> std::io::Result<()> {
    let (mut sweep, mut cases) = shop::sweep();
    mark_behaviors(&mut sweep, &mut cases);
    let sweep_run = run(KindName::new("sweep"), "GET http://127.0.0.1:8080/", Some(Verdict::Fail));
    let report = SweepReport { run: &sweep_run, sweep: &sweep, cases: &cases, sockets: None };
    let has_trace = |fingerprint| sweep.bugs.iter().any(|bug| bug.behaviors.contains(&fingerprint));
    let sweep_view = SweepView::of(&report, head("16,912 cases, 10,364 failed, 2 bugs"), &has_trace);
    let of_sweep = api.join("runs").join(&sweep_view.run.id);
    for space in 0..sweep.spaces.len() {
        write(&of_sweep.join("cases"), &space.to_string(), &SweepView::cases(&report, space))?;
    }
    let good: (&Trace, &[model::Fault]) = (&sweep.good, &[]);
    write(&of_sweep.join("traces"), "main", &TraceView::of(&sweep.good, &[]))?;
    let from = format!("{}/main", sweep_view.run.id);
    for (i, bug) in sweep.bugs.iter().enumerate() {
        let to = format!("{}/bug-{}", sweep_view.run.id, i + 1);
        let compared = compare(good, (&bug.trace, &bug.faults));
        write(&api.join("comparison").join(&from), &to, &compared)?;
        for fingerprint in &bug.behaviors {
            let to = format!("{}/behavior-{fingerprint:016x}", sweep_view.run.id);
            write(&api.join("comparison").join(&from), &to, &compared)?;
        }
    }

    let recording_run = run(KindName::new("recording"), "GET http://127.0.0.1:8080/checkout", Some(Verdict::Pass));
    let faults = ["currency/Convert#3 unavailable", "email unavailable"].map(|fault| fault.parse().expect("a fault"));
    let traces = match spans {
        Some(spans) => vec![large(spans)],
        None => vec![shop::good(), shop::checkout()],
    };
    let report = RecordingReport { run: &recording_run, traces: &traces, left_out: 0, faults: &faults, sockets: None };
    let recording_view = RecordingView::of(
        &report,
        head("14 calls, status 200"),
        "faultloom record http://127.0.0.1:8080/checkout --fault 'email unavailable'".to_owned(),
    );

    let map_run = run(KindName::new("map"), "last hour", None);
    let map_view = MapView::of(&MapReport { run: &map_run, graph: &net::fleet(40) }, head("40 nodes, 71 edges"));

    let flip_run = run(KindName::new("flip"), "memcached, memcached-sei", Some(Verdict::Fail));
    let campaign = flips::campaign();
    let flip_view = FlipView::of(&FlipReport { run: &flip_run, campaign: &campaign }, head("24,000 flips"));

    let unfinished =
        Run { end_ms: None, verdict: None, ..run(KindName::new("sweep"), "GET http://127.0.0.1:8080/cart", None) };
    let mut heads: Vec<RunHead> = Vec::new();
    for view in [sweep_view, recording_view, map_view, flip_view] {
        heads.push(view.run.clone());
        write_run(api, &view)?;
    }
    heads.push(RunHead::of(&unfinished, String::new()));
    write(api, "runs", &json!({"version": 1, "runs": heads, "has_more": false}))?;
    write(api, "about", &json!({"version": 1, "tool_version": "0.1.0", "allows_runs": false}))
}

/// Behaviors of different spaces get different fingerprints, and belong to the bug that their faults show.
fn mark_behaviors(sweep: &mut Sweep, cases: &mut [Case]) {
    let mut of_bugs = [BTreeSet::new(), BTreeSet::new()];
    for case in cases {
        case.fingerprint += (case.space as u64 + 1) << 32;
        if case.verdict == Verdict::Fail {
            let ads = sweep.spaces[case.space].sites.iter().position(|site| site.fault.selector.callee == "ads");
            let is_deep = ads.is_some_and(|ads| case.fired.contains(&(ads as u32)));
            of_bugs[usize::from(is_deep)].insert(case.fingerprint);
        }
    }
    for (bug, behaviors) in sweep.bugs.iter_mut().zip(of_bugs) {
        bug.behaviors = behaviors;
    }
}

/// A request with many calls: batches that each read a list item by item.
fn large(spans: usize) -> Trace {
    let mut trace = shop::good();
    let Some(scope) = &mut trace.entry.scope else { return trace };
    let template = scope.calls[0].clone();
    let (batches, items) = (spans.isqrt().max(1), spans / spans.isqrt().max(1));
    let mut now_us = 100;
    scope.calls = (0..batches)
        .map(|batch| {
            let mut call = template.clone();
            call.number = batch as u32 + 1;
            call.sent_us = now_us;
            let mut inner = Vec::with_capacity(items);
            for item in 0..items {
                let mut one = template.clone();
                one.caller = template.callee.clone();
                one.number = item as u32 + 1;
                one.sent_us = item as u64 * 90;
                one.ended_us = Some(one.sent_us + 40 + (item as u64 * 7919) % 45);
                if let Some(scope) = &mut one.scope {
                    scope.answered_us = Some(30);
                }
                inner.push(one);
            }
            let took = items as u64 * 90 + 200;
            if let Some(scope) = &mut call.scope {
                scope.answered_us = Some(took - 100);
                scope.calls = inner;
            }
            call.ended_us = Some(now_us + took);
            now_us += took + 20;
            call
        })
        .collect();
    scope.answered_us = Some(now_us + 100);
    trace.entry.ended_us = Some(now_us + 300);
    trace
}

fn write_run(api: &Path, view: &RunView) -> std::io::Result<()> {
    write(&api.join("runs").join(&view.run.id), "view", view)
}

fn write(folder: &Path, name: &str, value: &impl Serialize) -> std::io::Result<()> {
    let path = folder.join(format!("{name}.json"));
    std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
    let file = std::io::BufWriter::new(std::fs::File::create(path)?);
    serde_json::to_writer(file, value).map_err(std::io::Error::other)
}
