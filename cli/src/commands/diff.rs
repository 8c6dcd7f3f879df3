//! `faultloom diff`: what two runs did differently, call by call.

use crate::args::Diff;
use crate::commands::flip_diff;
use crate::context::Context;
use crate::render::tree::outcome;
use app::text::printable;
use model::trace::{Call, Trace};
use model::{Exit, Failure, Run, RunKind};
use runs::Store;
use serde_json::json;

#[derive(Debug, PartialEq, Eq)]
pub enum Change<'a> {
    Same(&'a Call, &'a Call),
    Outcome(&'a Call, &'a Call),
    Gone(&'a Call),
    New(&'a Call),
}

pub async fn diff(context: &Context, args: &Diff) -> Result<Exit, Failure> {
    let store = context.store().await?;
    let [one, two] = [store.find(&args.before).await?, store.find(&args.after).await?];
    if one.kind == RunKind::Map && two.kind == RunKind::Map {
        return maps(context, &store, &one, &two);
    }
    if one.kind == RunKind::Flip && two.kind == RunKind::Flip {
        return flip_diff::campaigns(context, &store, &one, &two);
    }
    let before = trace(context, &store, &args.before).await?;
    let after = trace(context, &store, &args.after).await?;
    let changes = compare(&before, &after);
    let differences = changes.iter().filter(|c| !matches!(c, Change::Same(..))).count();
    if context.common.json {
        let rows: Vec<_> = changes.iter().map(row).collect();
        println!(
            "{}",
            json!({"differences": differences, "calls": rows, "entry": [outcome(&before.entry), outcome(&after.entry)]})
        );
    } else {
        println!("  {:<52} {} → {}", printable(before.entry.label()), outcome(&before.entry), outcome(&after.entry));
        for change in &changes {
            let name = |c: &Call| printable(&format!("{} → {}/{}", c.caller, c.callee, c.label()));
            match change {
                Change::Same(..) => {}
                Change::Outcome(a, b) => println!(
                    "≠ {:<52} {} → {}{}",
                    name(b),
                    outcome(a),
                    outcome(b),
                    if b.fault.is_some() { "  ⚡ injected" } else { "" }
                ),
                Change::Gone(a) => println!("− {:<52} {}", name(a), outcome(a)),
                Change::New(b) => println!("+ {:<52} {}", name(b), outcome(b)),
            }
        }
        let same = changes.len() - differences;
        println!("{differences} different, {same} the same");
    }
    Ok(if differences == 0 && before.entry.outcome == after.entry.outcome { Exit::Pass } else { Exit::Fail })
}

/// What is there in one of two maps, or began to fail.
fn maps(context: &Context, store: &Store, before: &Run, after: &Run) -> Result<Exit, Failure> {
    let graph = |run: &Run| store.dir(run.id).read_json::<flows::Graph>("graph.json");
    let (before, after) = (graph(before)?, graph(after)?);
    let changes = map::changes(&before, &after);
    if context.common.json {
        println!("{}", json!({"differences": changes.len(), "changes": changes}));
    } else {
        print!("{}", crate::render::map::differences(&before, &after, &changes));
        println!("{} different", changes.len());
    }
    Ok(if changes.is_empty() { Exit::Pass } else { Exit::Fail })
}

/// The first trace of a recording, or the good run of a sweep.
async fn trace(context: &Context, store: &Store, text: &str) -> Result<Trace, Failure> {
    let run = store.find(text).await?;
    let dir = store.dir(run.id);
    match run.kind {
        RunKind::Recording => dir
            .records::<Trace>("traces.jsonl")?
            .into_iter()
            .next()
            .ok_or_else(|| Failure::request(format!("run {} has no trace", run.id.short()))),
        RunKind::Sweep => Ok(crate::commands::show::read_sweep(context, &run, &dir)?.good),
        RunKind::Map => Err(Failure::request(format!("run {} is a map, the other is none", run.id.short()))
            .next("compare a map with a map, requests with requests")),
        RunKind::Flip => {
            Err(Failure::request(format!("run {} is a campaign of bit flips, the other is none", run.id.short()))
                .next("compare a campaign with a campaign, requests with requests"))
        }
    }
}

fn row(change: &Change) -> serde_json::Value {
    let call = |c: &Call| json!({"caller": c.caller, "callee": c.callee, "call": c.label(), "outcome": outcome(c), "fault": c.fault});
    match change {
        Change::Same(_, b) => json!({"change": "same", "after": call(b)}),
        Change::Outcome(a, b) => json!({"change": "outcome", "before": call(a), "after": call(b)}),
        Change::Gone(a) => json!({"change": "gone", "before": call(a)}),
        Change::New(b) => json!({"change": "new", "after": call(b)}),
    }
}

/// Longest common subsequence over the calls in the order in which they were sent.
pub fn compare<'a>(before: &'a Trace, after: &'a Trace) -> Vec<Change<'a>> {
    let (a, b) = (before.walk(), after.walk());
    let alike = |x: &Call, y: &Call| x.caller == y.caller && x.callee == y.callee && x.label() == y.label();
    let mut lengths = vec![vec![0u32; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            lengths[i][j] =
                if alike(a[i], b[j]) { lengths[i + 1][j + 1] + 1 } else { lengths[i + 1][j].max(lengths[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut out) = (0, 0, Vec::new());
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && alike(a[i], b[j]) {
            out.push(if a[i].outcome == b[j].outcome && a[i].fault.is_some() == b[j].fault.is_some() {
                Change::Same(a[i], b[j])
            } else {
                Change::Outcome(a[i], b[j])
            });
            (i, j) = (i + 1, j + 1);
        } else if j >= b.len() || (i < a.len() && lengths[i + 1][j] >= lengths[i][j + 1]) {
            out.push(Change::Gone(a[i]));
            i += 1;
        } else {
            out.push(Change::New(b[j]));
            j += 1;
        }
    }
    out
}
