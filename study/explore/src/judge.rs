//! The verdict on one case. Unknown is not pass: a fault that should have fired and did not, or a request that came back without
//! its history, proves nothing.

use crate::oracle::Oracle;
use crate::pattern;
use model::Verdict;
use model::sweep::Case;
use model::trace::Outcome;
use requests::Reply;
use std::collections::BTreeSet;

/// `recorded`: sites whose call was seen in the good run, so that a single fault there must fire.
pub fn judge(space: usize, number: u64, sites: Vec<u32>, recorded: &[bool], reply: &Reply, oracle: &Oracle) -> Case {
    let fired: BTreeSet<u32> = reply
        .trace
        .walk()
        .iter()
        .filter_map(|call| call.fault)
        .filter_map(|plan_index| sites.get(plan_index).copied())
        .collect();
    // who got no reply at all learned nothing about its faults: any of them may be the reason
    let no_reply = reply.status().is_none() && !reply.unreachable;
    let fired: Vec<u32> = if no_reply { sites.clone() } else { fired.into_iter().collect() };
    let objection = oracle.objection(reply);
    let unknown = if reply.unreachable {
        Some(format!("the target cannot be reached: {}", reply.reason.as_deref().unwrap_or("no connection")))
    } else if reply.trace.entry.scope.is_none() && reply.status().is_some() {
        Some("the reply brought no history".to_owned())
    } else if reply.trace.faults_off() {
        Some("faults are switched off at the target".to_owned())
    } else if reply.trace.is_truncated() && fired.len() < sites.len() {
        Some("the history was cut off, so nobody knows which faults took effect".to_owned())
    } else if fired.is_empty() && reply.status().is_some() && sites.iter().any(|s| recorded[*s as usize]) {
        // nothing fired, so the request was the good one, and it makes that call
        Some("no fault took effect though its call was recorded before".to_owned())
    } else {
        None
    };
    let (verdict, reason) = match (unknown, objection) {
        (Some(why), _) => (Verdict::Unknown, Some(why)),
        (None, Some(why)) => (Verdict::Fail, Some(why)),
        (None, None) => (Verdict::Pass, None),
    };
    Case {
        space,
        case: number,
        sites,
        fired,
        verdict,
        status: reply.status(),
        latency_us: reply.latency_us,
        reason,
        pattern: pattern::of(&reply.trace),
    }
}

/// The case fails, whatever was answered: its faults bring services down.
pub fn brought_down(case: &mut Case, services: &[String]) {
    if !services.is_empty() {
        case.verdict = Verdict::Fail;
        case.reason = Some(crash_reason(services));
    }
}

/// What is told about services that crash with the same faults each time.
pub fn crash_reason(services: &[String]) -> String {
    format!("{} crashed after the fault, each time it was tried", services.join(", "))
}

/// Whether something failed here that nobody planned: a sign that a service crashed for real.
pub fn has_unplanned_failure(reply: &Reply) -> bool {
    let failed = |outcome| matches!(outcome, Outcome::Failed { .. });
    failed(reply.outcome) || reply.trace.walk().iter().any(|call| call.fault.is_none() && failed(call.outcome))
}
