//! Flips a bit of a value: in a register, the flags, memory or code.

use super::fault::AppliedFault;
use crate::processor::instruction::{Instruction, Operand};
use crate::processor::memory_operand::{ByteSpan, MemoryOperand};
use crate::processor::registers::{is_high_byte, value, whole};
use crate::processor::xstate::Xstate;
use crate::tracing::step::{self, StepOutcome};
use iced_x86::Register;
use sandbox::tracee::Tracee;
use std::io;

pub(super) fn flip_code(tracee: &Tracee, instruction: &Instruction, bit: u32) -> io::Result<AppliedFault> {
    let byte = ByteSpan { address: instruction.ip() + u64::from(bit / 8), bytes: 1 };
    flip_byte(tracee, "code ", byte, bit % 8)
}

pub(super) fn flip_register(tracee: &Tracee, operand: Operand, bit: u32) -> io::Result<AppliedFault> {
    let mut registers = tracee.registers()?;
    let hit = match operand {
        Operand::Flags(mask) => {
            let flag = (0..32).filter(|position| mask >> position & 1 == 1).nth(bit as usize).unwrap_or_default();
            let before = registers.eflags;
            registers.eflags ^= 1 << flag;
            format!("flags {before:#x} -> {:#x}", registers.eflags)
        }
        Operand::Register(register) => {
            let before = value(&registers, register);
            let Some(whole) = whole(&mut registers, register) else {
                return flip_vector(tracee, register, bit);
            };
            *whole ^= 1 << (bit + if is_high_byte(register) { 8 } else { 0 });
            let after = value(&registers, register);
            format!("{} {:#x} -> {:#x}", lower(register), before.unwrap_or_default(), after.unwrap_or_default())
        }
        _ => return Err(io::Error::other("a register flip was requested for another kind of operand")),
    };
    tracee.set_registers(&registers)?;
    Ok(AppliedFault::applied(hit))
}

/// Reports the 64-bit lane that was hit: `ymm3[1] 0x0 -> 0x4`.
fn flip_vector(tracee: &Tracee, register: Register, bit: u32) -> io::Result<AppliedFault> {
    let mut state = Xstate::of(tracee)?;
    let lane = |state: &Xstate| -> io::Result<u64> {
        let value = state.value(register)?;
        let lane = &value[bit as usize / 64 * 8..][..8];
        Ok(lane.iter().rev().fold(0, |whole, &byte| whole << 8 | u64::from(byte)))
    };
    let flipped = lane(&state).and_then(|before| {
        state.flip(register, bit)?;
        Ok((before, lane(&state)?))
    });
    match flipped {
        Err(error) => Ok(AppliedFault::not_applied(&error.to_string())),
        Ok((before, after)) => {
            state.store(tracee)?;
            Ok(AppliedFault::applied(format!("{}[{}] {before:#x} -> {after:#x}", lower(register), bit / 64)))
        }
    }
}

pub(super) fn flip_source(tracee: &Tracee, memory: &MemoryOperand, bit: u32) -> io::Result<AppliedFault> {
    match ByteSpan::of(tracee, memory, &tracee.registers()?)? {
        None => Ok(AppliedFault::not_applied("nothing is read: the mask is empty")),
        Some(span) => flip_value(tracee, span, memory, bit),
    }
}

pub(super) fn flip_stored(
    tracee: &Tracee,
    instruction: &Instruction,
    memory: &MemoryOperand,
    bit: u32,
) -> io::Result<AppliedFault> {
    let before = tracee.registers()?;
    let Some(span) = ByteSpan::of(tracee, memory, &before)? else {
        return Ok(AppliedFault::not_applied("nothing is written: the mask is empty"));
    };
    match step::over(tracee, instruction, &before)? {
        StepOutcome::Completed => flip_value(tracee, span, memory, bit),
        other => Ok(AppliedFault::after_step(String::from("before it was written"), other, false)),
    }
}

/// Under a mask, the bit is scaled to the bytes that are accessed.
fn flip_value(tracee: &Tracee, span: ByteSpan, memory: &MemoryOperand, bit: u32) -> io::Result<AppliedFault> {
    let accessed = span.bytes.count_ones() * 8;
    let bit = bit * accessed / (u32::from(memory.size) * 8);
    let byte = (0..64).filter(|byte| span.bytes >> byte & 1 == 1).nth(bit as usize / 8).unwrap_or_default();
    flip_byte(tracee, "", ByteSpan { address: span.address.wrapping_add(byte), bytes: 1 }, bit % 8)
}

fn flip_byte(tracee: &Tracee, what: &str, byte: ByteSpan, bit: u32) -> io::Result<AppliedFault> {
    let mut value = [0];
    let flipped =
        tracee.read(byte.address, &mut value).and_then(|()| tracee.write(byte.address, &[value[0] ^ 1 << bit]));
    Ok(match flipped {
        Ok(()) => AppliedFault::applied(format!(
            "{what}[{:#x}] {:#04x} -> {:#04x}",
            byte.address,
            value[0],
            value[0] ^ 1 << bit
        )),
        Err(error) => AppliedFault::not_applied(&format!("{what}[{:#x}] cannot be changed: {error}", byte.address)),
    })
}

fn lower(register: Register) -> String {
    format!("{register:?}").to_lowercase()
}
