//! Vector, mask and MMX registers of a stopped process, in the kernel's format.
//!
//! `PTRACE_GETREGSET` with `NT_X86_XSTATE` returns the processor's XSAVE area in the standard, never the compacted,
//! format. The processor defines where each component begins (CPUID leaf 0Dh):
//!
//! ```text
//! 0 FXSAVE area: ST0.. at 32, 16 bytes each; XMM0-15 at 160 | 512 header: components in use | YMM0-15 bits 128-255
//!   | K0-7 | ZMM0-15 bits 256-511 | ZMM16-31
//! ```
//!
//! A component that is not in use has its initial value, and its bit in the header is clear. Writing it sets the bit.

use iced_x86::Register;
use sandbox::tracee::Tracee;
use std::arch::x86_64::__cpuid_count;
use std::io;

const NT_X86_XSTATE: i32 = 0x202;
const HEADER: usize = 512;
/// Larger than on any current processor: 11 KiB with AMX.
const MAX_BYTES: usize = 16 << 10;

pub struct Xstate {
    bytes: Vec<u8>,
}

/// A byte of a register: its offset in the area, and its component.
struct Part {
    offset: usize,
    component: u32,
}

impl Xstate {
    pub fn of(tracee: &Tracee) -> io::Result<Xstate> {
        let mut bytes = vec![0; MAX_BYTES];
        let length = tracee.register_set(NT_X86_XSTATE, &mut bytes)?;
        bytes.truncate(length);
        Ok(Xstate { bytes })
    }

    pub fn store(&self, tracee: &Tracee) -> io::Result<()> {
        tracee.set_register_set(NT_X86_XSTATE, &self.bytes)
    }

    /// All bytes of a vector (16, 32 or 64), mask or MMX (8) register, least significant first.
    pub fn value(&self, register: Register) -> io::Result<Vec<u8>> {
        (0..register.size()).map(|byte| self.part(register, byte).map(|part| self.bytes[part.offset])).collect()
    }

    /// Flips a bit of a register; the bit must be below its width.
    pub fn flip(&mut self, register: Register, bit: u32) -> io::Result<()> {
        let part = self.part(register, bit as usize / 8)?;
        self.bytes[part.offset] ^= 1 << (bit % 8);
        self.bytes[HEADER + part.component as usize / 8] |= 1 << (part.component % 8);
        Ok(())
    }

    fn part(&self, register: Register, byte: usize) -> io::Result<Part> {
        let missing = || {
            io::Error::new(
                io::ErrorKind::Unsupported,
                format!("the kernel's register state does not include {register:?}"),
            )
        };
        let part = self.locate(register, byte).filter(|_| byte < register.size()).ok_or_else(missing)?;
        if part.offset < self.bytes.len() { Ok(part) } else { Err(missing()) }
    }

    fn locate(&self, register: Register, byte: usize) -> Option<Part> {
        let number = register.number();
        let (component, within) = if register.is_mm() {
            // MMX registers are numbered physically; the area orders them by distance from the top of the x87 stack
            let top = usize::from(*self.bytes.get(3)? >> 3 & 7);
            return Some(Part { offset: 32 + 16 * ((number + 8 - top) % 8) + byte, component: 0 });
        } else if register.is_k() {
            (5, 8 * number + byte)
        } else if !register.is_vector_register() {
            return None;
        } else if number >= 16 {
            (7, 64 * (number - 16) + byte)
        } else if byte < 16 {
            return Some(Part { offset: 160 + 16 * number + byte, component: 1 });
        } else if byte < 32 {
            (2, 16 * number + byte - 16)
        } else {
            (6, 32 * number + byte - 32)
        };
        let start = __cpuid_count(0xd, component).ebx as usize;
        (start != 0).then_some(Part { offset: start + within, component })
    }
}
