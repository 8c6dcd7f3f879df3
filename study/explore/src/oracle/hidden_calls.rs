//! Whether a trace may lack calls that a rule is about (decision 0040). Such a trace does not prove that a call is
//! absent.

use model::Selector;
use model::trace::{Call, GapReason, Trace};
use request_faults::resolve::selects;
use wire::scope::OTHER_CALLS;
use wire::select::matches;

/// What depends on the absence of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// A failure: every gap disproves it.
    Failure,
    /// A pass: a gap is tolerated at a callee that makes no such call in the good run, as far as it is recorded there.
    Pass,
}

/// Why the trace may lack a call that the selector matches; None if it has all of them. `was_sent`: whether a call was
/// sent, as a fault may have prevented it.
pub(crate) fn reason(
    selector: &Selector,
    trace: &Trace,
    good: &Trace,
    proof: Proof,
    was_sent: impl Fn(&Call) -> bool,
) -> Option<String> {
    if trace.entry.scope.is_none() {
        return Some("the reply carries no history".to_owned());
    }
    let hides = |callee: &str, peer: &str| proof == Proof::Failure || may_call(good, callee, peer, selector);
    for call in std::iter::once(&trace.entry).chain(trace.walk()) {
        for reason in call.gap_reasons() {
            let hides = match &reason {
                GapReason::Unreadable(_) | GapReason::Truncated => true,
                GapReason::NoHistory | GapReason::Failed | GapReason::Open => {
                    was_sent(call) && hides(&call.callee, &call.peer)
                }
                GapReason::Unscoped { service, calls } => calls.iter().any(|calls| {
                    calls.name == OTHER_CALLS
                        || matches(selector, service, &calls.peer, &calls.name)
                        || hides(&calls.peer, &calls.peer)
                }),
            };
            if hides {
                let label = call.label();
                return Some(match reason {
                    GapReason::Unscoped { .. } => reason.to_string(),
                    _ => format!("{}/{label}: {reason}", call.callee),
                });
            }
        }
    }
    None
}

/// Whether the good run shows such a call below this callee, or does not show the callee at all.
fn may_call(good: &Trace, callee: &str, peer: &str, selector: &Selector) -> bool {
    let is_callee = |call: &&Call| call.callee == callee || call.peer == peer;
    let mut found = std::iter::once(&good.entry).chain(good.walk()).filter(is_callee).peekable();
    found.peek().is_none() || found.any(|call| is_above(call, selector))
}

fn is_above(call: &Call, selector: &Selector) -> bool {
    call.calls().iter().any(|below| selects(selector, below) || is_above(below, selector))
}
