//! A memory operand: its address as the registers give it, its size, and how it is accessed.

use crate::instruction::{high, reading, writing};
use crate::tracee::{Registers, Tracee};
use crate::xstate::Xstate;
use iced_x86::{CodeSize, EncodingKind, Mnemonic, OpKind, Register, UsedMemory};
use std::io;

/// The largest operand that counts, bytes.
pub const MOST_BYTES: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    used: UsedMemory,
    /// Bytes, 1 to [`MOST_BYTES`]. Of a repeated instruction: one element.
    pub size: u16,
    pub read: bool,
    pub written: bool,
    /// The mask register that says which elements are accessed at all, and the size of one. `None`: all are.
    pub mask: Option<(Register, u8)>,
    /// Its address must be a multiple of its size.
    pub aligned: bool,
}

impl Memory {
    /// None: nothing is accessed there, or it is one of those that are left out.
    pub(crate) fn of(decoded: &iced_x86::Instruction, used: &UsedMemory) -> Option<Memory> {
        if decoded.is_save_restore_instruction() || decoded.is_vsib() || computed(decoded) {
            return None;
        }
        let size = match used.memory_size().size() {
            // the decoder calls the memory of repeated instructions unknown: as much as the repetition makes it
            0 if decoded.is_string_instruction() => decoded.memory_size().size(),
            size => size,
        };
        if size == 0 || size > MOST_BYTES {
            return None;
        }
        let (read, written) = (reading(used.access()), writing(used.access()));
        let element = decoded.memory_size().element_size().max(1) as u8;
        let mask = decoded.has_op_mask().then(|| (decoded.op_mask(), element));
        (read || written).then_some(Memory {
            used: *used,
            size: size as u16,
            read,
            written,
            mask,
            aligned: aligned(decoded, size),
        })
    }

    /// Its address before the instruction runs. None: it depends on what is no general register.
    pub fn address(&self, registers: &Registers) -> Option<u64> {
        self.used.virtual_address(0, |register, _, _| base(registers, register))
    }

    /// The address space has a gap that only some accesses report as a stack fault.
    pub(crate) fn on_stack(&self) -> bool {
        self.used.segment() == Register::SS
    }

    /// 32-bit addresses, and with them a 32-bit counter of repetitions.
    pub(crate) fn narrow_addresses(&self) -> bool {
        self.used.address_size() == CodeSize::Code32
    }
}

/// The bytes of a memory operand at an address; of at most [`MOST_BYTES`] those whose bit is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub address: u64,
    /// Not 0.
    pub bytes: u64,
}

impl Span {
    /// Where the operand is, and which of its bytes are accessed. None: none is.
    pub(crate) fn of(tracee: &Tracee, memory: &Memory, registers: &Registers) -> io::Result<Option<Span>> {
        let Some(address) = memory.address(registers) else { return Ok(None) };
        let bytes = match memory.mask {
            None => lowest(memory.size.into()),
            Some((register, element)) => {
                let mask = Xstate::of(tracee)?.value(register)?;
                let set =
                    |byte: u32| mask[(byte / u32::from(element) / 8) as usize] >> (byte / u32::from(element) % 8) & 1;
                (0..u32::from(memory.size)).map(|byte| u64::from(set(byte)) << byte).sum()
            }
        };
        Ok((bytes != 0).then_some(Span { address, bytes }))
    }

    pub fn first(self) -> u64 {
        self.address.wrapping_add(self.bytes.trailing_zeros().into())
    }

    pub fn last(self) -> u64 {
        self.address.wrapping_add(63 - u64::from(self.bytes.leading_zeros()))
    }

    /// The first of its bytes at `address` or behind it; the last one has to be.
    pub fn first_from(self, address: u64) -> u64 {
        let skipped = address.saturating_sub(self.address).min(63);
        Span { bytes: self.bytes >> skipped << skipped, ..self }.first()
    }

    pub fn moved(self, address: u64) -> Span {
        Span { address, ..self }
    }

    /// Those bytes of it that none of the others has; None where nothing is left.
    pub fn without(self, other: Span) -> Option<Span> {
        let has = |byte: u32| {
            let within = self.address.wrapping_add(byte.into()).wrapping_sub(other.address);
            within < 64 && other.bytes >> within & 1 == 1
        };
        let bytes = (0..64).filter(|&byte| !has(byte)).fold(0, |kept, byte| kept | 1 << byte) & self.bytes;
        (bytes != 0).then_some(Span { bytes, ..self })
    }

