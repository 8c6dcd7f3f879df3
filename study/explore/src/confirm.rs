//! Repeats a bug with real stops of services instead of injected faults (`--confirm-real`).
//!
//! Faults without a moment: the services are killed, then the request is sent. A fault with a moment: a delay is
//! injected at that moment, so that the caller waits there. Meanwhile the service is killed, and the call that was
//! delayed reaches a dead service. The trace shows whether the moment was met. Whatever happens, the services are
//! started again before this returns.

use crate::recovery::CrashRecovery;
use crate::runner::Sweeper;
use model::sweep::{Bug, RealStop};
use model::trace::{Outcome, Trace};
use model::{Failure, Fault, FaultKind};
use request_faults::resolve::selects;
use requests::Reply;
use std::time::Duration;

/// When a service is stopped, after the request was sent: later than the moment in a request of usual duration.
const STOP_AFTER_MIN: Duration = Duration::from_millis(300);
const STOP_AFTER_MAX: Duration = Duration::from_secs(4);
/// How long the caller waits after that: killing takes a few milliseconds, on a busy machine more.
const STOP_DURATION_MAX: Duration = Duration::from_secs(2);
/// The code of a call whose deadline is over.
const DEADLINE: u32 = 4;

/// How the faults of a bug are made by stops.
enum Plan {
    /// Stop these before the request.
    Before(Vec<String>),
    /// Stop this one while the caller waits at the delay.
    During { service: String, delay: Fault, stop_after: Duration, hold: Duration },
}

/// # Errors
/// Environment, if a service cannot be stopped or started again.
pub async fn confirm(sweeper: &Sweeper, bug: &Bug) -> Result<RealStop, Failure> {
    let plan = match plan(&sweeper.recovery, bug) {
        Ok(plan) => plan,
        Err(reason) => return Ok(RealStop::NotPossible { reason }),
    };
    let stopped = match &plan {
        Plan::Before(services) => services.clone(),
        Plan::During { service, .. } => vec![service.clone()],
    };
    tracing::info!(?stopped, bug = bug.title, "repeating the bug with real stops");
    let sent = send(sweeper, &plan).await;
    // first of all the services run again
    let started = sweeper.recovery.start_again(&stopped, &mut sweeper.sender(), &sweeper.spec).await;
    let reply = sent?;
    started?;
    if let Plan::During { delay, .. } = &plan
        && let Some(reason) = missed(delay, &reply.trace)
    {
        return Ok(RealStop::NotPossible { reason });
    }
    Ok(match (sweeper.oracle.violation(&reply), sweeper.oracle.undecided(&reply)) {
        (Some(violation), _) => RealStop::Confirmed { stopped, violation },
        (None, Some(reason)) => RealStop::NotPossible { reason },
        (None, None) => RealStop::NotConfirmed { stopped },
    })
}

/// The error is the reason why it is not possible.
fn plan(recovery: &CrashRecovery, bug: &Bug) -> Result<Plan, String> {
    let mut services: Vec<String> = Vec::new();
    for fault in &bug.faults {
        if !matches!(fault.kind, FaultKind::Unavailable | FaultKind::Reset) {
            return Err(format!("a stopped service does not cause '{}'", fault.kind.as_str()));
        }
        let service = bug.trace.walk().into_iter().find(|call| selects(&fault.selector, call));
        let service = service.map_or(fault.selector.callee.clone(), |call| call.callee.clone());
        if service == bug.trace.entry.callee {
            return Err(format!("{service} answers the request itself"));
        }
        recovery.can_stop(&service)?;
        if !services.contains(&service) {
            services.push(service);
        }
    }
    let is_timed = |fault: &&Fault| fault.nth != 0 || !fault.after.is_empty() || fault.max_fires != 0;
    let timed: Vec<&Fault> = bug.faults.iter().filter(is_timed).collect();
    match (timed.as_slice(), bug.faults.len()) {
        ([], _) => Ok(Plan::Before(services)),
        ([fault], 1) => {
            let usual = Duration::from_micros(bug.trace.entry.duration_us().unwrap_or_default());
            let stop_after = (usual * 3).clamp(STOP_AFTER_MIN, STOP_AFTER_MAX);
            let hold = stop_after + STOP_DURATION_MAX;
            // only the first call waits: those behind it meet the stopped service
            let delay =
                Fault { kind: FaultKind::Delay, arg: hold.as_millis() as u64, max_fires: 1, ..(*fault).clone() };
            let service = services.remove(0);
            Ok(Plan::During { service, delay, stop_after, hold })
        }
        _ => Err("it needs stops at several moments".to_owned()),
    }
}

