//! The verdict on one case, or on a recording. Unknown is not pass: a fault that should have fired and did not, or a
//! request that came back without its history, proves nothing.

use crate::in_flight::PlannedCase;
use crate::oracle::Oracle;
use crate::{ending, fingerprint};
use model::sweep::{Case, Ending};
use model::trace::{GapReason, Outcome, Trace, UnscopedCalls};
use model::{Fault, FaultKind, Verdict};
use requests::Reply;
use std::collections::BTreeSet;
use wire::scope::OTHER_CALLS;

pub(crate) fn assess(case: &PlannedCase, reply: &Reply, oracle: &Oracle) -> Case {
    let PlannedCase { space, number, sites, faults, must_fire } = case;
    let fired: BTreeSet<u32> = reply
        .trace
        .walk()
        .iter()
        .filter_map(|call| call.fault)
        .chain(reply.fired_before.iter().copied())
        .filter_map(|plan_index| sites.get(plan_index).copied())
        .collect();
    let violation = oracle.violation(reply);
    // without a reply there is no evidence about faults: any of them may be the reason
    let no_reply = reply.status().is_none() && !reply.unreachable;
    let is_history_lost = no_reply
        || ending::timed_out(&reply.trace).is_some()
        || (violation.is_some() && ending::broken_connection(&reply.trace).is_some());
    let fired: Vec<u32> = if is_history_lost { sites.clone() } else { fired.into_iter().collect() };
    let unknown = if reply.unreachable {
        Some(format!("the target cannot be reached: {}", reply.reason.as_deref().unwrap_or("no connection")))
    } else if let Some(why) = &reply.trace.entry.unreadable {
        Some(format!("the reply's history cannot be read: {why}"))
    } else if reply.trace.entry.scope.is_none() && reply.status().is_some() {
        Some("the reply carries no history".to_owned())
    } else if reply.trace.faults_off() {
        Some("faults are switched off at the target".to_owned())
    } else if reply.trace.is_truncated() && fired.len() < sites.len() {
        Some("the history is truncated, so it is unknown which faults fired".to_owned())
    } else if !reply.trace.unreadable().is_empty() && fired.len() < sites.len() {
        Some("a part of the history cannot be read, so it is unknown which faults fired".to_owned())
    } else if let Some(call) = selected_unscoped(&reply.trace, faults) {
        Some(format!("a fault may have missed its call: {call}"))
    } else if fired.is_empty() && reply.status().is_some() && *must_fire {
        // no fault fired, so the request should have made the recorded call
        Some("no fault took effect although its call was recorded before".to_owned())
    } else {
        None
    };
    let ending = violation.as_deref().map(|why| ending::of(reply, why, &[]));
    let waits = |fault: usize| faults.get(fault).is_some_and(|fault| fault.kind == FaultKind::Hang);
    let (verdict, reason) = match (unknown, violation, oracle.undecided(reply)) {
        (Some(why), ..) => (Verdict::Unknown, Some(why)),
        (None, Some(why), _) => (Verdict::Fail, Some(why)),
        (None, None, Some(why)) => (Verdict::Unknown, Some(why)),
        (None, None, None) => (Verdict::Pass, None),
    };
    Case {
        space: *space,
        case: *number,
        sites: sites.clone(),
        fired,
        verdict,
        status: reply.status(),
        latency_us: reply.latency_us,
        reason,
        ending: ending.filter(|_| verdict == Verdict::Fail),
        deadline_us: ending::deadline_us(&reply.trace, waits),
        fingerprint: fingerprint::of(&reply.trace),
        cause: None,
    }
}

/// The case of a plan that cannot be sent.
pub fn not_sent(space: usize, number: u64, sites: Vec<u32>, reason: String) -> Case {
    Case {
        space,
        case: number,
        sites,
        fired: Vec::new(),
        verdict: Verdict::Unknown,
        status: None,
        latency_us: 0,
        reason: Some(reason),
        ending: None,
        deadline_us: None,
        fingerprint: 0,
        cause: None,
    }
}

/// If the faults made services crash, the case fails whatever the reply was.
pub fn fail_if_crashed(case: &mut Case, services: &[String]) {
    if !services.is_empty() {
        case.verdict = Verdict::Fail;
        case.reason = Some(crash_reason(services));
        case.ending = Some(Ending::Crashed);
        // the histories of what crashed are lost, and with them which faults fired
        case.fired.clone_from(&case.sites);
    }
}

