//! Two requests as one tree: which call of one corresponds to which of the other.

use super::TraceView;
use super::column::{NONE, Texts, U8Column, U32Column, saturating_u32};
use crate::lcs;
use model::Fault;
use model::trace::{Call, Trace};
use schemars::JsonSchema;
use serde::Serialize;

/// How a row of the other request differs from the first.
pub mod change {
    pub const SAME: u8 = 0;
    /// It succeeded in the first request, and not in the other.
    pub const FAILED: u8 = 1;
    /// It ended differently.
    pub const OTHER: u8 = 2;
    pub const MISSING: u8 = 3;
    pub const EXTRA: u8 = 4;
}

/// One merged tree. Rows are in display order, each before those below it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ComparisonView {
    pub first: TraceView,
    pub other: TraceView,
    pub rows: u32,
    pub depth: U32Column,
    /// The row in `first`; none if the call is extra.
    pub first_row: U32Column,
    /// The row in `other`; none if the call is missing.
    pub other_row: U32Column,
    /// 0 same, 1 failed, 2 ended differently, 3 missing, 4 extra.
    pub change: U8Column,
}

/// Calls of the same caller are matched in order by peer and name, then the calls below them likewise.
pub fn compare(first: (&Trace, &[Fault]), other: (&Trace, &[Fault])) -> ComparisonView {
    let mut view = ComparisonView {
        first: TraceView::of(first.0, first.1),
        other: TraceView::of(other.0, other.1),
        ..ComparisonView::default()
    };
    let (left, right) = (Side::of(first.0), Side::of(other.0));
    let keys = Keys::of(&left, &right);
    // pairs to visit, the next one last; in a loop, because an imported trace may be very deep
    let mut pending = vec![(0, Some(0), Some(0))];
    while let Some((depth, l, r)) = pending.pop() {
        view.depth.0.push(saturating_u32(depth));
        view.first_row.0.push(l.map_or(NONE, |row| saturating_u32(row as u64)));
        view.other_row.0.push(r.map_or(NONE, |row| saturating_u32(row as u64)));
        view.change.0.push(change_of(l.map(|row| left.calls[row]), r.map(|row| right.calls[row])));
        let none: &[usize] = &[];
        let (below_l, below_r) = (l.map_or(none, |row| &left.below[row]), r.map_or(none, |row| &right.below[row]));
        let of = |rows: &[usize], keys: &[u32]| rows.iter().map(|row| keys[*row]).collect::<Vec<u32>>();
        let pairs = lcs::align(&of(below_l, &keys.left), &of(below_r, &keys.right));
        pending.extend(pairs.into_iter().rev().map(|(i, j)| (depth + 1, i.map(|i| below_l[i]), j.map(|j| below_r[j]))));
    }
    view.rows = saturating_u32(view.change.0.len() as u64);
    view
}

fn change_of(first: Option<&Call>, other: Option<&Call>) -> u8 {
    match (first, other) {
        (Some(first), Some(other)) if first.outcome == other.outcome => change::SAME,
        (Some(first), Some(other)) if first.is_ok() && !other.is_ok() => change::FAILED,
        (Some(_), Some(_)) => change::OTHER,
        (Some(_), None) => change::MISSING,
        _ => change::EXTRA,
    }
}

/// The calls of a trace by row, and the rows directly below each.
struct Side<'a> {
    calls: Vec<&'a Call>,
    below: Vec<Vec<usize>>,
}

impl<'a> Side<'a> {
    fn of(trace: &'a Trace) -> Side<'a> {
        let mut side = Side { calls: vec![&trace.entry], below: vec![Vec::new()] };
        let mut open = vec![0];
        for (depth, call) in trace.walk_with_depth() {
            open.truncate(depth);
            let row = side.calls.len();
            side.below[open[depth - 1]].push(row);
            side.calls.push(call);
            side.below.push(Vec::new());
            open.push(row);
        }
        side
    }
}

/// Equal for calls to the same peer with the same name.
struct Keys {
    left: Vec<u32>,
    right: Vec<u32>,
}

impl Keys {
    fn of(left: &Side, right: &Side) -> Keys {
        let mut texts = Texts::default();
        let mut of = |call: &&Call| {
            let peer = if call.peer.is_empty() { &call.callee } else { &call.peer };
            texts.index(format!("{peer}\u{ff}{}", call.name))
        };
        Keys { left: left.calls.iter().map(&mut of).collect(), right: right.calls.iter().map(&mut of).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shop;

    fn count(view: &ComparisonView, change: u8) -> usize {
        view.change.0.iter().filter(|one| **one == change).count()
    }

    #[test]
    fn a_failing_request_keeps_its_first_calls_and_misses_the_rest() {
        let (sweep, _) = shop::sweep();
        let bug = &sweep.bugs[0];
        let view = compare((&sweep.good, &[]), (&bug.trace, &bug.faults));
        assert_eq!(view.change.0[0], change::FAILED, "the request itself");
        assert_eq!((count(&view, change::FAILED), count(&view, change::EXTRA)), (2, 0));
        assert_eq!(view.rows as usize, sweep.good.walk().len() + 1);
        let missing = view.first.rows - view.other.rows;
        assert_eq!(count(&view, change::MISSING), missing as usize);
    }

    #[test]
    fn a_call_that_only_the_fallback_makes_is_extra() {
        let (sweep, _) = shop::sweep();
        let bug = &sweep.bugs[1];
        let view = compare((&sweep.good, &[]), (&bug.trace, &bug.faults));
        let extra = view.change.0.iter().position(|one| *one == change::EXTRA).unwrap();
        assert_eq!(view.first_row.0[extra], NONE);
        let row = view.other_row.0[extra] as usize;
        assert_eq!(view.other.labels[view.other.label.0[row] as usize], "Convert");
    }

    #[test]
    fn a_request_compared_with_itself_is_the_same_row_by_row() {
        let good = shop::checkout();
        let view = compare((&good, &[]), (&good, &[]));
        assert_eq!(count(&view, change::SAME), view.rows as usize);
        assert_eq!(view.first_row, view.other_row);
        assert_eq!(view.first_row.0, (0..view.rows).collect::<Vec<u32>>());
        assert_eq!(view.depth, view.first.depth);
    }
}