async fn send(sweeper: &Sweeper, plan: &Plan) -> Result<Reply, Failure> {
    let mut sender = sweeper.sender();
    let (recovery, oracle) = (&sweeper.recovery, &sweeper.oracle);
    match plan {
        Plan::Before(services) => {
            for service in services {
                recovery.stop(service).await?;
            }
            let mut reply = sender.send(&sweeper.spec, &[]).await?;
            oracle.apply(&sweeper.spec, &[], &mut reply).await;
            Ok(reply)
        }
        Plan::During { service, delay, stop_after, hold } => {
            let timeout_ms = sweeper.spec.timeout_ms + hold.as_millis() as u64;
            let mut spec = sweeper.spec.clone();
            spec.timeout_ms = timeout_ms;
            let stop = async {
                tokio::time::sleep(*stop_after).await;
                recovery.stop(service).await
            };
            let faults = std::slice::from_ref(delay);
            let (reply, stopped) = tokio::join!(sender.send(&spec, faults), stop);
            stopped?;
            let mut reply = reply?;
            // the wait is ours
            reply.latency_us = reply.latency_us.saturating_sub(hold.as_micros() as u64);
            oracle.apply(&spec, faults, &mut reply).await;
            Ok(reply)
        }
    }
}

/// Why the trace does not show a stop at the moment of the delay.
fn missed(delay: &Fault, trace: &Trace) -> Option<String> {
    // no reply, or none with a history: the moment is unknown, the failure is not
    trace.entry.scope.as_ref()?;
    let calls = trace.walk();
    let Some(at) = calls.iter().position(|call| call.fault.is_some()) else {
        return Some("the request did not reach the moment of the stop".to_owned());
    };
    let delayed = calls[at];
    if calls[..at].iter().any(|call| call.callee == delayed.callee && matches!(call.outcome, Outcome::Failed { .. })) {
        return Some("the service was stopped before that moment: the request takes longer than usual".to_owned());
    }
    match delayed.outcome {
        Outcome::Failed { status: DEADLINE } => {
            Some(format!("its caller waits for less than {} ms, which a stop needs", delay.arg))
        }
        Outcome::Failed { .. } => None,
        _ => Some("the service was not stopped at that moment: the call was answered".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::ExternalTarget;
    use model::Selector;
    use model::sweep::CallName;
    use model::trace::{Call, Protocol, Scope};
    use std::sync::Arc;

    fn call(callee: &str, outcome: Outcome, fault: Option<usize>) -> Call {
        Call {
            id: String::new(),
            number: 1,
            caller: "front".into(),
            callee: callee.into(),
            name: "GET /".into(),
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
            scope: None,
        }
    }

    fn trace(calls: Vec<Call>) -> Trace {
        let scope = Scope {
            service: "front".into(),
            name: String::new(),
            start_us: 0,
            answered_us: Some(2),
            status: Some(500),
            truncated: false,
            faults_off: false,
            unscoped: Vec::new(),
            calls,
        };
        let mut entry = call("front", Outcome::Replied { status: 500 }, None);
        entry.scope = Some(Box::new(scope));
        Trace { trace_id: String::new(), entry }
    }

    const OK: Outcome = Outcome::Replied { status: 200 };
    const REFUSED: Outcome = Outcome::Failed { status: 14 };

    #[test]
    fn a_stop_at_another_moment_is_recognized() {
        let delay = Fault::new(FaultKind::Delay, Selector::callee("back"));
        let reason = |calls| missed(&delay, &trace(calls)).unwrap_or_default();
        assert_eq!(reason(vec![call("back", OK, None), call("back", REFUSED, Some(0))]), "");
        assert!(reason(vec![call("back", OK, None)]).contains("did not reach"));
        assert!(
            reason(vec![call("back", REFUSED, None), call("back", REFUSED, Some(0))]).contains("before that moment")
        );
        assert!(reason(vec![call("back", OK, Some(0))]).contains("was answered"));
        let late = Outcome::Failed { status: DEADLINE };
        assert!(reason(vec![call("back", late, Some(0))]).contains("waits for less"));
    }

    #[test]
    fn a_stop_that_is_not_allowed_or_not_the_fault_has_a_reason() {
        let bug = |faults: &[&str]| Bug {
            name: String::new(),
            title: String::new(),
            mistake: String::new(),
            faults: faults.iter().map(|text| text.parse().unwrap()).collect(),
            failed: CallName { caller: String::new(), callee: String::new(), call: String::new() },
            story: Vec::new(),
            violation: String::new(),
            real_stop: None,
            harm: None,
            ending: None,
            changed: Vec::new(),
            log: None,
            again: String::new(),
            failing_cases: 1,
            behaviors: Default::default(),
            spaces: Vec::new(),
            trace: trace(vec![call("back", REFUSED, Some(0)), call("other", OK, None)]),
        };
        let recovery = CrashRecovery::new(Arc::new(ExternalTarget));
        let reason = |faults: &[&str]| plan(&recovery, &bug(faults)).err().unwrap();
        assert!(reason(&["back lost-reply"]).contains("does not cause 'lost-reply'"));
        assert!(reason(&["front unavailable"]).contains("answers the request itself"));
        assert!(reason(&["back unavailable"]).contains("something else runs the target"));
    }
}
