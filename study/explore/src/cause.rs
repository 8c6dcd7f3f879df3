//! Why a request failed: the call whose failure was not handled, what was tolerated before it, and what its caller did next.

use model::sweep::CallName;
use model::trace::{Call, Outcome, Protocol, Scope, Trace};
use model::{Fault, FaultKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use wire::tree::STARTER;

/// Failing cases with equal causes are one bug (tolerated failures may be more, see `bugs`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cause {
    pub failed: CallName,
    /// The callee had answered this caller before: the caller may have taken it to be up.
    pub trusted: bool,
    /// `callee/call` of every other call that failed and was survived.
    pub tolerated: BTreeSet<String>,
}

impl Cause {
    /// Whether a bug with this cause also explains the other one: the same call, met in the same trust, and nothing survived here that was not survived there.
    pub fn explains(&self, other: &Cause) -> bool {
        self.failed == other.failed && self.trusted == other.trusted && self.tolerated.is_subset(&other.tolerated)
    }
}

impl Cause {
    /// Nothing is known but that the request failed as a whole: no history came back, or every call in it succeeded.
    pub fn is_opaque(&self) -> bool {
        self.failed.caller == STARTER
    }
}

pub fn name_of(call: &Call) -> CallName {
    CallName { caller: call.caller.clone(), callee: call.callee.clone(), call: call.label().to_owned() }
}

fn disturbed(call: &Call) -> bool {
    !call.is_ok() || call.fault.is_some()
}

fn short(call: &Call) -> String {
    format!("{}/{}", call.callee, call.label())
}

/// Disturbed itself, or by something below it that it survived.
fn touched(call: &Call) -> bool {
    disturbed(call) || call.calls().iter().any(touched)
}

/// The path from the entry's scope down to the call that began the failure: the last touched call of each scope.
fn path(trace: &Trace) -> Vec<&Call> {
    let mut path = Vec::new();
    let mut calls = trace.entry.calls();
    while let Some(call) = calls.iter().rfind(|call| touched(call)) {
        path.push(call);
        calls = call.calls();
    }
    path
}

pub fn of(trace: &Trace) -> Cause {
    let path = path(trace);
    let failed = path.last().map_or_else(|| name_of(&trace.entry), |call| name_of(call));
    let on_path = |call: &Call| path.iter().any(|p| p.id == call.id);
    let tolerated = trace.walk().into_iter().filter(|call| disturbed(call) && !on_path(call)).map(short).collect();
    Cause { failed, trusted: !answered_before(trace).is_empty(), tolerated }
}

/// Calls to the same callee, by the same caller, that had been answered before the failing one: `GetCurrencies`, how often.
pub fn answered_before(trace: &Trace) -> Vec<(String, u64)> {
    let path = path(trace);
    let Some(failed) = path.last() else {
        return Vec::new();
    };
    let scope = path.len().checked_sub(2).map_or(trace.entry.calls(), |i| path[i].calls());
    let mut before: Vec<(String, u64)> = Vec::new();
    for call in scope.iter().take_while(|c| c.id != failed.id) {
        if call.callee == failed.callee && call.outcome.completed() && !disturbed(call) {
            match before.iter_mut().find(|(name, _)| name == call.label()) {
                Some((_, n)) => *n += 1,
                None => before.push((call.label().to_owned(), 1)),
            }
        }
    }
    before
}

fn happened(call: &Call, faults: &[Fault]) -> String {
    let injected = call.fault.and_then(|i| faults.get(i));
    match (call.outcome, injected.map(|f| f.kind)) {
        (_, Some(FaultKind::Delay)) => "was delayed".into(),
        (_, Some(FaultKind::EmptyReply)) => "answered with an empty body".into(),
        (_, Some(FaultKind::CorruptReply)) => "answered with a corrupt body".into(),
        (_, Some(FaultKind::LostReply)) => "did its work, but the reply was lost".into(),
        (Outcome::Failed { status: 4 }, _) => "did not answer in time".into(),
        (Outcome::Failed { .. }, Some(FaultKind::Reset)) => "broke the connection".into(),
        (Outcome::Failed { .. }, _) => "was unavailable".into(),
        (Outcome::Replied { status }, _) => format!("answered with status {status}"),
        (Outcome::Open, _) => "had not answered".into(),
    }
}

