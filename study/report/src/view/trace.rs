//! A trace as columns, one row per call in the order of sending, each before the calls that it caused.
//!
//! Clocks of different services are never compared: a callee's own part is in the center of the call that caused it, as
//! if both directions took equally long.

use super::column::{NONE, Texts, U8Column, U32Column, saturating_u32};
use crate::align::{Placed, place_below, place_entry};
use crate::services::Services;
use model::Fault;
use model::trace::{Call, Outcome, Protocol, Trace};
use schemars::JsonSchema;
use serde::Serialize;

/// How a call ended.
pub mod outcome {
    pub const OK: u8 = 0;
    /// A reply with an error status.
    pub const ERROR: u8 = 1;
    /// No reply was received.
    pub const FAILED: u8 = 2;
    /// The caller replied before the call ended.
    pub const OPEN: u8 = 3;
}

/// Bits of [`TraceView::flags`].
pub mod flag {
    pub const GAP: u8 = 1;
    pub const INHERITED: u8 = 2;
    pub const FAULTS_OFF: u8 = 4;
    /// HTTP; without it, gRPC.
    pub const HTTP: u8 = 8;
    /// The callee returned a history.
    pub const RECORDED: u8 = 16;
}

/// A text about one row.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RowText {
    pub row: u32,
    pub text: String,
}

/// A number about one row.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RowNumber {
    pub row: u32,
    pub value: u64,
}

/// Times are ticks since the request was sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TraceView {
    pub trace_id: String,
    /// Number of rows. Row 0 is the request itself.
    pub rows: u32,
    /// µs per tick: 1, unless the request took longer than 71 minutes.
    pub us_per_tick: u32,
    /// The last moment of any row.
    pub extent_ticks: u32,
    pub services: Vec<String>,
    /// For display: routes, or names of methods.
    pub labels: Vec<String>,
    /// The callers' names for the calls, which fault selectors match.
    pub names: Vec<String>,
    pub peers: Vec<String>,
    /// The row of the call that caused this one; none for row 0.
    pub parent: U32Column,
    pub depth: U32Column,
    /// The callee: index into `services`.
    pub service: U32Column,
    /// Index into `labels`.
    pub label: U32Column,
    /// Index into `names`.
    pub name: U32Column,
    /// Index into `peers`.
    pub peer: U32Column,
    pub start_ticks: U32Column,
    pub end_ticks: U32Column,
    /// The callee's own part; none without a history.
    pub callee_start_ticks: U32Column,
    pub callee_end_ticks: U32Column,
    /// 0 ok, 1 error status, 2 failed without a reply, 3 open.
    pub outcome: U8Column,
    /// HTTP status or gRPC code; none if open.
    pub status: U32Column,
    /// Bits: 1 gap, 2 inherited, 4 faults off at the callee, 8 HTTP, 16 the callee's history is recorded.
    pub flags: U8Column,
    /// Faults that fired, in the notation of `--fault`.
    pub faults: Vec<RowText>,
    /// Why something may be missing at a row.
    pub gaps: Vec<RowText>,
    /// µs that a call spent on a connection of its own.
    pub connect_us: Vec<RowNumber>,
}

impl TraceView {
    /// `faults`: the plan that [`Call::fault`] points into.
    pub fn of(trace: &Trace, faults: &[Fault]) -> TraceView {
        let services = Services::of(std::iter::once(trace));
        let placed = place_all(trace);
        let extent = placed.iter().map(|(_, p)| p.end.max(p.scope.map_or(0.0, |c| c.1))).fold(1.0, f64::max);
        let us_per_tick = (extent / f64::from(NONE - 2)).ceil().max(1.0);
        let ticks = |us: f64| (us / us_per_tick).round().max(0.0) as u32;
        let mut view = TraceView {
            trace_id: trace.trace_id.clone(),
            rows: saturating_u32(placed.len() as u64),
            us_per_tick: us_per_tick as u32,
            extent_ticks: ticks(extent),
            ..TraceView::default()
        };
        let (mut names, mut labels) = (Texts::default(), Texts::default());
        let (mut callees, mut peers) = (Texts::default(), Texts::default());
        let mut rows: Vec<u32> = Vec::new(); // of the open calls, by depth
        for (row, (depth, p)) in placed.iter().enumerate() {
            let (row, call) = (saturating_u32(row as u64), p.call);
            rows.truncate(*depth);
            view.parent.0.push(rows.last().copied().unwrap_or(NONE));
            rows.push(row);
            view.depth.0.push(saturating_u32(*depth as u64));
            view.service.0.push(callees.index(services.name(call)));
            view.label.0.push(labels.index(call.label()));
            view.name.0.push(names.index(&call.name));
            view.peer.0.push(peers.index(&call.peer));
            view.start_ticks.0.push(ticks(p.start));
            view.end_ticks.0.push(ticks(p.end));
            view.callee_start_ticks.0.push(p.scope.map_or(NONE, |c| ticks(c.0)));
            view.callee_end_ticks.0.push(p.scope.map_or(NONE, |c| ticks(c.1)));
            let (outcome, status) = outcome_of(call);
            view.outcome.0.push(outcome);
            view.status.0.push(status);
            view.flags.0.push(flags_of(call));
            if let Some(index) = call.fault {
                let text = faults.get(index).map_or(format!("fault {}", index + 1), ToString::to_string);
                view.faults.push(RowText { row, text });
            }
            view.gaps.extend(call.gap_reasons().into_iter().map(|reason| RowText { row, text: reason.to_string() }));
            view.connect_us.extend(call.connect_us.map(|value| RowNumber { row, value }));
        }
        (view.names, view.labels, view.services, view.peers) = (names.list, labels.list, callees.list, peers.list);
        view
    }
}

