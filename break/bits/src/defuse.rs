//! Which flips are one and the same: nothing can tell when a bit changed between two accesses to it.
//!
//! A flip in a register or in memory acts when its place is read the next time, and not at all if that place is written first. So
//! all flips of one bit between two accesses form a class (definition and use; Barbosa et al., EDCC 2005). Where an access
//! cannot be known exactly (what the kernel reads of memory in a system call), a class ends there and stands for itself.

use crate::instruction::{Instruction, reading, writing};
use crate::tracee::Registers;
use iced_x86::{Code, InstructionInfoFactory, OpAccess, Register, RflagsBits};
use std::collections::HashMap;

/// A byte that can be flipped: of a register, by its full name and number, or of memory. Flags are one place per bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spot {
    Register(Register, u8),
    Flag(u8),
    Memory(u64),
}

/// What happens to a place first, from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// It is read, or may be, by the instruction of this number in the trace.
    Use(u32),
    /// It is written, or the program ends: a flip is without effect.
    Gone,
}

/// How an instruction treats registers and flags; the same every time it runs.
#[derive(Debug, Default)]
pub struct Treats {
    reads: Vec<Spot>,
    writes: Vec<Spot>,
    /// Memory may be accessed elsewhere than at the listed operands, or only in part.
    pub barrier: bool,
    /// All vector registers may be read.
    saves_vectors: bool,
}

impl Treats {
    pub fn of(instruction: &Instruction) -> Treats {
        let decoded = instruction.decoded();
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(decoded);
        let mut treats = Treats::default();
        for used in info.used_registers() {
            let spots = bytes(used.register());
            if reading(used.access()) || used.access() == OpAccess::CondWrite {
                treats.reads.extend(&spots);
            }
            if used.access() == OpAccess::Write || used.access() == OpAccess::ReadWrite {
                treats.writes.extend(&spots);
            }
        }
        if decoded.code() == Code::Syscall {
            use Register::{R8, R9, R10, R11, RAX, RCX, RDI, RDX, RSI};
            treats.reads.extend([RAX, RDI, RSI, RDX, R10, R8, R9].into_iter().flat_map(bytes));
            treats.writes.extend([RAX, RCX, R11].into_iter().flat_map(bytes));
        }
        treats.reads.extend(flags(decoded.rflags_read()));
        treats.writes.extend(flags(decoded.rflags_modified() & !decoded.rflags_undefined()));
        // a shift by a register may leave the flags as they were
        if decoded.op_count() == 2 && decoded.op1_kind() == iced_x86::OpKind::Register && shifts(decoded) {
            treats.reads.extend(flags(decoded.rflags_modified()));
        }
        let listed = instruction.memory().len();
        let masked = instruction.memory().iter().any(|memory| memory.mask.is_some());
        let conditional = info
            .used_memory()
            .iter()
            .any(|used| matches!(used.access(), OpAccess::CondWrite | OpAccess::ReadCondWrite | OpAccess::CondRead));
        let all = info.used_memory().iter().filter(|used| reading(used.access()) || writing(used.access())).count();
        let repeated = instruction.flow() == crate::flow::Flow::Repeated;
        treats.barrier = decoded.code() == Code::Syscall || listed != all || masked || conditional || repeated;
        treats.saves_vectors = decoded.is_save_restore_instruction();
        treats
    }
}

fn shifts(decoded: &iced_x86::Instruction) -> bool {
    use iced_x86::Mnemonic::{Rcl, Rcr, Rol, Ror, Sar, Shl, Shr};
    matches!(decoded.mnemonic(), Shl | Shr | Sar | Rol | Ror | Rcl | Rcr)
}

/// The places of a register, byte by byte.
pub fn bytes(register: Register) -> Vec<Spot> {
    let full = register.full_register();
    let first = u8::from(crate::instruction::high(register));
    (first..first + register.size() as u8).map(|byte| Spot::Register(full, byte)).collect()
}

/// The decoder's flag bits as places of RFLAGS.
fn flags(mask: u32) -> impl Iterator<Item = Spot> {
    let places = [
        (RflagsBits::CF, 0),
        (RflagsBits::PF, 2),
        (RflagsBits::AF, 4),
        (RflagsBits::ZF, 6),
        (RflagsBits::SF, 7),
        (RflagsBits::DF, 10),
        (RflagsBits::OF, 11),
    ];
    places.into_iter().filter(move |(bit, _)| mask & bit != 0).map(|(_, place)| Spot::Flag(place))
}