    /// Its bytes, each at its place from the span's address on; the places between them are 0.
    pub fn read(self, tracee: &Tracee) -> io::Result<[u8; MOST_BYTES]> {
        let mut bytes = [0; MOST_BYTES];
        tracee.read(self.first(), &mut bytes[self.places()])?;
        Ok(bytes)
    }

    /// Writes its bytes, and leaves those between them as they are.
    pub fn write(self, tracee: &Tracee, bytes: &[u8; MOST_BYTES]) -> io::Result<()> {
        let mut whole = self.read(tracee)?;
        for byte in (0..MOST_BYTES).filter(|byte| self.bytes >> byte & 1 == 1) {
            whole[byte] = bytes[byte];
        }
        tracee.write(self.first(), &whole[self.places()])
    }

    fn places(self) -> std::ops::Range<usize> {
        self.bytes.trailing_zeros() as usize..64 - self.bytes.leading_zeros() as usize
    }
}

fn lowest(bytes: u32) -> u64 {
    if bytes >= 64 { u64::MAX } else { (1 << bytes) - 1 }
}

/// What is accessed depends on more than the address and a mask register: bit tests with a register reach far from their
/// operand, masks may be vectors, and masked elements may be packed, permuted or repeated on the way.
fn computed(decoded: &iced_x86::Instruction) -> bool {
    use Mnemonic::*;
    match decoded.mnemonic() {
        Bt | Bts | Btr | Btc => decoded.op0_kind() == OpKind::Memory && decoded.op1_kind() == OpKind::Register,
        Maskmovq | Maskmovdqu | Vmaskmovdqu | Vmaskmovps | Vmaskmovpd | Vpmaskmovd | Vpmaskmovq => true,
        _ => decoded.has_op_mask() && !elementwise(decoded.mnemonic()),
    }
}

/// SSE wants whole vectors aligned; its successors want it only where they say so.
fn aligned(decoded: &iced_x86::Instruction, size: usize) -> bool {
    use Mnemonic::*;
    let wants = match decoded.mnemonic() {
        Movups | Movupd | Movdqu | Lddqu | Pcmpestri | Pcmpestrm | Pcmpistri | Pcmpistrm => false,
        Cmpxchg16b | Vmovaps | Vmovapd | Vmovdqa | Vmovdqa32 | Vmovdqa64 | Vmovntps | Vmovntpd | Vmovntdq
        | Vmovntdqa => true,
        _ => decoded.encoding() == EncodingKind::Legacy,
    };
    wants && size >= 16
}

/// Under a mask, the n-th element in memory goes with the n-th bit of the mask.
fn elementwise(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Vmovdqu8
            | Vmovdqu16
            | Vmovdqu32
            | Vmovdqu64
            | Vmovdqa32
            | Vmovdqa64
            | Vmovups
            | Vmovupd
            | Vmovaps
            | Vmovapd
            | Vpcmpb
            | Vpcmpw
            | Vpcmpd
            | Vpcmpq
            | Vpcmpub
            | Vpcmpuw
            | Vpcmpud
            | Vpcmpuq
            | Vpcmpeqb
            | Vpcmpeqw
            | Vpcmpeqd
            | Vpcmpeqq
            | Vpcmpgtb
            | Vpcmpgtw
            | Vpcmpgtd
            | Vpcmpgtq
            | Vptestmb
            | Vptestmw
            | Vptestmd
            | Vptestmq
            | Vptestnmb
            | Vptestnmw
            | Vptestnmd
            | Vptestnmq
            | Vpminub
            | Vpminud
            | Vpaddb
            | Vpaddd
            | Vpaddq
            | Vpsubb
    )
}

/// What a register adds to an address; segments have their base.
fn base(registers: &Registers, register: Register) -> Option<u64> {
    match register {
        Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
        Register::FS => Some(registers.fs_base),
        Register::GS => Some(registers.gs_base),
        _ => value(registers, register),
    }
}

/// The value of a general register, with the width of its name. None: it is none.
pub fn value(registers: &Registers, register: Register) -> Option<u64> {
    let mut copy = *registers;
    let whole = *whole(&mut copy, register)? >> if high(register) { 8 } else { 0 };
    Some(match register.size() {
        8 => whole,
        bytes => whole & ((1 << (8 * bytes)) - 1),
    })
}

/// The 64 bits that hold a general register.
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