/// The reason of a case whose faults make services crash each time.
pub fn crash_reason(services: &[String]) -> String {
    format!("{} crashed after the fault, every time it was injected", services.join(", "))
}

/// Whether a call failed without a fault: a service may have crashed.
pub fn has_unplanned_failure(reply: &Reply) -> bool {
    let failed = |outcome| matches!(outcome, Outcome::Failed { .. });
    let state_failed = reply.after.iter().any(Result::is_err);
    failed(reply.outcome)
        || state_failed
        || reply.trace.walk().iter().any(|call| call.fault.is_none() && failed(call.outcome))
}

/// The replies of a recording, which sends one plan several times.
#[derive(Default)]
pub struct RecordingAssessment {
    pub failures: u64,
    /// Why replies were wrong, each reason once.
    pub reasons: Vec<String>,
    /// Why the verdict is unknown, each reason once.
    pub unknown: Vec<String>,
    /// One per reply, in order.
    pub latencies_us: Vec<u64>,
}

impl RecordingAssessment {
    /// `crashed_by_faults` as in [`crate::SendResult`].
    pub fn add(&mut self, reply: &Reply, oracle: &Oracle, faults: &[Fault], crashed_by_faults: &[String]) {
        self.latencies_us.push(reply.latency_us);
        let crash = (!crashed_by_faults.is_empty()).then(|| crash_reason(crashed_by_faults));
        if let Some(reason) = crash.or_else(|| oracle.violation(reply)) {
            self.failures += 1;
            push_new(&mut self.reasons, reason);
        } else if let Some(why) = oracle.undecided(reply) {
            push_new(&mut self.unknown, why);
        }
        // no reply at all is a failure whether or not the faults fired, and so is a crash; neither returns a history
        if reply.status().is_none() || !crashed_by_faults.is_empty() {
            return;
        }
        for reason in missing_evidence(reply, faults) {
            push_new(&mut self.unknown, reason);
        }
    }

    pub fn verdict(&self) -> Verdict {
        match (self.unknown.is_empty(), self.failures) {
            (false, _) => Verdict::Unknown,
            (true, 0) => Verdict::Pass,
            (true, _) => Verdict::Fail,
        }
    }
}

/// A call without a scope that a fault selects, if that fault did not fire: no fault can fire at such a call, so the
/// reply is not that of a request in which it failed.
fn selected_unscoped(trace: &Trace, faults: &[Fault]) -> Option<String> {
    let unscoped = trace.unscoped();
    if unscoped.is_empty() {
        return None;
    }
    let fired: BTreeSet<usize> = trace.walk().iter().filter_map(|call| call.fault).collect();
    let missing = faults.iter().enumerate().filter(|(i, _)| !fired.contains(i)).map(|(_, fault)| fault);
    let selects = |fault: &Fault, service: &str, calls: &UnscopedCalls| {
        // of calls that are not listed, any may be the fault's
        calls.name == OTHER_CALLS || wire::select::matches(&fault.selector, service, &calls.peer, &calls.name)
    };
    let mut found = missing.flat_map(|fault| unscoped.iter().filter(|(service, calls)| selects(fault, service, calls)));
    found.next().map(|(service, calls)| {
        GapReason::Unscoped { service: (*service).to_owned(), calls: vec![(*calls).clone()] }.to_string()
    })
}

/// Why it is unknown whether all these faults fired.
fn missing_evidence(reply: &Reply, faults: &[Fault]) -> Vec<String> {
    let trace = &reply.trace;
    if let Some(why) = &trace.entry.unreadable {
        return vec![format!("the reply's history cannot be read: {why}")];
    }
    if reply.is_foreign {
        return vec![
            "the last redirect leads to another origin, so its reply has no history: record that URL itself".to_owned(),
        ];
    }
    if trace.entry.scope.is_none() {
        return vec!["the reply carries no history: no SDK at the entry, other keys, or a proxy removed it".to_owned()];
    }
    if trace.faults_off() {
        return vec!["faults are switched off at the target (`faultloom faults on`)".to_owned()];
    }
    let mut fired: BTreeSet<usize> = trace.walk().iter().filter_map(|call| call.fault).collect();
    fired.extend(&reply.fired_before);
    let result = if trace.is_truncated() {
        "may have taken effect: the history is truncated"
    } else if !trace.unreadable().is_empty() {
        "may have taken effect: a part of the history cannot be read"
    } else {
        "never took effect"
    };
    if let Some(call) = selected_unscoped(trace, faults) {
        return vec![format!("a fault may have missed its call: {call}")];
    }
    let missing = faults.iter().enumerate().filter(|(i, _)| !fired.contains(i));
    missing.map(|(_, fault)| format!("fault '{fault}' {result}")).collect()
}

