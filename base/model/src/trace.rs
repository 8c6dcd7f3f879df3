//! The trace of one request: the causal tree of its calls.
//!
//! A call has a caller's side (sent, ended) and, if the callee answered with a history, a callee's side: its scope with
//! the calls it made in turn. Times inside a scope are µs since that scope's start on that service's own clock; clocks
//! of different services are never compared to order anything.

mod gap;
mod nesting;
mod state_change;

pub use gap::{Gap, GapReason};
pub use nesting::{NESTED_DEPTH_MAX, nest};
pub use state_change::StateEffect;

use serde::{Deserialize, Serialize};
use std::collections::HashSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    Grpc,
    Http,
}

/// How a call ended, as its caller recorded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "outcome")]
pub enum Outcome {
    /// A reply was received, with this gRPC code or HTTP status.
    Replied { status: u32 },
    /// No reply was received; always a gRPC code.
    Failed { status: u32 },
    /// The caller replied before this call ended, or its history was truncated.
    Open,
}

/// The JSON of a deep trace is described in `trace/nesting.rs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    pub trace_id: String,
    pub entry: Call,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// 16 hex digits, unique per call.
    pub id: String,
    /// Position among the calls of its scope, from 1; the entry call has 0.
    pub number: u32,
    pub caller: String,
    /// The callee's own name if it returned a history, else the caller's name for its peer.
    pub callee: String,
    /// The caller's name for the call; fault selectors are matched with it.
    pub name: String,
    pub peer: String,
    pub protocol: Protocol,
    /// µs since the start of the caller's scope.
    pub sent_us: u64,
    pub ended_us: Option<u64>,
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Index into the plan of the fault that fired here.
    pub fault: Option<usize>,
    /// Its context belonged to no request. It was made by a thread or task of this one, or by one that such a task
    /// started, possibly for another request.
    #[serde(default, skip_serializing_if = "is_false")]
    pub inherited: bool,
    /// How long it spent on a connection of its own: name resolution, connecting, TLS. None: it used an existing one,
    /// or its library does not expose this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_us: Option<u64>,
    /// The callee may have done something that is not recorded here.
    pub gap: bool,
    /// Why the callee's history is missing although it was received: the history could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    pub scope: Option<Box<Scope>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Scope {
    pub service: String,
    /// The callee's own name for the call (a route template), empty if it equals the caller's.
    pub name: String,
    /// µs since the unix epoch on the service's clock.
    pub start_us: u64,
    pub answered_us: Option<u64>,
    pub status: Option<u32>,
    pub truncated: bool,
    pub faults_off: bool,
    /// Calls that belonged to no request. Some may have been made for this one, so the trace may lack them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unscoped: Vec<UnscopedCalls>,
    pub calls: Vec<Call>,
}

/// Equal calls that a service made while a scope was open, and that belonged to no request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnscopedCalls {
    pub name: String,
    pub peer: String,
    pub protocol: Protocol,
    pub count: u64,
    /// Where the program made them, if its runtime provides it; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub site: String,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Scope {
    pub fn unscoped_calls(&self) -> u64 {
        self.unscoped.iter().fold(0, |sum, calls| sum.saturating_add(calls.count))
    }

    /// Whether calls made for this request may be missing here.
    pub fn is_incomplete(&self) -> bool {
        self.truncated || !self.unscoped.is_empty()
    }
}

impl Outcome {
    /// Whether the call succeeded: gRPC OK, or an HTTP status below 400.
    pub fn is_ok(self, protocol: Protocol) -> bool {
        match (self, protocol) {
            (Outcome::Replied { status }, Protocol::Grpc) => status == 0,
            (Outcome::Replied { status }, Protocol::Http) => status < 400,
            _ => false,
        }
    }

    pub fn completed(self) -> bool {
        matches!(self, Outcome::Replied { .. })
    }
}

impl Call {
    /// For display: the callee's route if its history has one, else the name without a gRPC package and service.
    pub fn label(&self) -> &str {
        if let Some(scope) = &self.scope
            && !scope.name.is_empty()
        {
            return &scope.name;
        }
        match self.protocol {
            Protocol::Grpc => self.name.rsplit('/').next().unwrap_or(&self.name),
            Protocol::Http => &self.name,
        }
    }

    pub fn is_ok(&self) -> bool {
        self.outcome.is_ok(self.protocol)
    }

    pub fn duration_us(&self) -> Option<u64> {
        self.ended_us.map(|end| end.saturating_sub(self.sent_us))
    }

    pub fn calls(&self) -> &[Call] {
        self.scope.as_deref().map_or(&[], |scope| &scope.calls)
    }
}

impl Trace {
    /// Every call below the entry in the order of sending, each before the calls that it caused.
    pub fn walk(&self) -> Vec<&Call> {
        self.walk_with_depth().into_iter().map(|(_, call)| call).collect()
    }

    /// The number of events as 3MileBeach counts them: send and receive on both sides, as far as recorded. Of the entry
    /// call only its callee's two count.
    pub fn events(&self) -> usize {
        fn of_scope(scope: Option<&Scope>) -> usize {
            scope.map_or(0, |s| 1 + usize::from(s.answered_us.is_some()))
        }
        self.walk().iter().fold(of_scope(self.entry.scope.as_deref()), |n, call| {
            n + 1 + usize::from(call.outcome.completed()) + of_scope(call.scope.as_deref())
        })
    }

    pub fn gaps(&self) -> usize {
        let gap = |call: &Call| usize::from(call.gap || call.scope.as_ref().is_some_and(|s| s.is_incomplete()));
        self.walk().into_iter().map(gap).sum::<usize>() + gap(&self.entry)
    }

    /// The calls whose history was received and could not be read.
    pub fn unreadable(&self) -> Vec<&Call> {
        std::iter::once(&self.entry).chain(self.walk()).filter(|call| call.unreadable.is_some()).collect()
    }

    /// The number of requests and replies, including the entry's.
    pub fn messages(&self) -> usize {
        let of = |call: &Call| 1 + usize::from(call.outcome.completed());
        self.walk().into_iter().map(of).sum::<usize>() + of(&self.entry)
    }

    /// Names of the services that took part, in order of appearance, the entry service first.
    pub fn services(&self) -> Vec<String> {
        let mut known = HashSet::from([self.entry.callee.as_str()]);
        let mut names = vec![self.entry.callee.clone()];
        for call in self.walk() {
            if known.insert(&call.callee) {
                names.push(call.callee.clone());
            }
        }
        names
    }

    /// Whether the history of a service was truncated to fit its carrier.
    pub fn is_truncated(&self) -> bool {
        let cut = |call: &Call| call.scope.as_ref().is_some_and(|s| s.truncated);
        cut(&self.entry) || self.walk().into_iter().any(cut)
    }

    pub fn faults_off(&self) -> bool {
        self.entry.scope.as_ref().is_some_and(|s| s.faults_off)
            || self.walk().iter().any(|c| c.scope.as_ref().is_some_and(|s| s.faults_off))
    }
}
