//! Definitions and uses of registers, flags and memory, which show which flips are equivalent.
//!
//! A flip in a register or in memory takes effect when its location is read next, and never if that location is written
//! first. So all flips of one bit between two accesses form an equivalence class (definition and use; Barbosa et al.,
//! EDCC 2005). Where an access is not known exactly (memory that the kernel reads in a system call), a class ends.

use crate::processor::control_flow::ControlFlow;
use crate::processor::instruction::Instruction;
use crate::processor::registers::{is_high_byte, is_read, is_written};
use iced_x86::{Code, InstructionInfoFactory, OpAccess, Register, RflagsBits};
use sandbox::tracee::Registers;
use std::collections::HashMap;

/// A byte that can be flipped: of a register, by its full register and byte number, or of memory. Each flag is a
/// location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    Register(Register, u8),
    Flag(u8),
    Memory(u64),
}

/// The next access to a location from some point on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NextAccess {
    /// The instruction with this number in the trace reads it, or may read it.
    Use(u32),
    /// It is written, or the program ends: a flip has no effect.
    Dead,
}

/// How an instruction accesses registers and flags; the same every time it runs.
#[derive(Debug, Default)]
pub struct Accesses {
    reads: Vec<Location>,
    writes: Vec<Location>,
    /// It may access memory other than the listed operands, or only a part of these.
    pub barrier: bool,
    /// It may read all vector registers.
    saves_vectors: bool,
}

impl Accesses {
    pub fn of(instruction: &Instruction) -> Accesses {
        let decoded = instruction.decoded();
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(decoded);
        let mut accesses = Accesses::default();
        for used in info.used_registers() {
            let locations = bytes(used.register());
            if is_read(used.access()) || used.access() == OpAccess::CondWrite {
                accesses.reads.extend(&locations);
            }
            if used.access() == OpAccess::Write || used.access() == OpAccess::ReadWrite {
                accesses.writes.extend(&locations);
            }
        }
        if decoded.code() == Code::Syscall {
            use Register::{R8, R9, R10, R11, RAX, RCX, RDI, RDX, RSI};
            accesses.reads.extend([RAX, RDI, RSI, RDX, R10, R8, R9].into_iter().flat_map(bytes));
            accesses.writes.extend([RAX, RCX, R11].into_iter().flat_map(bytes));
        }
        accesses.reads.extend(flags(decoded.rflags_read()));
        accesses.writes.extend(flags(decoded.rflags_modified() & !decoded.rflags_undefined()));
        // a shift by a register may leave the flags as they were
        if decoded.op_count() == 2 && decoded.op1_kind() == iced_x86::OpKind::Register && shifts(decoded) {
            accesses.reads.extend(flags(decoded.rflags_modified()));
        }
        let listed = instruction.memory().len();
        let masked = instruction.memory().iter().any(|memory| memory.mask.is_some());
        let conditional = info
            .used_memory()
            .iter()
            .any(|used| matches!(used.access(), OpAccess::CondWrite | OpAccess::ReadCondWrite | OpAccess::CondRead));
        let all = info.used_memory().iter().filter(|used| is_read(used.access()) || is_written(used.access())).count();
        let repeated = instruction.flow() == ControlFlow::Repeated;
        accesses.barrier = decoded.code() == Code::Syscall || listed != all || masked || conditional || repeated;
        accesses.saves_vectors = decoded.is_save_restore_instruction();
        accesses
    }
}

fn shifts(decoded: &iced_x86::Instruction) -> bool {
    use iced_x86::Mnemonic::{Rcl, Rcr, Rol, Ror, Sar, Shl, Shr};
    matches!(decoded.mnemonic(), Shl | Shr | Sar | Rol | Ror | Rcl | Rcr)
}

/// The locations of a register's bytes.
pub fn bytes(register: Register) -> Vec<Location> {
    let full = register.full_register();
    let first = u8::from(is_high_byte(register));
    (first..first + register.size() as u8).map(|byte| Location::Register(full, byte)).collect()
}

/// Converts the decoder's flag bits to locations in RFLAGS.
fn flags(mask: u32) -> impl Iterator<Item = Location> {
    let positions = [
        (RflagsBits::CF, 0),
        (RflagsBits::PF, 2),
        (RflagsBits::AF, 4),
        (RflagsBits::ZF, 6),
        (RflagsBits::SF, 7),
        (RflagsBits::DF, 10),
        (RflagsBits::OF, 11),
    ];
    positions.into_iter().filter(move |(bit, _)| mask & bit != 0).map(|(_, position)| Location::Flag(position))
}

