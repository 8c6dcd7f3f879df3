//! Brings a flip about in a process that is stopped exactly before the instruction.
//!
//! What is read is changed before the instruction runs, what is written after it (SEI, table 1). Afterwards the process is
//! stopped and ready to go on; a repeated instruction is struck in one of its iterations.

use crate::access::{self, Memory, Span};
use crate::advance::{self, Advanced, Held};
use crate::instruction::{Instruction, Operand, high};
use crate::tracee::{Registers, Stop, Tracee};
use crate::xstate::Xstate;
use crate::{swap, variables};
use iced_x86::Register;
use model::flip::{FlipType, Injection};
use std::io;

/// The part of an injection that says what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blow {
    pub kind: FlipType,
    /// Below [`Instruction::operands`].
    pub operand: usize,
    /// Below [`Instruction::width`].
    pub bit: u32,
    /// Iterations of a repeated instruction that are done before.
    pub iteration: u64,
    pub seed: u64,
}

impl From<&Injection> for Blow {
    fn from(injection: &Injection) -> Blow {
        let &Injection { kind, operand, bit, iteration, seed, .. } = injection;
        Blow { kind, operand: operand.into(), bit: bit.into(), iteration, seed }
    }
}

#[derive(Debug)]
pub struct Struck {
    /// What was hit, with its value before and after.
    pub hit: String,
    /// False: nothing was flipped; `hit` says why. Not known before a system call under way has returned.
    pub activated: bool,
    pub next: Next,
}

#[derive(Debug)]
pub enum Next {
    /// It is stopped. Resume it with this signal (0: none), whose details are set.
    Resume(i32),
    Ended(Stop),
    /// Its system call has not returned. Some: it reported this, which wants handling, and is stopped. Otherwise wait.
    /// Either way, hand over what it reported to [`Rest::after`].
    Underway(Option<Stop>, Box<Rest>),
}

/// A flip that waits for a system call to return.
#[derive(Debug)]
pub struct Rest {
    blow: Blow,
    before: Registers,
    ip: u64,
    held: Held,
}

impl Struck {
    pub(crate) fn missed(why: &str) -> Struck {
        Struck { hit: why.to_owned(), activated: false, next: Next::Resume(0) }
    }

    fn done(hit: String) -> Struck {
        Struck { hit, activated: true, next: Next::Resume(0) }
    }

    /// After the instruction has run, or failed to. `first`: the flip was made before it.
    pub(crate) fn advanced(hit: String, advanced: Advanced, first: bool) -> Struck {
        match advanced {
            Advanced::Done => Struck::done(hit),
            Advanced::Raised(signal) if first => Struck { next: Next::Resume(signal), ..Struck::done(hit) },
            Advanced::Raised(signal) => Struck {
                next: Next::Resume(signal),
                ..Struck::missed(&format!("the instruction raised signal {signal}"))
            },
            Advanced::Ended(stop) => Struck { next: Next::Ended(stop), activated: first, hit },
            Advanced::Underway(_) => Struck::missed("the instruction did not complete"),
        }
    }
}

/// Strikes. An error is the engine's: the process is not where it should be, or gone. Blocks for 20 ms at most, apart from
/// the iterations of a repeated instruction.
pub fn strike(tracee: &Tracee, instruction: &Instruction, blow: &Blow) -> io::Result<Struck> {
    let Some(operand) = instruction.operand(blow.kind, blow.operand) else {
        return Ok(Struck::missed("the instruction has no such operand"));
    };
    if blow.bit >= instruction.width(blow.kind, blow.operand) {
        return Ok(Struck::missed("the operand has no such bit"));
    }
    if blow.iteration > 0 {
        match advance::iterations(tracee, instruction, blow.iteration)? {
            Advanced::Done => {}
            other => return Ok(Struck::advanced(String::from("before its iteration"), other, false)),
        }
    }
    match (operand, blow.kind) {
        (Operand::InstructionPointer, _) => flip_pointer(tracee, blow.bit),
        (Operand::Code, _) => flip_code(tracee, instruction, blow.bit),
        (Operand::Variables, _) => variables::corrupt(tracee, instruction, blow.seed).map(Struck::done),
        (Operand::Register(_) | Operand::Flags(_), FlipType::Rreg) => flip_register(tracee, operand, blow.bit),
        (Operand::Register(_) | Operand::Flags(_), _) => flip_result(tracee, instruction, blow, operand),
        (Operand::Value(memory), FlipType::Rval) => flip_source(tracee, memory, blow.bit),
        (Operand::Value(memory), _) => flip_stored(tracee, instruction, memory, blow.bit),
        (Operand::Address(memory), kind) => {
            swap::strike(tracee, instruction, memory, kind == FlipType::Waddr, blow.bit)
        }
    }
}

impl Rest {
    /// Goes on when the process has reported something. It is stopped, or ended.
    pub fn after(mut self: Box<Rest>, tracee: &Tracee, instruction: &Instruction, stop: Stop) -> io::Result<Struck> {
        let advanced = match self.held.reported(tracee, instruction, &self.before, stop)? {
            None | Some(Advanced::Underway(_)) => {
                tracee.start_step()?;
                Advanced::Underway(None)
            }
            Some(advanced) => self.held.release(tracee, advanced),
        };
        self.resolve(tracee, instruction, advanced)
    }