fn outcome_of(call: &Call) -> (u8, u32) {
    match call.outcome {
        Outcome::Replied { status } if call.is_ok() => (outcome::OK, status),
        Outcome::Replied { status } => (outcome::ERROR, status),
        Outcome::Failed { status } => (outcome::FAILED, status),
        Outcome::Open => (outcome::OPEN, NONE),
    }
}

fn flags_of(call: &Call) -> u8 {
    let scope = call.scope.as_deref();
    let set = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
    set(call.gap || call.unreadable.is_some() || scope.is_some_and(|s| s.is_incomplete()), flag::GAP)
        | set(call.inherited, flag::INHERITED)
        | set(scope.is_some_and(|s| s.faults_off), flag::FAULTS_OFF)
        | set(call.protocol == Protocol::Http, flag::HTTP)
        | set(scope.is_some(), flag::RECORDED)
}

/// All calls with their depth, the entry first. In a loop, because an imported trace may be very deep.
fn place_all(trace: &Trace) -> Vec<(usize, Placed<'_>)> {
    let entry = place_entry(&trace.entry);
    let mut placed = vec![(0, entry)];
    let mut open = vec![entry]; // by depth
    for (depth, call) in trace.walk_with_depth() {
        open.truncate(depth);
        let Some(parent) = open.last() else { continue };
        let p = place_below(parent, call);
        open.push(p);
        placed.push((depth, p));
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shop;

    #[test]
    fn a_row_names_its_caller_by_the_row_of_that_call() {
        let trace = shop::checkout();
        let view = TraceView::of(&trace, &[]);
        assert_eq!(view.rows as usize, trace.walk().len() + 1);
        assert_eq!(view.parent.0[0], NONE);
        for (row, (depth, call)) in trace.walk_with_depth().into_iter().enumerate() {
            let parent = view.parent.0[row + 1] as usize;
            assert_eq!(view.depth.0[parent] as usize, depth - 1);
            let service = |row: usize| view.services[view.service.0[row] as usize].as_str();
            assert_eq!(service(parent), call.caller);
            // a call that failed has only its caller's name for the peer
            assert!(call.scope.is_none() || service(row + 1) == call.callee);
        }
    }

    #[test]
    fn calls_lie_inside_of_the_request() {
        let view = TraceView::of(&shop::good(), &[]);
        for row in 0..view.rows as usize {
            assert!(view.start_ticks.0[row] <= view.end_ticks.0[row]);
            assert!(view.end_ticks.0[row] <= view.extent_ticks);
        }
        assert_eq!(view.us_per_tick, 1);
    }

    #[test]
    fn a_fault_is_named_at_the_call_where_it_fired() {
        let (sweep, _) = shop::sweep();
        let bug = &sweep.bugs[0];
        let view = TraceView::of(&bug.trace, &bug.faults);
        let texts: Vec<&str> = view.faults.iter().map(|fault| fault.text.as_str()).collect();
        assert_eq!(texts, [bug.faults[0].to_string()]);
        assert_eq!(view.outcome.0[view.faults[0].row as usize], outcome::FAILED);
    }

    #[test]
    fn a_request_of_two_hours_keeps_its_proportions() {
        let mut trace = shop::good();
        let hours_us = 2 * 3_600_000_000;
        trace.entry.ended_us = Some(trace.entry.sent_us + hours_us);
        let view = TraceView::of(&trace, &[]);
        assert_eq!(view.us_per_tick, 2);
        assert_eq!(u64::from(view.end_ticks.0[0]) * 2, hours_us);
    }
}
