//! Why a request failed: the call whose failure was not handled, the failures that were tolerated before it, and what
//! its caller did next.

use model::sweep::CallName;
use model::trace::{Call, Outcome, Protocol, Scope, Trace};
use model::{Fault, FaultKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use wire::tree::ENTRY_CALLER;

/// Failing cases with equal causes are one bug (tolerated failures may be more, see `bugs`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cause {
    pub failed: CallName,
    /// An earlier call of this caller to the callee succeeded: the caller may have assumed that the callee stays up.
    pub trusted: bool,
    /// `callee/call` of every other call that failed without making the request fail.
    pub tolerated: BTreeSet<String>,
}

impl Cause {
    /// Whether a bug with this cause also explains the other cause: the same call, trusted or not in both, and all
    /// failures tolerated here were tolerated there as well.
    pub fn explains(&self, other: &Cause) -> bool {
        self.failed == other.failed && self.trusted == other.trusted && self.tolerated.is_subset(&other.tolerated)
    }

    /// Only the failure of the whole request is known: no history was returned, or every call in it succeeded.
    pub fn is_opaque(&self) -> bool {
        self.failed.caller == ENTRY_CALLER
    }
}

pub fn name_of(call: &Call) -> CallName {
    CallName { caller: call.caller.clone(), callee: call.callee.clone(), call: call.label().to_owned() }
}

/// Failed, or a fault fired at it.
fn is_disturbed(call: &Call) -> bool {
    !call.is_ok() || call.fault.is_some()
}

fn short(call: &Call) -> String {
    format!("{}/{}", call.callee, call.label())
}

/// Disturbed itself, or a call below it is.
fn is_affected(call: &Call) -> bool {
    is_disturbed(call) || call.calls().iter().any(is_affected)
}

/// The path from the entry's scope down to the call that began the failure: the last affected call of each scope.
fn path(trace: &Trace) -> Vec<&Call> {
    let mut path = Vec::new();
    let mut calls = trace.entry.calls();
    while let Some(call) = calls.iter().rfind(|call| is_affected(call)) {
        path.push(call);
        calls = call.calls();
    }
    path
}

pub fn of(trace: &Trace) -> Cause {
    let path = path(trace);
    let failed = path.last().map_or_else(|| name_of(&trace.entry), |call| name_of(call));
    let on_path = |call: &Call| path.iter().any(|p| p.id == call.id);
    let tolerated = trace.walk().into_iter().filter(|call| is_disturbed(call) && !on_path(call)).map(short).collect();
    Cause { failed, trusted: !succeeded_before(trace).is_empty(), tolerated }
}

/// Successful calls of the same caller to the same callee before the failing one: `GetCurrencies`, and how many.
pub fn succeeded_before(trace: &Trace) -> Vec<(String, u64)> {
    let path = path(trace);
    let Some(failed) = path.last() else {
        return Vec::new();
    };
    let scope = path.len().checked_sub(2).map_or(trace.entry.calls(), |i| path[i].calls());
    let mut before: Vec<(String, u64)> = Vec::new();
    for call in scope.iter().take_while(|c| c.id != failed.id) {
        if call.callee == failed.callee && call.outcome.completed() && !is_disturbed(call) {
            match before.iter_mut().find(|(name, _)| name == call.label()) {
                Some((_, n)) => *n += 1,
                None => before.push((call.label().to_owned(), 1)),
            }
        }
    }
    before
}

fn fault_text(call: &Call, faults: &[Fault]) -> String {
    let injected = call.fault.and_then(|i| faults.get(i));
    match (call.outcome, injected.map(|f| f.kind)) {
        (_, Some(FaultKind::Delay)) => "was delayed".into(),
        (_, Some(FaultKind::EmptyReply)) => "returned an empty body".into(),
        (_, Some(FaultKind::CorruptReply)) => "returned a corrupt body".into(),
        (_, Some(FaultKind::LostReply)) => "did its work, but the reply was lost".into(),
        (Outcome::Failed { status: 4 }, _) => "timed out".into(),
        (Outcome::Failed { .. }, Some(FaultKind::Reset)) => "reset the connection".into(),
        (Outcome::Failed { .. }, _) => "was unavailable".into(),
        (Outcome::Replied { status }, _) => format!("returned status {status}"),
        (Outcome::Open, _) => "had not replied".into(),
    }
}