/// The next access to every location, built from the end of a trace to its beginning.
#[derive(Default)]
pub struct NextAccesses {
    by_location: HashMap<Location, NextAccess>,
    /// The next access to memory and to vector registers that have no entry of their own.
    memory: Option<u32>,
    vectors: Option<u32>,
}

impl NextAccesses {
    pub fn of(&self, location: Location) -> NextAccess {
        let otherwise = match location {
            Location::Memory(_) => self.memory,
            Location::Register(register, _) if register.is_vector_register() => self.vectors,
            _ => None,
        };
        self.by_location.get(&location).copied().unwrap_or(otherwise.map_or(NextAccess::Dead, NextAccess::Use))
    }

    /// Steps back over the instruction with this number; `registers` are those before it.
    pub fn step_back(&mut self, number: u32, instruction: &Instruction, accesses: &Accesses, registers: &Registers) {
        for location in &accesses.writes {
            self.by_location.insert(*location, NextAccess::Dead);
        }
        if accesses.barrier {
            self.by_location.retain(|location, _| !matches!(location, Location::Memory(_)));
            self.memory = Some(number);
        }
        if accesses.saves_vectors {
            self.by_location.retain(
                |location, _| !matches!(location, Location::Register(register, _) if register.is_vector_register()),
            );
            self.vectors = Some(number);
        }
        if !accesses.barrier {
            for (written, next) in [(true, NextAccess::Dead), (false, NextAccess::Use(number))] {
                let accessed = instruction.memory().iter().filter(|m| if written { m.written } else { m.read });
                for memory in accessed {
                    let Some(address) = memory.address(registers) else { continue };
                    for byte in 0..u64::from(memory.size) {
                        self.by_location.insert(Location::Memory(address.wrapping_add(byte)), next);
                    }
                }
            }
        }
        for location in &accesses.reads {
            self.by_location.insert(*location, NextAccess::Use(number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox::tracee::no_registers;

    /// The next accesses before a piece of code that nothing follows.
    fn before(code: &[&[u8]], registers: Registers) -> NextAccesses {
        let mut nexts = NextAccesses::default();
        for (number, bytes) in code.iter().enumerate().rev() {
            let instruction = Instruction::decode(0x1000, bytes).unwrap();
            nexts.step_back(number as u32, &instruction, &Accesses::of(&instruction), &registers);
        }
        nexts
    }

    fn byte(register: Register, byte: u8) -> Location {
        Location::Register(register, byte)
    }

    #[test]
    fn a_flip_takes_effect_at_the_next_read_and_not_after_a_write() {
        use Register::{RAX, RBX, RCX};
        // mov rax, rbx; add rax, rcx
        let nexts = before(&[&[0x48, 0x89, 0xd8], &[0x48, 0x01, 0xc8]], no_registers());
        assert_eq!(nexts.of(byte(RAX, 3)), NextAccess::Dead, "written first");
        assert_eq!(nexts.of(byte(RBX, 7)), NextAccess::Use(0));
        assert_eq!(nexts.of(byte(RCX, 0)), NextAccess::Use(1));
    }

    #[test]
    fn a_32_bit_write_ends_all_of_the_register_and_an_8_bit_write_its_byte() {
        use Register::RAX;
        // mov eax, 1; then mov al, 1
        assert_eq!(before(&[&[0xb8, 1, 0, 0, 0]], no_registers()).of(byte(RAX, 7)), NextAccess::Dead);
        // mov al, 1; mov rbx, rax
        let nexts = before(&[&[0xb0, 1], &[0x48, 0x89, 0xc3]], no_registers());
        assert_eq!(nexts.of(byte(RAX, 0)), NextAccess::Dead);
        assert_eq!(nexts.of(byte(RAX, 1)), NextAccess::Use(1));
    }

    #[test]
    fn memory_is_followed_byte_by_byte_until_a_system_call() {
        let registers = Registers { rsp: 0x7000, ..no_registers() };
        // mov [rsp], eax; syscall
        let nexts = before(&[&[0x89, 0x04, 0x24], &[0x0f, 0x05]], registers);
        assert_eq!(nexts.of(Location::Memory(0x7003)), NextAccess::Dead, "overwritten");
        assert_eq!(nexts.of(Location::Memory(0x7004)), NextAccess::Use(1), "the kernel may read it");
        assert_eq!(nexts.of(byte(Register::RDI, 0)), NextAccess::Use(1));
    }

    #[test]
    fn a_conditional_move_does_not_end_a_class() {
        // cmove rax, rbx
        let nexts = before(&[&[0x48, 0x0f, 0x44, 0xc3]], no_registers());
        assert_eq!(nexts.of(byte(Register::RAX, 0)), NextAccess::Use(0));
        assert_eq!(nexts.of(Location::Flag(6)), NextAccess::Use(0));
    }
}