fn answered(scope: &Scope, protocol: Protocol) -> String {
    match (scope.status, protocol) {
        (Some(status), Protocol::Http) => format!("answered {status}"),
        (Some(0), Protocol::Grpc) => "answered OK".into(),
        (Some(status), Protocol::Grpc) => format!("answered with gRPC status {status}"),
        (None, _) => "gave no answer".into(),
    }
}

/// What the caller did, failure by failure, in sentences; nested callers one after the other, the deepest first.
pub fn story(trace: &Trace, good: &Trace, faults: &[Fault]) -> Vec<String> {
    let path = path(trace);
    let mut story = Vec::new();
    for depth in (0..path.len()).rev() {
        let holder = if depth == 0 { &trace.entry } else { path[depth - 1] };
        let Some(scope) = holder.scope.as_deref() else {
            continue;
        };
        tell(scope, holder, good, faults, &mut story);
    }
    if story.is_empty() {
        story.push(match trace.entry.scope.as_deref() {
            Some(scope) => format!(
                "{} {} although every call it made succeeded.",
                scope.service,
                answered(scope, trace.entry.protocol)
            ),
            None => format!("{} gave no answer that says what happened.", trace.entry.callee),
        });
    }
    story
}

fn tell(scope: &Scope, holder: &Call, good: &Trace, faults: &[Fault], story: &mut Vec<String>) {
    let calls = &scope.calls;
    let failed = calls.iter().rposition(disturbed);
    let Some(failed) = failed else { return };
    let asked: Vec<&str> = calls[..failed]
        .iter()
        .filter(|c| c.callee == calls[failed].callee && !disturbed(c))
        .map(|c| c.label())
        .fold(Vec::new(), |mut names, n| {
            if !names.contains(&n) {
                names.push(n);
            }
            names
        });
    if !asked.is_empty() {
        story.push(format!(
            "{} got an answer from {} to {}, and took it to be up for the rest of the request.",
            scope.service,
            calls[failed].callee,
            asked.join(", ")
        ));
    }
    let mut i = 0;
    while i <= failed {
        let call = &calls[i];
        if !disturbed(call) {
            i += 1;
            continue;
        }
        let same = calls[i..]
            .iter()
            .take_while(|c| c.callee == call.callee && c.label() == call.label() && disturbed(c))
            .count();
        let times = if same > 1 { format!(", {same} times") } else { String::new() };
        let next = calls.get(i + same);
        let what = format!("{} {}{times}", short(call), happened(call, faults));
        story.push(match next {
            Some(next) if usual_next(good, &scope.service, call, next) => {
                format!("{what}; {} went on with {}.", scope.service, short(next))
            }
            Some(next) => format!(
                "{what}; {} fell back and called {}, which it does not do there in the good run.",
                scope.service,
                short(next)
            ),
            None if answered_well(scope, holder.protocol) => {
                format!("{what}; {} {} all the same.", scope.service, answered(scope, holder.protocol))
            }
            None => format!("{what}; {} did not handle that and {}.", scope.service, answered(scope, holder.protocol)),
        });
        i += same;
    }
}

fn answered_well(scope: &Scope, protocol: Protocol) -> bool {
    scope.status.is_some_and(|status| Outcome::Replied { status }.is_ok(protocol))
}

/// Whether this service goes on from `call` to `next` in the good run as well. Neighbours are those of one scope: what a callee does in
/// between is its own affair.
fn usual_next(good: &Trace, service: &str, call: &Call, next: &Call) -> bool {
    let scopes = std::iter::once(&good.entry).chain(good.walk()).filter_map(|c| c.scope.as_deref());
    let mut known = false;
    for scope in scopes.filter(|scope| scope.service == service) {
        known |= scope.calls.iter().any(|c| short(c) == short(call));
        if scope.calls.windows(2).any(|pair| short(&pair[0]) == short(call) && short(&pair[1]) == short(next)) {
            return true;
        }
    }
    !known
}