/// The reply of a service in words, such as `HTTP 500`.
fn reply_text(scope: &Scope, protocol: Protocol) -> String {
    match (scope.status, protocol) {
        (Some(status), Protocol::Http) => format!("HTTP {status}"),
        (Some(0), Protocol::Grpc) => "gRPC OK".into(),
        (Some(status), Protocol::Grpc) => format!("gRPC status {status}"),
        (None, _) => "no reply".into(),
    }
}

/// What happened in a failing request, and whether a fallback was involved.
pub struct Story {
    pub sentences: Vec<String>,
    /// The callee whose call failed, and the callee that was called instead.
    pub fallback: Option<(String, String)>,
}

/// What the callers did, failure by failure, in sentences; of nested callers the deepest first.
pub fn story(trace: &Trace, good: &Trace, faults: &[Fault]) -> Story {
    let path = path(trace);
    let mut story = Story { sentences: Vec::new(), fallback: None };
    for depth in (0..path.len()).rev() {
        let answered = if depth == 0 { &trace.entry } else { path[depth - 1] };
        if let Some(scope) = answered.scope.as_deref() {
            story.add_scope(scope, answered, good, faults);
        }
    }
    if story.sentences.is_empty() {
        story.sentences.push(match trace.entry.scope.as_deref() {
            Some(scope) => {
                format!("Every call of {} succeeded → {}.", scope.service, reply_text(scope, trace.entry.protocol))
            }
            None => format!("{} returned no history, so the cause is unknown.", trace.entry.callee),
        });
    }
    story
}

impl Story {
    /// `answered`: the call that this scope answers.
    fn add_scope(&mut self, scope: &Scope, answered: &Call, good: &Trace, faults: &[Fault]) {
        let (service, calls) = (&scope.service, &scope.calls);
        let Some(last) = calls.iter().rposition(is_disturbed) else { return };
        let mut earlier: Vec<&str> = Vec::new();
        for call in calls[..last].iter().filter(|c| c.callee == calls[last].callee && !is_disturbed(c)) {
            if !earlier.contains(&call.label()) {
                earlier.push(call.label());
            }
        }
        if !earlier.is_empty() {
            self.sentences.push(format!(
                "{} succeeded, so {service} assumed {} stayed up.",
                earlier.join(", "),
                calls[last].callee
            ));
        }
        let mut i = 0;
        while i <= last {
            let call = &calls[i];
            if !is_disturbed(call) {
                i += 1;
                continue;
            }
            let is_same = |c: &&Call| c.callee == call.callee && c.label() == call.label() && is_disturbed(c);
            let same = calls[i..].iter().take_while(is_same).count();
            let times = if same > 1 { format!(", {same} times") } else { String::new() };
            let failure = format!("{} {}{times}", short(call), fault_text(call, faults));
            let reply = reply_text(scope, answered.protocol);
            self.sentences.push(match calls.get(i + same) {
                Some(next) if is_usual_next(good, service, call, next) => {
                    format!("{failure}; {service} continued with {}.", short(next))
                }
                Some(next) => {
                    self.fallback = Some((call.callee.clone(), next.callee.clone()));
                    format!(
                        "{failure}; {service} fell back to {}, a call the good run does not make here.",
                        short(next)
                    )
                }
                None if is_success(scope, answered.protocol) => {
                    format!("{failure}; {service} handled that → {reply}.")
                }
                None => format!("{failure}; {service} has no fallback here → {reply}."),
            });
            i += same;
        }
    }
}

fn is_success(scope: &Scope, protocol: Protocol) -> bool {
    scope.status.is_some_and(|status| Outcome::Replied { status }.is_ok(protocol))
}

/// Whether this service makes the call `next` right after `call` in the good run as well. Only calls of one scope are
/// compared: the calls that a callee makes in between do not matter.
fn is_usual_next(good: &Trace, service: &str, call: &Call, next: &Call) -> bool {
    let scopes = std::iter::once(&good.entry).chain(good.walk()).filter_map(|c| c.scope.as_deref());
    let mut recorded = false;
    for scope in scopes.filter(|scope| scope.service == service) {
        recorded |= scope.calls.iter().any(|c| short(c) == short(call));
        if scope.calls.windows(2).any(|pair| short(&pair[0]) == short(call) && short(&pair[1]) == short(next)) {
            return true;
        }
    }
    !recorded
}