    fn resolve(self: Box<Rest>, tracee: &Tracee, instruction: &Instruction, advanced: Advanced) -> io::Result<Struck> {
        match advanced {
            Advanced::Underway(stop) => {
                let hit = String::from("a system call that has not returned");
                Ok(Struck { hit, activated: false, next: Next::Underway(stop, self) })
            }
            Advanced::Done => match instruction.operand(self.blow.kind, self.blow.operand) {
                Some(operand) if instruction.ip() == self.ip => flip_register(tracee, operand, self.blow.bit),
                _ => Err(io::Error::other("a flip was continued with another instruction")),
            },
            Advanced::Ended(stop) => {
                Ok(Struck { next: Next::Ended(stop), ..Struck::missed("the system call did not return") })
            }
            Advanced::Raised(_) => Ok(Struck::advanced(String::new(), advanced, false)),
        }
    }
}

fn flip_pointer(tracee: &Tracee, bit: u32) -> io::Result<Struck> {
    let registers = tracee.registers()?;
    let rip = registers.rip ^ 1 << bit;
    tracee.set_registers(&Registers { rip, ..registers })?;
    Ok(Struck::done(format!("rip {:#x} -> {rip:#x}", registers.rip)))
}

fn flip_code(tracee: &Tracee, instruction: &Instruction, bit: u32) -> io::Result<Struck> {
    let byte = Span { address: instruction.ip() + u64::from(bit / 8), bytes: 1 };
    flip_byte(tracee, "code ", byte, bit % 8)
}

fn flip_result(tracee: &Tracee, instruction: &Instruction, blow: &Blow, operand: Operand) -> io::Result<Struck> {
    let before = tracee.registers()?;
    match advance::over(tracee, instruction, &before)? {
        Advanced::Done => flip_register(tracee, operand, blow.bit),
        advanced => Box::new(Rest { blow: *blow, before, ip: instruction.ip(), held: Held::default() }).resolve(
            tracee,
            instruction,
            advanced,
        ),
    }
}

fn flip_register(tracee: &Tracee, operand: Operand, bit: u32) -> io::Result<Struck> {
    let mut registers = tracee.registers()?;
    let hit = match operand {
        Operand::Flags(mask) => {
            let flag = (0..32).filter(|place| mask >> place & 1 == 1).nth(bit as usize).unwrap_or_default();
            let before = registers.eflags;
            registers.eflags ^= 1 << flag;
            format!("flags {before:#x} -> {:#x}", registers.eflags)
        }
        Operand::Register(register) => {
            let before = access::value(&registers, register);
            let Some(whole) = access::whole(&mut registers, register) else {
                return flip_vector(tracee, register, bit);
            };
            *whole ^= 1 << (bit + if high(register) { 8 } else { 0 });
            let after = access::value(&registers, register);
            format!("{} {:#x} -> {:#x}", lower(register), before.unwrap_or_default(), after.unwrap_or_default())
        }
        _ => return Err(io::Error::other("a flip of a register was asked of another operand")),
    };
    tracee.set_registers(&registers)?;
    Ok(Struck::done(hit))
}

/// Shown is the 64-bit lane that was hit: `ymm3[1] 0x0 -> 0x4`.
fn flip_vector(tracee: &Tracee, register: Register, bit: u32) -> io::Result<Struck> {
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
        Err(error) => Ok(Struck::missed(&error.to_string())),
        Ok((before, after)) => {
            state.store(tracee)?;
            Ok(Struck::done(format!("{}[{}] {before:#x} -> {after:#x}", lower(register), bit / 64)))
        }
    }
}

fn flip_source(tracee: &Tracee, memory: &Memory, bit: u32) -> io::Result<Struck> {
    match Span::of(tracee, memory, &tracee.registers()?)? {
        None => Ok(Struck::missed("nothing is read: the mask is empty")),
        Some(span) => flip_value(tracee, span, memory, bit),
    }
}

fn flip_stored(tracee: &Tracee, instruction: &Instruction, memory: &Memory, bit: u32) -> io::Result<Struck> {
    let before = tracee.registers()?;
    let Some(span) = Span::of(tracee, memory, &before)? else {
        return Ok(Struck::missed("nothing is written: the mask is empty"));
    };
    match advance::over(tracee, instruction, &before)? {
        Advanced::Done => flip_value(tracee, span, memory, bit),
        other => Ok(Struck::advanced(String::from("before it was written"), other, false)),
    }
}

/// Under a mask, the bit is scaled to the bytes that are accessed.
fn flip_value(tracee: &Tracee, span: Span, memory: &Memory, bit: u32) -> io::Result<Struck> {
    let accessed = span.bytes.count_ones() * 8;
    let bit = bit * accessed / (u32::from(memory.size) * 8);
    let byte = (0..64).filter(|byte| span.bytes >> byte & 1 == 1).nth(bit as usize / 8).unwrap_or_default();
    flip_byte(tracee, "", Span { address: span.address.wrapping_add(byte), bytes: 1 }, bit % 8)
}

fn flip_byte(tracee: &Tracee, what: &str, byte: Span, bit: u32) -> io::Result<Struck> {
    let mut value = [0];
    let flipped =
        tracee.read(byte.address, &mut value).and_then(|()| tracee.write(byte.address, &[value[0] ^ 1 << bit]));
    Ok(match flipped {
        Ok(()) => {
            Struck::done(format!("{what}[{:#x}] {:#04x} -> {:#04x}", byte.address, value[0], value[0] ^ 1 << bit))
        }
        Err(error) => Struck::missed(&format!("{what}[{:#x}] cannot be changed: {error}", byte.address)),
    })
}

fn lower(register: Register) -> String {
    format!("{register:?}").to_lowercase()
}
