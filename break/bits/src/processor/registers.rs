//! General registers by their names, and how an instruction accesses an operand.

use iced_x86::{OpAccess, Register};
use sandbox::tracee::Registers;

pub(crate) fn is_read(access: OpAccess) -> bool {
    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

pub(crate) fn is_written(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

/// AH, BH, CH, DH: bits 8 to 15.
pub(crate) fn is_high_byte(register: Register) -> bool {
    matches!(register, Register::AH | Register::BH | Register::CH | Register::DH)
}

/// The value of a general register, with the width of its name. None: not a general register.
pub fn value(registers: &Registers, register: Register) -> Option<u64> {
    let mut copy = *registers;
    let whole = *whole(&mut copy, register)? >> if is_high_byte(register) { 8 } else { 0 };
    Some(match register.size() {
        8 => whole,
        bytes => whole & ((1 << (8 * bytes)) - 1),
    })
}

/// The 64-bit register that contains a general register.
pub(crate) fn whole(registers: &mut Registers, register: Register) -> Option<&mut u64> {
    Some(match register.full_register() {
        Register::RAX => &mut registers.rax,
        Register::RBX => &mut registers.rbx,
        Register::RCX => &mut registers.rcx,
        Register::RDX => &mut registers.rdx,
        Register::RSI => &mut registers.rsi,
        Register::RDI => &mut registers.rdi,
        Register::RBP => &mut registers.rbp,
        Register::RSP => &mut registers.rsp,
        Register::R8 => &mut registers.r8,
        Register::R9 => &mut registers.r9,
        Register::R10 => &mut registers.r10,
        Register::R11 => &mut registers.r11,
        Register::R12 => &mut registers.r12,
        Register::R13 => &mut registers.r13,
        Register::R14 => &mut registers.r14,
        Register::R15 => &mut registers.r15,
        _ => return None,
    })
}
