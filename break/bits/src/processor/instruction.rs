//! One static instruction: what it reads and writes, which flips can hit it, and where it goes next.
//!
//! Its operands are listed per [`FlipType`], so that a plan can draw one by number. These count as operands
//! (docs/decisions/0024):
//! - a register that the instruction reads, with the width of the access, including address registers;
//! - a register that it writes. A write to a 32-bit register writes 64 bits, as the processor defines it. A vector
//!   register has the width that the instruction names, though a VEX write clears the bits above;
//! - the status flags, where the instruction reads or writes flags but no register: `cmp`, `test`, `add [mem],reg`,
//!   `jcc`;
//! - memory, including implicit accesses: stack, string elements.
//!
//! Excluded: x87 registers, segment and control registers, tiles, registers that `vzeroupper` clears, and memory whose
//! address depends on data: of gathers, scatters, `xsave` and similar, bit tests with a register, and most masked
//! accesses. The other operands of these instructions count.

use crate::processor::control_flow::ControlFlow;
use crate::processor::memory_operand::MemoryOperand;
use crate::processor::registers::{is_high_byte, is_read, is_written, value};
use crate::processor::{control_flow, instruction_class};
use iced_x86::{
    Code, Decoder, DecoderOptions, Formatter, InstructionInfoFactory, IntelFormatter, Mnemonic, OpKind, Register,
};
use model::flip::FlipType;
use sandbox::tracee::Registers;
use std::io;

/// The six status flags: CF PF AF ZF SF OF.
pub const STATUS_FLAGS: u32 = 0x8d5;

pub struct Instruction {
    decoded: iced_x86::Instruction,
    flow: ControlFlow,
    reads: Box<[Register]>,
    writes: Box<[Register]>,
    memory: Box<[MemoryOperand]>,
    /// Status flags that count as an operand.
    flags_read: u32,
    flags_written: u32,
    /// One bit per [`FlipType`].
    eligible: u16,
}

