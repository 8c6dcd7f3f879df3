//! A flipped address: an operand is read from, or written to, another place than where it belongs.
//!
//! The memory is exchanged, not the base register, which the instruction may use otherwise, or may not have: `push`, `call`,
//! RIP-relative operands, `mov rax,[rax]`. What the processor does with the flipped address is thought through here:
//! - Read: what is at the wrong address is put at the right one, the instruction runs, and the right one gets back what it
//!   had, except where the instruction wrote. The two may overlap: all is read before anything is put anywhere.
//! - Write: the instruction runs, then its result goes to the wrong address and the right one gets back what it had, in the
//!   other order, as the result wins where they overlap.
//! - Read and written by one instruction: each flip concerns its own half. `add [a],x` reads at the wrong address and writes
//!   at the right one, or the other way round.
//! - The wrong address cannot be accessed: the instruction does not run, and the program gets the signal.

use crate::access::{Memory, Span};
use crate::advance::{self, Advanced};
use crate::fault;
use crate::instruction::Instruction;
use crate::strike::{Next, Struck};
use crate::tracee::{Registers, Tracee};
use std::io;

pub(crate) fn strike(
    tracee: &Tracee,
    instruction: &Instruction,
    memory: &Memory,
    write: bool,
    bit: u32,
) -> io::Result<Struck> {
    let registers = tracee.registers()?;
    let Some(here) = Span::of(tracee, memory, &registers)? else {
        return Ok(Struck::missed("nothing is accessed: the mask is empty"));
    };
    let there = here.moved(here.address ^ 1 << bit);
    let hit = format!("address {:#x} -> {:#x}", here.address, there.address);
    if let Some(fault) = fault::of_access(tracee, memory, there, write)? {
        fault.prepare(tracee)?;
        return Ok(Struck { hit: format!("{hit}, not accessible"), activated: true, next: Next::Resume(fault.signal) });
    }
    let others = Others::of(tracee, instruction, memory, &registers)?;
    if !write && others.read.iter().any(|&other| here.without(other) != Some(here)) {
        return Ok(Struck::missed("another operand is read from the same place"));
    }
    let exchanged = if write {
        write_elsewhere(tracee, instruction, &registers, here, there)
    } else {
        read_elsewhere(tracee, instruction, &registers, here, there, &others.written)
    };
    // memory that only the processor can access: a clock page, a device
    let advanced = match exchanged {
        Err(error) if error.raw_os_error() == Some(libc::EIO) => return Ok(Struck::missed(&format!("{hit}: {error}"))),
        other => other?,
    };
    Ok(Struck::advanced(hit, advanced, !write))
}

/// The memory that an instruction accesses besides the operand.
struct Others {
    read: Vec<Span>,
    /// The operand, too.
    written: Vec<Span>,
}

impl Others {
    fn of(tracee: &Tracee, instruction: &Instruction, memory: &Memory, registers: &Registers) -> io::Result<Others> {
        let mut others = Others { read: Vec::new(), written: Vec::new() };
        for other in instruction.memory() {
            let Some(span) = Span::of(tracee, other, registers)? else { continue };
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
    here: Span,
    there: Span,
    written: &[Span],
) -> io::Result<Advanced> {
    let (kept, value) = (here.read(tracee)?, there.read(tracee)?);
    here.write(tracee, &value)?;
    let advanced = advance::over(tracee, instruction, registers)?;
    let restored = match advanced {
        Advanced::Done => written.iter().try_fold(here, |rest, &span| rest.without(span)),
        Advanced::Ended(_) => None,
        Advanced::Raised(_) | Advanced::Underway(_) => Some(here),
    };
    if let Some(span) = restored {
        span.write(tracee, &kept)?;
    }
    Ok(advanced)
}

fn write_elsewhere(
    tracee: &Tracee,
    instruction: &Instruction,
    registers: &Registers,
    here: Span,
    there: Span,
) -> io::Result<Advanced> {
    let kept = here.read(tracee)?;
    there.read(tracee)?;
    let advanced = advance::over(tracee, instruction, registers)?;
    if advanced == Advanced::Done {
        let result = here.read(tracee)?;
        here.write(tracee, &kept)?;
        there.write(tracee, &result)?;
    }
    Ok(advanced)
}