/// The next access to every place, built from the end of a trace towards its beginning.
#[derive(Default)]
pub struct Nexts {
    known: HashMap<Spot, Next>,
    /// Of all memory that is not named, and of all vector registers.
    memory: Option<u32>,
    vectors: Option<u32>,
}

impl Nexts {
    pub fn of(&self, spot: Spot) -> Next {
        let otherwise = match spot {
            Spot::Memory(_) => self.memory,
            Spot::Register(register, _) if register.is_vector_register() => self.vectors,
            _ => None,
        };
        self.known.get(&spot).copied().unwrap_or(otherwise.map_or(Next::Gone, Next::Use))
    }

    /// Goes back over the instruction of this number; `registers` are those before it.
    pub fn back(&mut self, number: u32, instruction: &Instruction, treats: &Treats, registers: &Registers) {
        for spot in &treats.writes {
            self.known.insert(*spot, Next::Gone);
        }
        if treats.barrier {
            self.known.retain(|spot, _| !matches!(spot, Spot::Memory(_)));
            self.memory = Some(number);
        }
        if treats.saves_vectors {
            self.known.retain(|spot, _| !matches!(spot, Spot::Register(register, _) if register.is_vector_register()));
            self.vectors = Some(number);
        }
        if !treats.barrier {
            for (written, next) in [(true, Next::Gone), (false, Next::Use(number))] {
                let accessed = instruction.memory().iter().filter(|m| if written { m.written } else { m.read });
                for memory in accessed {
                    let Some(address) = memory.address(registers) else { continue };
                    for byte in 0..u64::from(memory.size) {
                        self.known.insert(Spot::Memory(address.wrapping_add(byte)), next);
                    }
                }
            }
        }
        for spot in &treats.reads {
            self.known.insert(*spot, Next::Use(number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracee::no_registers;

    /// The next accesses before a piece of code, of which nothing follows.
    fn before(code: &[&[u8]], registers: Registers) -> Nexts {
        let mut nexts = Nexts::default();
        for (number, bytes) in code.iter().enumerate().rev() {
            let instruction = Instruction::decode(0x1000, bytes).unwrap();
            nexts.back(number as u32, &instruction, &Treats::of(&instruction), &registers);
        }
        nexts
    }

    fn byte(register: Register, byte: u8) -> Spot {
        Spot::Register(register, byte)
    }

    #[test]
    fn a_flip_acts_at_the_next_read_and_not_after_a_write() {
        use Register::{RAX, RBX, RCX};
        // mov rax, rbx; add rax, rcx
        let nexts = before(&[&[0x48, 0x89, 0xd8], &[0x48, 0x01, 0xc8]], no_registers());
        assert_eq!(nexts.of(byte(RAX, 3)), Next::Gone, "written first");
        assert_eq!(nexts.of(byte(RBX, 7)), Next::Use(0));
        assert_eq!(nexts.of(byte(RCX, 0)), Next::Use(1));
    }

    #[test]
    fn a_32_bit_write_ends_all_of_the_register_and_an_8_bit_write_its_byte() {
        use Register::RAX;
        // mov eax, 1; then mov al, 1
        assert_eq!(before(&[&[0xb8, 1, 0, 0, 0]], no_registers()).of(byte(RAX, 7)), Next::Gone);
        // mov al, 1; mov rbx, rax
        let nexts = before(&[&[0xb0, 1], &[0x48, 0x89, 0xc3]], no_registers());
        assert_eq!(nexts.of(byte(RAX, 0)), Next::Gone);
        assert_eq!(nexts.of(byte(RAX, 1)), Next::Use(1));
    }

    #[test]
    fn memory_is_followed_byte_by_byte_until_a_system_call() {
        let registers = Registers { rsp: 0x7000, ..no_registers() };
        // mov [rsp], eax; syscall
        let nexts = before(&[&[0x89, 0x04, 0x24], &[0x0f, 0x05]], registers);
        assert_eq!(nexts.of(Spot::Memory(0x7003)), Next::Gone, "overwritten");
        assert_eq!(nexts.of(Spot::Memory(0x7004)), Next::Use(1), "the kernel may read it");
        assert_eq!(nexts.of(byte(Register::RDI, 0)), Next::Use(1));
    }

    #[test]
    fn a_conditional_move_does_not_end_what_it_may_leave() {
        // cmove rax, rbx
        let nexts = before(&[&[0x48, 0x0f, 0x44, 0xc3]], no_registers());
        assert_eq!(nexts.of(byte(Register::RAX, 0)), Next::Use(0));
        assert_eq!(nexts.of(Spot::Flag(6)), Next::Use(0));
    }
}
