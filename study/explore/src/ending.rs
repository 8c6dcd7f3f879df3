//! How a failing request ended, as far as it was observed.

use model::sweep::Ending;
use model::trace::{Call, Outcome, Protocol, Trace};
use requests::Reply;

/// The gRPC code of a call whose connection broke.
const UNAVAILABLE: u32 = 14;
const DEADLINE_EXCEEDED: u32 = 4;
const CANCELED: u32 = 1;
/// The first words of the oracle's reason.
const TOO_SLOW: &str = "took ";
const TIMEOUT: &str = "no reply within";

/// `violation`: what the oracle says about the reply. `crashed_by_faults` as in [`crate::SendResult`].
pub fn of(reply: &Reply, violation: &str, crashed_by_faults: &[String]) -> Ending {
    if !crashed_by_faults.is_empty() {
        return Ending::Crashed;
    }
    match reply.outcome {
        outcome if outcome.is_ok(reply.trace.entry.protocol) => {
            if violation.starts_with(TOO_SLOW) {
                Ending::TooSlow
            } else {
                Ending::WrongContent
            }
        }
        Outcome::Replied { .. } if broken_connection(&reply.trace).is_some() => Ending::Crashed,
        Outcome::Replied { .. } => Ending::ReturnedError,
        _ if reply.reason.as_deref().is_some_and(|reason| reason.starts_with(TIMEOUT)) => Ending::NoReply,
        _ => Ending::Crashed,
    }
}

/// The call whose callee closed the connection without a reply although no fault fired at it. The first one in the
/// order of sending: those after it may be its consequences.
pub fn broken_connection(trace: &Trace) -> Option<&Call> {
    let is_broken = |call: &&Call| call.fault.is_none() && call.outcome == Outcome::Failed { status: UNAVAILABLE };
    trace.walk().into_iter().find(is_broken)
}

/// The call that its caller gave up although no fault fired at it. Its callee waited for a fault further down, and its
/// history is lost.
pub fn timed_out(trace: &Trace) -> Option<&Call> {
    trace.walk().into_iter().find(|call| is_given_up(call))
}

/// Either its caller or the server of its callee ended it, and there is no history.
pub fn is_given_up(call: &Call) -> bool {
    let (Outcome::Failed { status } | Outcome::Replied { status }) = call.outcome else { return false };
    let is_late = call.protocol == Protocol::Grpc || matches!(call.outcome, Outcome::Failed { .. });
    call.fault.is_none() && call.scope.is_none() && is_late && matches!(status, DEADLINE_EXCEEDED | CANCELED)
}

/// How long the caller waited at the first call that a fault made to wait, if it gave up by itself.
pub fn deadline_us(trace: &Trace, is_waiting: impl Fn(usize) -> bool) -> Option<u64> {
    let calls = trace.walk();
    let call = calls.iter().find(|call| call.fault.is_some_and(&is_waiting))?;
    (call.outcome == Outcome::Failed { status: DEADLINE_EXCEEDED }).then(|| call.duration_us()).flatten()
}
