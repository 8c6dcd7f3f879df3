//! Two requests compared call by call, in the order in which the calls were sent.

use crate::Context;
use crate::kind::{Difference, RunKind, Selection, StoredRun};
use crate::text::outcome;
use crate::view::{Block, Change, Mark, View};
use model::Failure;
use model::trace::{Call, Trace};
use serde_json::json;

/// Compares the first request of each run.
pub fn diff<A: RunKind + ?Sized, B: RunKind + ?Sized>(
    context: &Context,
    before: (&A, &StoredRun),
    after: (&B, &StoredRun),
) -> Result<Difference, Failure> {
    let before = first(before.0.traces(context, before.1, Selection::Main)?.traces, before.1)?;
    let after = first(after.0.traces(context, after.1, Selection::Main)?.traces, after.1)?;
    let pairs = align(&before, &after);
    let differences = pairs.iter().filter(|pair| mark(pair) != Mark::Same).count();
    let same = pairs.len() - differences;
    let fields = json!({
        "differences": differences,
        "calls": pairs.iter().map(row).collect::<Vec<_>>(),
        "entry": [outcome(&before.entry), outcome(&after.entry)],
    });
    let mut changes = vec![Change {
        mark: Mark::Same,
        subject: before.entry.label().to_owned(),
        before: Some(outcome(&before.entry)),
        after: Some(outcome(&after.entry)),
        injected: false,
    }];
    changes.extend(pairs.iter().filter(|pair| mark(pair) != Mark::Same).map(change));
    let blocks = vec![Block::Changes(changes), Block::Line(format!("{differences} different, {same} the same"))];
    let differs = differences > 0 || before.entry.outcome != after.entry.outcome;
    Ok(Difference { differs, view: View::new(fields, blocks) })
}

fn first(traces: Vec<Trace>, stored: &StoredRun) -> Result<Trace, Failure> {
    let missing = || Failure::request(format!("run {} has no trace", stored.run.id.short()));
    traces.into_iter().next().ok_or_else(missing)
}

/// The same call in both requests, or a call of one of them.
type Pair<'a> = (Option<&'a Call>, Option<&'a Call>);

fn mark(pair: &Pair) -> Mark {
    match pair {
        (Some(a), Some(b)) if a.outcome == b.outcome && a.fault.is_some() == b.fault.is_some() => Mark::Same,
        (Some(_), Some(_)) => Mark::Different,
        (Some(_), None) => Mark::Removed,
        (None, _) => Mark::Added,
    }
}

fn change(pair: &Pair) -> Change {
    let call = pair.1.or(pair.0);
    Change {
        mark: mark(pair),
        subject: call.map_or(String::new(), |c| format!("{} → {}/{}", c.caller, c.callee, c.label())),
        before: pair.0.map(outcome),
        after: pair.1.map(outcome),
        injected: pair.0.is_some() && pair.1.is_some_and(|c| c.fault.is_some()),
    }
}

fn row(pair: &Pair) -> serde_json::Value {
    let call = |c: &Call| json!({"caller": c.caller, "callee": c.callee, "call": c.label(), "outcome": outcome(c), "fault": c.fault});
    match (mark(pair), pair) {
        (Mark::Same, (_, Some(b))) => json!({"change": "same", "after": call(b)}),
        (_, (Some(a), Some(b))) => json!({"change": "outcome", "before": call(a), "after": call(b)}),
        (_, (Some(a), None)) => json!({"change": "gone", "before": call(a)}),
        (_, (None, Some(b))) => json!({"change": "new", "after": call(b)}),
        (_, (None, None)) => json!(null),
    }
}

/// Pairs calls with the same caller, callee and label, in order.
fn align<'a>(before: &'a Trace, after: &'a Trace) -> Vec<Pair<'a>> {
    let (a, b) = (before.walk(), after.walk());
    let keys = |calls: &[&'a Call]| {
        calls.iter().map(|c| (c.caller.as_str(), c.callee.as_str(), c.label())).collect::<Vec<_>>()
    };
    let pairs = report::lcs::align(&keys(&a), &keys(&b));
    pairs.into_iter().map(|(i, j)| (i.map(|i| a[i]), j.map(|j| b[j]))).collect()
}
