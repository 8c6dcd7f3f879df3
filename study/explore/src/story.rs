//! What happened in a failing request, in sentences that state only what its trace shows.

use crate::cause::{HiddenWait, hidden_wait, is_disturbed, is_substitute, path};
use crate::ending::broken_connection;
use crate::good_run::GoodRun;
use model::trace::{Call, Outcome, Protocol, Scope, Trace};
use model::{Fault, FaultKind};
use request_faults::resolve::selects;

pub(crate) struct Story {
    pub sentences: Vec<String>,
    /// The callee whose call failed, and the callee that was called instead.
    pub substitute: Option<(String, String)>,
}

/// What is known about a failing request besides its trace.
pub(crate) struct Facts<'a> {
    pub trace: &'a Trace,
    pub good: &'a GoodRun,
    pub faults: &'a [Fault],
    /// The request passes if the same callee is down from the start: it relied on an earlier success.
    pub relied_on_success: bool,
    /// Why no reply was received.
    pub no_reply: Option<&'a str>,
}

/// What the callers did, failure by failure; of nested callers the deepest first.
pub(crate) fn story(facts: &Facts) -> Story {
    let Facts { trace, good, .. } = *facts;
    let path = path(trace, good);
    let mut story = Story { sentences: Vec::new(), substitute: None };
    if let Some(hidden) = hidden_wait(&path, good, facts.faults) {
        story.sentences.extend(hidden_sentences(&hidden, facts));
    }
    for depth in (0..path.len()).rev() {
        let answered = if depth == 0 { &trace.entry } else { path[depth - 1] };
        if let Some(scope) = answered.scope.as_deref() {
            story.add_scope(scope, answered, facts);
        } else if Some(&answered.id) == broken_connection(trace).map(|call| &call.id) {
            story.sentences.push(format!("{} ended the connection without a reply.", good.callee_of(answered)));
        }
    }
    if story.sentences.is_empty() {
        story.sentences.push(without_failed_call(facts));
    }
    story
}

/// A fault made a call wait, and the history of its caller was lost, since a caller above gave up.
fn hidden_sentences(hidden: &HiddenWait, facts: &Facts) -> Vec<String> {
    let Facts { good, faults, .. } = *facts;
    let HiddenWait { call, given_up, changed } = hidden;
    let kind = faults.iter().find(|fault| selects(&fault.selector, call)).map(|fault| (fault.kind, fault.arg));
    let waited = match kind {
        Some((FaultKind::Delay, ms)) => format!("was delayed by {ms} ms"),
        _ => "hung".to_owned(),
    };
    let name = good.name_of(call);
    let given_up_after = given_up.duration_us().map_or(String::new(), |us| format!(" after {} ms", us / 1000));
    let mut sentences = vec![format!(
        "{} {waited}, and {} waited for it without a deadline before that of {}, which gave up{given_up_after}.",
        good.short_name(call),
        name.caller,
        given_up.caller,
    )];
    let mut names: Vec<String> = changed.iter().map(|call| good.name_of(call).call).collect();
    names.dedup();
    let callee = good.callee_of(given_up);
    let label = good.name_of(given_up).call;
    sentences.push(match names.as_slice() {
        [] => format!("What {callee} did for {label} is not recorded."),
        names => format!(
            "What {callee} did for {label} is not recorded; in the good run, {} {} before that call.",
            names.join(" and "),
            if names.len() == 1 { "succeeds" } else { "succeed" },
        ),
    });
    sentences
}

/// The request failed, and its trace has no failed call, or there is no trace.
fn without_failed_call(facts: &Facts) -> String {
    let entry = &facts.trace.entry;
    let service = facts.good.callee_of(entry);
    match (entry.scope.as_deref(), facts.no_reply) {
        (Some(scope), _) if crate::good_run::has_missing_calls(facts.trace) => format!(
            "No recorded call failed, and calls are missing in the trace; {service} returned {}.",
            reply_text(scope.status, entry.protocol)
        ),
        (Some(scope), _) => {
            format!("No call failed; {service} returned {}.", reply_text(scope.status, entry.protocol))
        }
        (None, Some(reason)) => match waiting(facts.faults, facts.trace) {
            Some(waiting) => {
                format!("{waiting}, and {service} waited: {reason}. Its calls have no deadline, or a longer one.")
            }
            None => format!("{service} gave no reply: {reason}. So no trace was received."),
        },
        (None, None) => format!("{service} returned no history, so the trace does not show which call failed."),
    }
}