fn push_new(list: &mut Vec<String>, text: String) {
    if !list.contains(&text) {
        list.push(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Selector;
    use model::trace::{Call, Protocol, Scope};

    /// A reply with status 200 of `front`, which made a call to currency and calls without a scope.
    fn reply(fired: Option<usize>, unscoped: &[(&str, &str)]) -> Reply {
        let outcome = Outcome::Replied { status: 200 };
        let call = |caller: &str, callee: &str, name: &str, fault, scope: Option<Scope>| Call {
            id: String::new(),
            number: 1,
            caller: caller.into(),
            callee: callee.into(),
            name: name.into(),
            peer: callee.into(),
            protocol: Protocol::Http,
            sent_us: 0,
            ended_us: Some(1),
            outcome,
            fault,
            inherited: false,
            connect_us: None,
            gap: false,
            unreadable: None,
            scope: scope.map(Box::new),
        };
        let unscoped = unscoped.iter().map(|(peer, name)| UnscopedCalls {
            name: (*name).into(),
            peer: (*peer).into(),
            protocol: Protocol::Http,
            count: 2,
            site: String::new(),
        });
        let scope = Scope {
            service: "front".into(),
            name: String::new(),
            start_us: 0,
            answered_us: Some(2),
            status: Some(200),
            truncated: false,
            faults_off: false,
            unscoped: unscoped.collect(),
            calls: vec![call("front", "currency", "GET /rates", fired, None)],
        };
        Reply {
            outcome,
            body: Default::default(),
            latency_us: 3,
            reason: None,
            unreachable: false,
            next: None,
            history_bytes: 0,
            location: None,
            redirects: Vec::new(),
            redirect_problem: None,
            is_foreign: false,
            fired_before: BTreeSet::new(),
            number: String::new(),
            after: Vec::new(),
            checks: Vec::new(),
            trace: Trace { trace_id: String::new(), entry: call("faultloom", "front", "GET /", None, Some(scope)) },
        }
    }

    fn verdict(reply: &Reply) -> Verdict {
        let fault = Fault::new(FaultKind::Unavailable, Selector::callee("currency"));
        let case = PlannedCase { space: 0, number: 1, sites: vec![4], faults: vec![fault], must_fire: false };
        assess(&case, reply, &Oracle::default()).verdict
    }

    #[test]
    fn a_fault_that_may_have_missed_its_call_is_no_pass() {
        assert_eq!(verdict(&reply(None, &[])), Verdict::Pass, "the request does not make the call");
        assert_eq!(verdict(&reply(None, &[("ads", "GET /ads")])), Verdict::Pass, "the fault does not select it");
        assert_eq!(verdict(&reply(None, &[("currency", "GET /rates")])), Verdict::Unknown);
        assert_eq!(verdict(&reply(None, &[(OTHER_CALLS, OTHER_CALLS)])), Verdict::Unknown);
        assert_eq!(verdict(&reply(Some(0), &[("currency", "GET /rates")])), Verdict::Pass, "the fault has fired");
    }

    #[test]
    fn a_recording_is_unknown_if_its_fault_may_have_missed_its_call() {
        let fault = Fault::new(FaultKind::Unavailable, Selector::callee("currency"));
        let reasons = |reply: &Reply| missing_evidence(reply, std::slice::from_ref(&fault)).join("; ");
        assert_eq!(
            reasons(&reply(None, &[("currency", "GET /rates")])),
            "a fault may have missed its call: 2 calls from front to currency belonged to no request: GET /rates"
        );
        assert!(reasons(&reply(None, &[])).ends_with("never took effect"));
        assert_eq!(reasons(&reply(Some(0), &[("currency", "GET /rates")])), "");
    }
}
