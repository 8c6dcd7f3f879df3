//! A memory operand: its address as computed from registers, its size, and how it is accessed.

use crate::processor::registers::{is_read, is_written, value};
use crate::processor::xstate::Xstate;
use iced_x86::{CodeSize, EncodingKind, Mnemonic, OpKind, Register, UsedMemory};
use sandbox::tracee::{Registers, Tracee};
use std::io;

/// The largest operand that counts, in bytes.
pub const MAX_BYTES: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryOperand {
    used: UsedMemory,
    /// Bytes, 1 to [`MAX_BYTES`]. Of a repeated instruction: one element.
    pub size: u16,
    pub read: bool,
    pub written: bool,
    /// The mask register that selects the accessed elements, and the size of an element. None: all are accessed.
    pub mask: Option<(Register, u8)>,
    /// Its address must be a multiple of its size.
    pub aligned: bool,
}

impl MemoryOperand {
    /// None: nothing is accessed, or the operand is excluded (see [`crate::processor::instruction`]).
    pub(crate) fn of(decoded: &iced_x86::Instruction, used: &UsedMemory) -> Option<MemoryOperand> {
        if decoded.is_save_restore_instruction() || decoded.is_vsib() || depends_on_data(decoded) {
            return None;
        }
        let size = match used.memory_size().size() {
            // the decoder reports no size for repeated instructions, because it depends on the repetition
            0 if decoded.is_string_instruction() => decoded.memory_size().size(),
            size => size,
        };
        if size == 0 || size > MAX_BYTES {
            return None;
        }
        let (read, written) = (is_read(used.access()), is_written(used.access()));
        let element = decoded.memory_size().element_size().max(1) as u8;
        let mask = decoded.has_op_mask().then(|| (decoded.op_mask(), element));
        (read || written).then_some(MemoryOperand {
            used: *used,
            size: size as u16,
            read,
            written,
            mask,
            aligned: aligned(decoded, size),
        })
    }

    /// Its address before the instruction runs. None: it depends on other than general registers.
    pub fn address(&self, registers: &Registers) -> Option<u64> {
        self.used.virtual_address(0, |register, _, _| base(registers, register))
    }

    /// Whether a non-canonical address raises a stack fault instead of a general protection fault.
    pub(crate) fn on_stack(&self) -> bool {
        self.used.segment() == Register::SS
    }

    /// Whether it has 32-bit addresses, and with them a 32-bit repetition counter.
    pub(crate) fn narrow_addresses(&self) -> bool {
        self.used.address_size() == CodeSize::Code32
    }
}

/// The accessed bytes of a memory operand: at most [`MAX_BYTES`] from `address` on, those whose bit is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSpan {
    pub address: u64,
    /// Not 0.
    pub bytes: u64,
}

impl ByteSpan {
    /// The bytes of an operand that are accessed. None: no byte is.
    pub(crate) fn of(tracee: &Tracee, memory: &MemoryOperand, registers: &Registers) -> io::Result<Option<ByteSpan>> {
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
        Ok((bytes != 0).then_some(ByteSpan { address, bytes }))
    }

    pub fn first(self) -> u64 {
        self.address.wrapping_add(self.bytes.trailing_zeros().into())
    }

    pub fn last(self) -> u64 {
        self.address.wrapping_add(63 - u64::from(self.bytes.leading_zeros()))
    }

    /// The first of its bytes at or after `address`, which must not be after the last one.
    pub fn first_from(self, address: u64) -> u64 {
        let skipped = address.saturating_sub(self.address).min(63);
        ByteSpan { bytes: self.bytes >> skipped << skipped, ..self }.first()
    }

    pub fn moved(self, address: u64) -> ByteSpan {
        ByteSpan { address, ..self }
    }

    /// The bytes that `other` does not include; None if no byte remains.
    pub fn without(self, other: ByteSpan) -> Option<ByteSpan> {
        let has = |byte: u32| {
            let within = self.address.wrapping_add(byte.into()).wrapping_sub(other.address);
            within < 64 && other.bytes >> within & 1 == 1
        };
        let bytes = (0..64).filter(|&byte| !has(byte)).fold(0, |bytes, byte| bytes | 1 << byte) & self.bytes;
        (bytes != 0).then_some(ByteSpan { bytes, ..self })
    }

    /// Reads its bytes, each at its offset from the span's address; bytes outside the span are 0.
    pub fn read(self, tracee: &Tracee) -> io::Result<[u8; MAX_BYTES]> {
        let mut bytes = [0; MAX_BYTES];
        tracee.read(self.first(), &mut bytes[self.offsets()])?;
        Ok(bytes)
    }

    /// Writes its bytes and leaves those between them unchanged.
    pub fn write(self, tracee: &Tracee, bytes: &[u8; MAX_BYTES]) -> io::Result<()> {
        let mut whole = self.read(tracee)?;
        for byte in (0..MAX_BYTES).filter(|byte| self.bytes >> byte & 1 == 1) {
            whole[byte] = bytes[byte];
        }
        tracee.write(self.first(), &whole[self.offsets()])
    }

    fn offsets(self) -> std::ops::Range<usize> {
        self.bytes.trailing_zeros() as usize..64 - self.bytes.leading_zeros() as usize
    }
}

fn lowest(bytes: u32) -> u64 {
    if bytes >= 64 { u64::MAX } else { (1 << bytes) - 1 }
}

/// Whether the accessed bytes depend on more than the address and a mask register: bit tests with a register reach far
/// from their operand, masks may be vectors, and masked elements may be packed, permuted or repeated.
fn depends_on_data(decoded: &iced_x86::Instruction) -> bool {
    use Mnemonic::*;
    match decoded.mnemonic() {
        Bt | Bts | Btr | Btc => decoded.op0_kind() == OpKind::Memory && decoded.op1_kind() == OpKind::Register,
        Maskmovq | Maskmovdqu | Vmaskmovdqu | Vmaskmovps | Vmaskmovpd | Vpmaskmovd | Vpmaskmovq => true,
        _ => decoded.has_op_mask() && !elementwise(decoded.mnemonic()),
    }
}

/// SSE requires aligned vectors; later extensions require it only for certain instructions.
fn aligned(decoded: &iced_x86::Instruction, size: usize) -> bool {
    use Mnemonic::*;
    let required = match decoded.mnemonic() {
        Movups | Movupd | Movdqu | Lddqu | Pcmpestri | Pcmpestrm | Pcmpistri | Pcmpistrm => false,
        Cmpxchg16b | Vmovaps | Vmovapd | Vmovdqa | Vmovdqa32 | Vmovdqa64 | Vmovntps | Vmovntpd | Vmovntdq
        | Vmovntdqa => true,
        _ => decoded.encoding() == EncodingKind::Legacy,
    };
    required && size >= 16
}

/// Whether bit n of the mask selects element n in memory.
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

/// The value that a register adds to an address; for a segment its base.
fn base(registers: &Registers, register: Register) -> Option<u64> {
    match register {
        Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
        Register::FS => Some(registers.fs_base),
        Register::GS => Some(registers.gs_base),
        _ => value(registers, register),
    }
}
