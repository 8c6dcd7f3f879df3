//! A fault to apply, and what applying it resulted in.

use crate::tracing::step::{DeferredSignals, StepOutcome};
use model::flip::{FlipType, Injection};
use sandbox::tracee::{Registers, Stop};

/// The part of an [`Injection`] that determines what is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: FlipType,
    /// Below [`crate::processor::instruction::Instruction::operands`].
    pub operand: usize,
    /// Below [`crate::processor::instruction::Instruction::width`].
    pub bit: u32,
    /// Iterations of a repeated instruction that run before the fault.
    pub iteration: u64,
    /// Arbitrary values are derived from this.
    pub seed: u64,
}

impl From<&Injection> for Fault {
    fn from(injection: &Injection) -> Fault {
        let &Injection { kind, operand, bit, iteration, seed, .. } = injection;
        Fault { kind, operand: operand.into(), bit: bit.into(), iteration, seed }
    }
}

#[derive(Debug)]
pub struct AppliedFault {
    /// What was hit, with its value before and after.
    pub hit: String,
    /// False: nothing was flipped, for the reason in `hit`. Not final while a system call has not returned.
    pub activated: bool,
    pub next: NextAction,
}

/// What the caller does with the process.
#[derive(Debug)]
pub enum NextAction {
    /// It is stopped. Resume it with this signal (0: none), whose details are set.
    Resume(i32),
    Ended(Stop),
    /// Its system call has not returned. Some: it is stopped by this event, which the caller handles first; otherwise
    /// wait. Either way, pass its next stop to [`PendingFault::resume`].
    Pending(Option<Stop>, Box<PendingFault>),
}

/// A fault that is applied when a system call returns.
#[derive(Debug)]
pub struct PendingFault {
    pub(super) fault: Fault,
    /// Registers before the call.
    pub(super) before: Registers,
    pub(super) ip: u64,
    pub(super) deferred: DeferredSignals,
}

impl AppliedFault {
    pub(super) fn not_applied(why: &str) -> AppliedFault {
        AppliedFault { hit: why.to_owned(), activated: false, next: NextAction::Resume(0) }
    }

    pub(super) fn applied(hit: String) -> AppliedFault {
        AppliedFault { hit, activated: true, next: NextAction::Resume(0) }
    }

    /// After the instruction has run or failed to. `before`: the fault was applied before it ran.
    pub(super) fn after_step(hit: String, outcome: StepOutcome, before: bool) -> AppliedFault {
        match outcome {
            StepOutcome::Completed => AppliedFault::applied(hit),
            StepOutcome::Raised(signal) if before => {
                AppliedFault { next: NextAction::Resume(signal), ..AppliedFault::applied(hit) }
            }
            StepOutcome::Raised(signal) => AppliedFault {
                next: NextAction::Resume(signal),
                ..AppliedFault::not_applied(&format!("the instruction raised signal {signal}"))
            },
            StepOutcome::Ended(stop) => AppliedFault { next: NextAction::Ended(stop), activated: before, hit },
            StepOutcome::Pending(_) => AppliedFault::not_applied("the instruction did not complete"),
        }
    }
}