/// What a flip of a type hits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand<'a> {
    InstructionPointer,
    Register(Register),
    /// These bits of RFLAGS.
    Flags(u32),
    /// The value in memory.
    Value(&'a MemoryOperand),
    /// The address of memory.
    Address(&'a MemoryOperand),
    Code,
    Variables,
}

impl Instruction {
    /// Decodes the first instruction in `code`, the bytes at `ip` (15 suffice). None: no valid instruction.
    pub fn decode(ip: u64, code: &[u8]) -> Option<Instruction> {
        let decoded = Decoder::with_ip(64, code, ip, DecoderOptions::NONE).decode();
        if decoded.is_invalid() {
            return None;
        }
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(&decoded);
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        let clears = matches!(decoded.mnemonic(), Mnemonic::Vzeroupper | Mnemonic::Vzeroall);
        for used in info.used_registers().iter().filter(|_| !clears) {
            let register = used.register();
            if is_read(used.access()) {
                add(&mut reads, register);
            }
            if is_written(used.access()) {
                add(&mut writes, with_named_width(&decoded, register));
            }
        }
        if decoded.code() == Code::Syscall {
            use Register::{R8, R9, R10, RAX, RDI, RDX, RSI};
            [RAX, RDI, RSI, RDX, R10, R8, R9].into_iter().for_each(|register| add(&mut reads, register));
            add(&mut writes, RAX);
        }
        let memory: Box<[MemoryOperand]> =
            info.used_memory().iter().filter_map(|used| MemoryOperand::of(&decoded, used)).collect();
        let flags = |mask: u32, registers: &[Register]| if registers.is_empty() { status(mask) } else { 0 };
        let mut instruction = Instruction {
            flow: control_flow::of(&decoded, code),
            flags_read: flags(decoded.rflags_read(), &reads),
            flags_written: flags(decoded.rflags_modified(), &writes),
            reads: reads.into(),
            writes: writes.into(),
            memory,
            eligible: 0,
            decoded,
        };
        for kind in FlipType::ALL {
            instruction.eligible |= u16::from(instruction.operands(kind) > 0) << kind as u16;
        }
        Some(instruction)
    }

    pub fn ip(&self) -> u64 {
        self.decoded.ip()
    }

    /// Bytes, 1 to 15.
    pub fn length(&self) -> u64 {
        self.decoded.len() as u64
    }

    pub fn next_ip(&self) -> u64 {
        self.decoded.next_ip()
    }

    pub fn flow(&self) -> ControlFlow {
        self.flow
    }

    /// Whether it reads the time stamp counter, which traps in the sandbox.
    pub fn reads_counter(&self) -> bool {
        matches!(self.decoded.mnemonic(), Mnemonic::Rdtsc | Mnemonic::Rdtscp)
    }

    /// The target of an indirect jump or call: from a register, or from memory, which `read` reads.
    pub fn target(&self, registers: &Registers, read: impl FnOnce(u64) -> io::Result<u64>) -> io::Result<u64> {
        let decoded = &self.decoded;
        let none = || io::Error::other("the instruction has no computed target");
        if decoded.op0_kind() == OpKind::Register {
            return value(registers, decoded.op0_register()).ok_or_else(none);
        }
        let memory = self.memory.iter().find(|memory| memory.read).ok_or_else(none)?;
        read(memory.address(registers).ok_or_else(none)?)
    }

    /// The iterations that a repeated instruction has left at most: its counter. For other instructions 1.
    pub fn iterations(&self, registers: &Registers) -> u64 {
        match self.flow {
            ControlFlow::Repeated if self.memory.iter().any(MemoryOperand::narrow_addresses) => {
                registers.rcx & 0xffff_ffff
            }
            ControlFlow::Repeated => registers.rcx,
            _ => 1,
        }
    }

    /// Whether a flip of the type can hit it. For a repeated instruction without iterations see
    /// [`Instruction::idle_operand`].
    pub fn eligible(&self, kind: FlipType) -> bool {
        self.eligible >> kind as u16 & 1 == 1
    }

    /// How many operands a flip of the type is drawn from.
    pub fn operands(&self, kind: FlipType) -> usize {
        let count = |registers: &[Register], flags: u32| if flags == 0 { registers.len() } else { 1 };
        match kind {
            FlipType::Cf | FlipType::Text | FlipType::Asc => 1,
            FlipType::Wreg => count(&self.writes, self.flags_written),
            FlipType::Rreg => count(&self.reads, self.flags_read),
            FlipType::Wval | FlipType::Waddr => self.memory.iter().filter(|memory| memory.written).count(),
            FlipType::Rval | FlipType::Raddr => self.memory.iter().filter(|memory| memory.read).count(),
        }
    }

    /// The operand with a number below [`Instruction::operands`].
    pub fn operand(&self, kind: FlipType, number: usize) -> Option<Operand<'_>> {
        let register = |registers: &[Register], flags: u32| match flags {
            0 => registers.get(number).copied().map(Operand::Register),
            flags => (number == 0).then_some(Operand::Flags(flags)),
        };
        let only = |operand| (number == 0).then_some(operand);
        let written = || self.memory.iter().filter(|memory| memory.written).nth(number);
        let read = || self.memory.iter().filter(|memory| memory.read).nth(number);
        match kind {
            FlipType::Cf => only(Operand::InstructionPointer),
            FlipType::Text => only(Operand::Code),
            FlipType::Asc => only(Operand::Variables),
            FlipType::Wreg => register(&self.writes, self.flags_written),
            FlipType::Rreg => register(&self.reads, self.flags_read),
            FlipType::Wval => written().map(Operand::Value),
            FlipType::Rval => read().map(Operand::Value),
            FlipType::Waddr => written().map(Operand::Address),
            FlipType::Raddr => read().map(Operand::Address),
        }
    }

    /// How many bits of the operand can flip, before the bit policy. 0: there is no such operand. Arbitrary values: 1.
    pub fn width(&self, kind: FlipType, number: usize) -> u32 {
        match self.operand(kind, number) {
            None => 0,
            Some(Operand::InstructionPointer | Operand::Address(_)) => 64,
            Some(Operand::Register(register)) => register.size() as u32 * 8,
            Some(Operand::Flags(flags)) => flags.count_ones(),
            Some(Operand::Value(memory)) => u32::from(memory.size) * 8,
            Some(Operand::Code) => self.decoded.len() as u32 * 8,
            Some(Operand::Variables) => 1,
        }
    }

    /// The only operand that a flip of the type can hit in a repeated instruction without iterations: it reads its
    /// counter and nothing else.
    pub fn idle_operand(&self, kind: FlipType) -> Option<u8> {
        match kind {
            FlipType::Cf | FlipType::Text | FlipType::Asc => Some(0),
            FlipType::Rreg => {
                let number = self.reads.iter().position(|register| register.full_register() == Register::RCX)?;
                u8::try_from(number).ok()
            }
            _ => None,
        }
    }

    /// All memory operands, in the decoder's order.
    pub fn memory(&self) -> &[MemoryOperand] {
        &self.memory
    }

    /// `move`, `arithmetic`, `logic`, `compare`, `branch`, `call`, `stack`, `string`, `vector`, `system` or `other`.
    pub fn class(&self) -> &'static str {
        instruction_class::of(&self.decoded)
    }

    /// Such as `mov [rbp-0E0h],rax`.
    pub fn text(&self) -> String {
        let mut text = String::new();
        IntelFormatter::new().format(&self.decoded, &mut text);
        text
    }

    pub(crate) fn decoded(&self) -> &iced_x86::Instruction {
        &self.decoded
    }
}

/// Converts the decoder's flag bits to RFLAGS.
fn status(mask: u32) -> u32 {
    use iced_x86::RflagsBits as Bits;
    let positions = [(Bits::CF, 0), (Bits::PF, 2), (Bits::AF, 4), (Bits::ZF, 6), (Bits::SF, 7), (Bits::OF, 11)];
    positions.into_iter().filter(|(bit, _)| mask & bit != 0).map(|(_, position)| 1 << position).sum()
}

/// A written vector register with the width that the instruction names: the decoder reports 512 bits.
fn with_named_width(decoded: &iced_x86::Instruction, register: Register) -> Register {
    if !register.is_vector_register() {
        return register;
    }
    (0..decoded.op_count())
        .filter(|&number| decoded.op_kind(number) == OpKind::Register)
        .map(|number| decoded.op_register(number))
        .find(|operand| operand.full_register() == register.full_register())
        .unwrap_or(register)
}

/// Adds a register once, with its widest access.
fn add(registers: &mut Vec<Register>, register: Register) {
    let counts = register.is_gpr() || register.is_vector_register() || register.is_k() || register.is_mm();
    if !counts || registers.iter().any(|&other| covers(other, register)) {
        return;
    }
    registers.retain(|&other| !covers(register, other));
    registers.push(register);
}

fn covers(wide: Register, narrow: Register) -> bool {
    wide.full_register() == narrow.full_register()
        && (wide.size() > narrow.size() || wide.size() == narrow.size() && is_high_byte(wide) == is_high_byte(narrow))
}
