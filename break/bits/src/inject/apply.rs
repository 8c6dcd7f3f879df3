//! Applies a fault to a process that is stopped right before the instruction.
//!
//! What the instruction reads is changed before it runs; what it writes is changed afterwards (SEI, table 1). The
//! process is then stopped and ready to be resumed. A repeated instruction is hit in one of its iterations.

use super::fault::{AppliedFault, Fault, NextAction, PendingFault};
use super::{address_fault, arbitrary_state, value_fault};
use crate::processor::instruction::{Instruction, Operand};
use crate::tracing::step::{self, DeferredSignals, StepOutcome};
use model::flip::FlipType;
use sandbox::VirtualHost;
use sandbox::tracee::{Registers, Stop, Tracee};
use std::io;

/// Applies a fault. An error is the engine's: the process is not where it should be, or has ended. Blocks for at most
/// 20 ms plus the iterations of a repeated instruction. `host`: emulates the time stamp counter, in a process in which
/// reading it raises a signal.
pub fn apply(
    tracee: &Tracee,
    host: Option<&mut VirtualHost>,
    instruction: &Instruction,
    fault: &Fault,
) -> io::Result<AppliedFault> {
    let Some(operand) = instruction.operand(fault.kind, fault.operand) else {
        return Ok(AppliedFault::not_applied("the instruction has no such operand"));
    };
    if fault.bit >= instruction.width(fault.kind, fault.operand) {
        return Ok(AppliedFault::not_applied("the operand has no such bit"));
    }
    if fault.iteration > 0 {
        match step::iterations(tracee, instruction, fault.iteration)? {
            StepOutcome::Completed => {}
            other => return Ok(AppliedFault::after_step(String::from("before its iteration"), other, false)),
        }
    }
    match (operand, fault.kind) {
        (Operand::InstructionPointer, _) => flip_instruction_pointer(tracee, fault.bit),
        (Operand::Code, _) => value_fault::flip_code(tracee, instruction, fault.bit),
        (Operand::Variables, _) => arbitrary_state::corrupt(tracee, instruction, fault.seed).map(AppliedFault::applied),
        (Operand::Register(_) | Operand::Flags(_), FlipType::Rreg) => {
            value_fault::flip_register(tracee, operand, fault.bit)
        }
        (Operand::Register(_) | Operand::Flags(_), _) => flip_result(tracee, host, instruction, fault, operand),
        (Operand::Value(memory), FlipType::Rval) => value_fault::flip_source(tracee, memory, fault.bit),
        (Operand::Value(memory), _) => value_fault::flip_stored(tracee, instruction, memory, fault.bit),
        (Operand::Address(memory), kind) => {
            address_fault::apply(tracee, instruction, memory, kind == FlipType::Waddr, fault.bit)
        }
    }
}

impl PendingFault {
    /// Continues when the process has reported a stop: the fault is applied now, or is still pending.
    pub fn resume(
        mut self: Box<PendingFault>,
        tracee: &Tracee,
        instruction: &Instruction,
        stop: Stop,
    ) -> io::Result<AppliedFault> {
        let outcome = match self.deferred.reported(tracee, instruction, &self.before, stop)? {
            None | Some(StepOutcome::Pending(_)) => {
                tracee.start_step()?;
                StepOutcome::Pending(None)
            }
            Some(outcome) => self.deferred.release(tracee, outcome),
        };
        self.resolve(tracee, instruction, outcome)
    }

    fn resolve(
        self: Box<PendingFault>,
        tracee: &Tracee,
        instruction: &Instruction,
        outcome: StepOutcome,
    ) -> io::Result<AppliedFault> {
        match outcome {
            StepOutcome::Pending(stop) => {
                let hit = String::from("a system call that has not returned");
                Ok(AppliedFault { hit, activated: false, next: NextAction::Pending(stop, self) })
            }
            StepOutcome::Completed => match instruction.operand(self.fault.kind, self.fault.operand) {
                Some(operand) if instruction.ip() == self.ip => {
                    value_fault::flip_register(tracee, operand, self.fault.bit)
                }
                _ => Err(io::Error::other("a pending flip was resumed with another instruction")),
            },
            StepOutcome::Ended(stop) => Ok(AppliedFault {
                next: NextAction::Ended(stop),
                ..AppliedFault::not_applied("the system call did not return")
            }),
            StepOutcome::Raised(_) => Ok(AppliedFault::after_step(String::new(), outcome, false)),
        }
    }
}

fn flip_instruction_pointer(tracee: &Tracee, bit: u32) -> io::Result<AppliedFault> {
    let registers = tracee.registers()?;
    let rip = registers.rip ^ 1 << bit;
    tracee.set_registers(&Registers { rip, ..registers })?;
    Ok(AppliedFault::applied(format!("rip {:#x} -> {rip:#x}", registers.rip)))
}

fn flip_result(
    tracee: &Tracee,
    host: Option<&mut VirtualHost>,
    instruction: &Instruction,
    fault: &Fault,
    operand: Operand,
) -> io::Result<AppliedFault> {
    if let Some(host) = host
        && host.emulate_counter(tracee)?
    {
        return value_fault::flip_register(tracee, operand, fault.bit);
    }
    let before = tracee.registers()?;
    match step::over(tracee, instruction, &before)? {
        StepOutcome::Completed => value_fault::flip_register(tracee, operand, fault.bit),
        outcome => {
            let deferred = DeferredSignals::default();
            let pending = PendingFault { fault: *fault, before, ip: instruction.ip(), deferred };
            Box::new(pending).resolve(tracee, instruction, outcome)
        }
    }
}
