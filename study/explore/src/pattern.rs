//! What a request did, as one number: equal for requests that made the same calls with the same outcomes in the same order.

use model::trace::{Outcome, Trace};
use std::hash::{DefaultHasher, Hash, Hasher};

pub fn of(trace: &Trace) -> u64 {
    let mut hasher = DefaultHasher::new();
    status(trace.entry.outcome).hash(&mut hasher);
    for call in trace.walk() {
        (&call.caller, &call.callee, call.label(), status(call.outcome), call.fault.is_some()).hash(&mut hasher);
    }
    hasher.finish()
}

fn status(outcome: Outcome) -> (u8, u32) {
    match outcome {
        Outcome::Replied { status } => (0, status),
        Outcome::Failed { status } => (1, status),
        Outcome::Open => (2, 0),
    }
}
