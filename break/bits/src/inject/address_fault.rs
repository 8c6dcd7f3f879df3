//! A flipped address: an operand is read from, or written to, another address than the instruction names.
//!
//! The memory contents are exchanged, not the base register, which the instruction may use otherwise or may not have:
//! `push`, `call`, RIP-relative operands, `mov rax,[rax]`. The effect is that of the processor using the flipped
//! address:
//! - Read: the content of the wrong address is put at the right one and the instruction runs. The right address then
//!   gets its content back, except where the instruction wrote. The two may overlap: everything is read before anything
//!   is written.
//! - Write: the instruction runs. The right address then gets its content back, and after that the wrong one gets the
//!   result, which wins where they overlap.
//! - Read and written by one instruction: each flip affects its own half. `add [a],x` reads at the wrong address and
//!   writes at the right one, or the other way round.
//! - The wrong address cannot be accessed: the instruction does not run, and the program gets the signal.

use super::fault::{AppliedFault, NextAction};
use crate::processor::access_fault;
use crate::processor::instruction::Instruction;
use crate::processor::memory_operand::{ByteSpan, MemoryOperand};
use crate::tracing::step::{self, StepOutcome};
use sandbox::tracee::{Registers, Tracee};
use std::io;

pub(super) fn apply(
    tracee: &Tracee,
    instruction: &Instruction,
    memory: &MemoryOperand,
    write: bool,
    bit: u32,
) -> io::Result<AppliedFault> {
    let registers = tracee.registers()?;
    let Some(here) = ByteSpan::of(tracee, memory, &registers)? else {
        return Ok(AppliedFault::not_applied("nothing is accessed: the mask is empty"));
    };
    let there = here.moved(here.address ^ 1 << bit);
    let hit = format!("address {:#x} -> {:#x}", here.address, there.address);
    if let Some(access_fault) = access_fault::of_access(tracee, memory, there, write)? {
        access_fault.prepare(tracee)?;
        let next = NextAction::Resume(access_fault.signal);
        return Ok(AppliedFault { hit: format!("{hit}, not accessible"), activated: true, next });
    }
    let others = Others::of(tracee, instruction, memory, &registers)?;
    if !write && others.read.iter().any(|&other| here.without(other) != Some(here)) {
        return Ok(AppliedFault::not_applied("another operand is read from the same address"));
    }
    let exchanged = if write {
        write_elsewhere(tracee, instruction, &registers, here, there)
    } else {
        read_elsewhere(tracee, instruction, &registers, here, there, &others.written)
    };
    // memory that only the processor can access, such as a clock page or a device
    let outcome = match exchanged {
        Err(error) if error.raw_os_error() == Some(libc::EIO) => {
            return Ok(AppliedFault::not_applied(&format!("{hit}: {error}")));
        }
        other => other?,
    };
    Ok(AppliedFault::after_step(hit, outcome, !write))
}

/// Memory that an instruction accesses besides the operand.
struct Others {
    read: Vec<ByteSpan>,
    /// Includes the operand.
    written: Vec<ByteSpan>,
}

impl Others {
    fn of(
        tracee: &Tracee,
        instruction: &Instruction,
        memory: &MemoryOperand,
        registers: &Registers,
    ) -> io::Result<Others> {
        let mut others = Others { read: Vec::new(), written: Vec::new() };
        for other in instruction.memory() {
            let Some(span) = ByteSpan::of(tracee, other, registers)? else { continue };
            if other.read && !std::ptr::eq(other, memory) {
                others.read.push(span);
            }
            if other.written {
                others.written.push(span);
            }
        }
        Ok(others)
    }
}

fn read_elsewhere(
    tracee: &Tracee,
    instruction: &Instruction,
    registers: &Registers,
    here: ByteSpan,
    there: ByteSpan,
    written: &[ByteSpan],
) -> io::Result<StepOutcome> {
    let (original, value) = (here.read(tracee)?, there.read(tracee)?);
    here.write(tracee, &value)?;
    let outcome = step::over(tracee, instruction, registers)?;
    let restored = match outcome {
        StepOutcome::Completed => written.iter().try_fold(here, |rest, &span| rest.without(span)),
        StepOutcome::Ended(_) => None,
        StepOutcome::Raised(_) | StepOutcome::Pending(_) => Some(here),
    };
    if let Some(span) = restored {
        span.write(tracee, &original)?;
    }
    Ok(outcome)
}

fn write_elsewhere(
    tracee: &Tracee,
    instruction: &Instruction,
    registers: &Registers,
    here: ByteSpan,
    there: ByteSpan,
) -> io::Result<StepOutcome> {
    let original = here.read(tracee)?;
    there.read(tracee)?;
    let outcome = step::over(tracee, instruction, registers)?;
    if outcome == StepOutcome::Completed {
        let result = here.read(tracee)?;
        here.write(tracee, &original)?;
        there.write(tracee, &result)?;
    }
    Ok(outcome)
}