/// `currency hung`.
fn waiting(faults: &[Fault], trace: &Trace) -> Option<String> {
    if faults.is_empty() || trace.entry.scope.is_some() {
        return None;
    }
    let all: Option<Vec<String>> = faults
        .iter()
        .map(|fault| {
            let selector = &fault.selector;
            let call = if selector.call.is_empty() { String::new() } else { format!("/{}", selector.call) };
            match fault.kind {
                FaultKind::Hang => Some(format!("{}{call} hung", selector.callee)),
                FaultKind::Delay => Some(format!("{}{call} was delayed by {} ms", selector.callee, fault.arg)),
                _ => None,
            }
        })
        .collect();
    all.map(|all| all.join(" and "))
}

fn fault_text(call: &Call, faults: &[Fault]) -> String {
    let injected = call.fault.and_then(|i| faults.get(i));
    match (call.outcome, injected.map(|f| f.kind)) {
        (Outcome::Failed { status: 4 }, Some(FaultKind::Delay | FaultKind::Hang)) => match call.duration_us() {
            Some(waited) => format!("was too slow, and its caller gave up after {} ms", waited / 1000),
            None => "was too slow".into(),
        },
        (_, Some(FaultKind::Delay)) => "was delayed".into(),
        (_, Some(FaultKind::EmptyReply)) => "returned an empty body".into(),
        (_, Some(FaultKind::CorruptReply)) => "returned a corrupt body".into(),
        (_, Some(FaultKind::LostReply)) => "did its work, but the reply was lost".into(),
        (Outcome::Failed { status: 4 }, _) => "timed out".into(),
        (Outcome::Failed { .. }, Some(FaultKind::Reset)) => "reset the connection".into(),
        (Outcome::Failed { .. }, Some(_)) => "was unavailable".into(),
        (Outcome::Failed { status: 14 }, None) => "ended the connection without a reply".into(),
        (Outcome::Failed { status }, None) => format!("failed with gRPC status {status}"),
        (Outcome::Replied { status }, _) => format!("returned {}", reply_text(Some(status), call.protocol)),
        (Outcome::Open, _) => "had not replied".into(),
    }
}

/// The reply of a service in words, such as `HTTP 500`.
fn reply_text(status: Option<u32>, protocol: Protocol) -> String {
    match (status, protocol) {
        (Some(status), Protocol::Http) => format!("HTTP {status}"),
        (Some(0), Protocol::Grpc) => "gRPC OK".into(),
        (Some(status), Protocol::Grpc) => format!("gRPC status {status}"),
        (None, _) => "no reply".into(),
    }
}

impl Story {
    /// `answered`: the call that this scope answers.
    fn add_scope(&mut self, scope: &Scope, answered: &Call, facts: &Facts) {
        let Facts { good, faults, .. } = *facts;
        let (service, calls) = (&scope.service, &scope.calls);
        let Some(last) = calls.iter().rposition(|call| is_disturbed(call, good)) else { return };
        if facts.relied_on_success {
            let callee = good.callee_of(&calls[last]);
            let mut earlier: Vec<&str> = Vec::new();
            for call in calls[..last].iter().filter(|c| good.callee_of(c) == callee && !is_disturbed(c, good)) {
                if !earlier.contains(&call.label()) {
                    earlier.push(call.label());
                }
            }
            if !earlier.is_empty() {
                self.sentences
                    .push(format!("{} succeeded, so {service} assumed {callee} stayed up.", earlier.join(", ")));
            }
        }
        let mut i = 0;
        while i <= last {
            let call = &calls[i];
            if !is_disturbed(call, good) {
                i += 1;
                continue;
            }
            let name = good.short_name(call);
            let is_same = |c: &&Call| good.short_name(c) == name && is_disturbed(c, good);
            let same = calls[i..].iter().take_while(is_same).count();
            let times = if same > 1 { format!(", {same} times") } else { String::new() };
            let failure = format!("{name} {}{times}", fault_text(call, faults));
            let reply = reply_text(scope.status, answered.protocol);
            let last_failed = &calls[i + same - 1];
            self.sentences.push(match calls.get(i + same) {
                Some(next) if is_substitute(last_failed, next, good) => {
                    self.substitute = Some((good.callee_of(call), good.callee_of(next)));
                    let next = good.short_name(next);
                    format!("{failure}; {service} fell back to {next}, a call the good run does not make here.")
                }
                Some(next) => format!("{failure}; {service} continued with {}.", good.short_name(next)),
                None if scope.status.is_none() => format!("{failure}; {service} gave no reply."),
                None if is_success(scope, answered.protocol) => {
                    format!("{failure}; {service} handled that and returned {reply}.")
                }
                None => format!("{failure}; {service} returned {reply}."),
            });
            i += same;
        }
    }
}

fn is_success(scope: &Scope, protocol: Protocol) -> bool {
    scope.status.is_some_and(|status| Outcome::Replied { status }.is_ok(protocol))
}
