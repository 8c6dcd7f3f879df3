//! Translates blocks of the program into a code cache, where they run natively, one after the other, and log which
//! blocks ran.
//!
//! A breakpoint per block limits stepping to some 50,000 blocks per second. A translated block continues with the next
//! one without a stop, as in DynamoRIO or QBDI, so that programs of a hundred million instructions can be profiled:
//!
//! ```text
//! block:  append the block's number to the log     (stop if the log is full)
//!         its instructions, unchanged              (operands relative to rip get their absolute address)
//!         jump to the translation of the next block
//! ```
//!
//! - **The program runs as if it were not translated.** Its registers, flags, stack and memory are those of the
//!   original code at each instruction: calls push original return addresses, and code that needs a register saves it
//!   in the cache's own memory, by instructions that leave the flags alone. Only the x87 instruction pointer shows
//!   the cache.
//! - **Indirect jumps, calls and returns** look their target up in a table in the process, of two ways, without flags:
//!   `lea` of the target and a negated address, and `jrcxz`.
//! - **Stops.** The process stops where there is no translation yet, at blocks that are not translated (system calls,
//!   repeated string instructions, rare branches), and where the log is full: with room for N entries, exactly before
//!   the (N + 1)th block.
//! - **Forks do not inherit the cache** (`MADV_DONTFORK`), so no flip can reach it.
//!
//! All addresses are below 2 GiB: absolute operands then need no register. Addresses do not differ between runs, so a
//! later golden process gets a copy of the finished cache.

use crate::processor::control_flow::{Condition, ControlFlow};
use crate::processor::instruction::Instruction;
use crate::tracing::code::BlockId;
use iced_x86::{Code as Opcode, Encoder, InstructionInfoFactory, MemoryOperand, OpKind, Register};
use sandbox::tracee::Tracee;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;

/// ```text
/// BASE ┌───────────────┐ rw
///      │ saved registers, cursor
///      ├───────────────┤ TABLES: two tables of 65,536 entries of 16 bytes
///      ├───────────────┤ LOG
///      ├───────────────┤ LOG_END
///      ├───────────────┤ CODE, r-x
///      └───────────────┘ END
/// ```
pub const BASE: u64 = 0x7000_0000;
const TABLES: u64 = BASE + 0x1000;
const TABLE_BYTES: u64 = 1 << 20;
const LOG: u64 = TABLES + 2 * TABLE_BYTES;
pub const LOG_END: u64 = LOG + LOG_ENTRIES * LOG_ENTRY_BYTES;
pub const CODE: u64 = LOG_END;
pub const END: u64 = CODE + CODE_BYTES;
pub const LOG_ENTRIES: u64 = 1 << 18;
pub const LOG_ENTRY_BYTES: u64 = 4;
const CODE_BYTES: u64 = 48 << 20;
/// More than the translation of any block.
const BLOCK_BYTES_MAX: usize = 64 << 10;

/// A lookup saves rax, rcx and rdx here, one after the other; the log's code saves rcx.
pub const SAVED_RAX: u64 = BASE;
pub const SAVED_RCX: u64 = BASE + 8;
const SAVED_RDX: u64 = BASE + 16;
const SCRATCH: u64 = BASE + 24;
const INDEX: u64 = BASE + 32;
const TARGET: u64 = BASE + 40;
/// Where the next entry is written, relative to LOG_END: a negative number, or 0 if the log is full.
pub const CURSOR: u64 = BASE + 48;

const RAX: u8 = 0;
const RCX: u8 = 1;
const RDX: u8 = 2;
const BREAKPOINT: u8 = 0xcc;

/// What a stop of the process in the cache means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheStop {
    /// The program continues at this address.
    At(u64),
    /// It continues at the address in rax; rax, rcx and rdx are saved.
    AtRax,
    /// The log is full, before the block at this address.
    LogFull(u64),
}

/// The content of a code cache, which outlives the process that it was made for.
#[derive(Default)]
pub struct Translation {
    code: Vec<u8>,
    /// Translations by the block's address.
    at: HashMap<u64, u64>,
    /// By the address at which the process stops.
    stops: HashMap<u64, CacheStop>,
    /// Jumps to blocks that are not translated yet: addresses of their displacements.
    waiting: HashMap<u64, Vec<u64>>,
    /// Targets of indirect jumps by table entry.
    table: HashMap<u64, [Option<(u64, u64)>; 2]>,
    /// Original addresses by address in the cache, of the instructions that may fault.
    origins: Vec<(u64, u64)>,
    /// Counts what was discarded: a process with an older copy needs a new one.
    pub generation: u64,
}

/// The instructions of a block and their bytes.
pub struct Source {
    pub block: BlockId,
    pub instructions: Vec<(Rc<Instruction>, Vec<u8>)>,
}

impl Source {
    /// Whether it consists of instructions that can run elsewhere.
    pub fn is_translatable(&self) -> bool {
        self.instructions.iter().all(|(instruction, _)| {
            let decoded = instruction.decoded();
            let narrow = decoded.is_ip_rel_memory_operand() && decoded.memory_base() != Register::RIP;
            !narrow && !matches!(instruction.flow(), ControlFlow::Syscall | ControlFlow::Repeated | ControlFlow::Other)
        })
    }
}

impl Translation {
    pub fn at(&self, ip: u64) -> Option<u64> {
        self.at.get(&ip).copied()
    }

    /// Discards everything, because code of the program was replaced.
    pub fn clear(&mut self) {
        if !self.code.is_empty() {
            *self = Translation { generation: self.generation + 1, ..Translation::default() };
        }
    }

    /// What it means that the process stopped, with this instruction pointer.
    pub fn stop_at(&self, rip: u64) -> Option<CacheStop> {
        self.stops.get(&rip).copied()
    }

    /// The address of the program's instruction for one in the cache.
    pub fn origin(&self, rip: u64) -> u64 {
        let after = self.origins.partition_point(|(at, _)| *at <= rip);
        after.checked_sub(1).map_or(rip, |index| self.origins[index].1)
    }

    /// Writes the whole cache into a process.
    /// `is_new`: its tables are empty.
    pub fn write_all(&self, tracee: &Tracee, is_new: bool) -> io::Result<()> {
        if !is_new {
            tracee.write(TABLES, &vec![0; 2 * TABLE_BYTES as usize])?;
        }
        tracee.write(CODE, &self.code)?;
        for (entry, ways) in &self.table {
            for (way, target) in ways.iter().enumerate() {
                if let Some((ip, at)) = target {
                    write_entry(tracee, *entry, way, *ip, *at)?;
                }
            }
        }
        Ok(())
    }

    /// Translates a block and writes it into the process. Returns its address in the cache.
    pub fn add(&mut self, tracee: &Tracee, source: &Source) -> io::Result<u64> {
        if self.code.len() + BLOCK_BYTES_MAX > CODE_BYTES as usize {
            self.clear();
            self.write_all(tracee, false)?;
        }
        let begin = self.code.len();
        let ip = source.instructions[0].0.ip();
        self.stop(CacheStop::LogFull(ip));
        let at = self.here();
        self.at.insert(ip, at);
        self.origins.push((at, ip));
        self.log(source.block);
        for (instruction, bytes) in &source.instructions {
            self.origins.push((self.here(), instruction.ip()));
            self.instruction(instruction, bytes)?;
        }
        let (last, _) = source.instructions.last().expect("a block has an instruction");
        self.end(last)?;
        tracee.write(CODE + begin as u64, &self.code[begin..])?;
        for displacement in self.waiting.remove(&ip).unwrap_or_default() {
            let offset = (displacement - CODE) as usize;
            let bytes = relative(displacement, at);
            self.code[offset..offset + 4].copy_from_slice(&bytes);
            tracee.write(displacement, &bytes)?;
        }
        Ok(at)
    }

    /// Adds a target of indirect jumps to the process's table, in place of an older one if need be.
    pub fn add_target(&mut self, tracee: &Tracee, ip: u64) -> io::Result<()> {
        let Some(at) = self.at(ip) else { return Ok(()) };
        let ways = self.table.entry(ip & 0xffff).or_default();
        if ways.iter().flatten().any(|(there, _)| *there == ip) {
            return Ok(());
        }
        // the older one becomes the second, if that is taken
        if let [Some(first), Some(_)] = *ways {
            ways[1] = Some(first);
            ways[0] = None;
            write_entry(tracee, ip & 0xffff, 1, first.0, first.1)?;
        }
        let ways = self.table.entry(ip & 0xffff).or_default();
        let way = usize::from(ways[0].is_some());
        ways[way] = Some((ip, at));
        write_entry(tracee, ip & 0xffff, way, ip, at)
    }

    fn here(&self) -> u64 {
        CODE + self.code.len() as u64
    }

    fn emit(&mut self, bytes: &[u8]) {
        self.code.extend_from_slice(bytes);
    }

    /// `opcode` with a register and an absolute memory operand: `mov` with opcode 0x89 stores, with 0x8b it loads.
    fn absolute(&mut self, opcode: u8, register: u8, address: u64) {
        self.emit(&[0x48, opcode, 0x04 | register << 3, 0x25]);
        self.emit(&(address as u32).to_le_bytes());
    }

    fn store(&mut self, register: u8, address: u64) {
        self.absolute(0x89, register, address);
    }

    fn load(&mut self, register: u8, address: u64) {
        self.absolute(0x8b, register, address);
    }

    fn load_constant(&mut self, register: u8, value: u64) {
        self.emit(&[0x48, 0xb8 | register]);
        self.emit(&value.to_le_bytes());
    }

    /// The log's part of a block. Its stop precedes the block, because `jrcxz` reaches only what is near.
    fn log(&mut self, block: BlockId) {
        self.store(RCX, SAVED_RCX);
        self.load(RCX, CURSOR);
        self.emit(&[0xe3, (-(8 + 8 + 2 + 1) as i8) as u8]); // jrcxz to the stop
        self.emit(&[0xc7, 0x81]); // mov dword [rcx + LOG_END], block
        self.emit(&(LOG_END as u32).to_le_bytes());
        self.emit(&block.to_le_bytes());
        self.emit(&[0x48, 0x8d, 0x49, LOG_ENTRY_BYTES as u8]); // lea rcx, [rcx + 4]
        self.store(RCX, CURSOR);
        self.load(RCX, SAVED_RCX);
    }

    /// An instruction that is not a branch, or the return address of a direct call.
    fn instruction(&mut self, instruction: &Instruction, bytes: &[u8]) -> io::Result<()> {
        match instruction.flow() {
            ControlFlow::Next if instruction.decoded().is_ip_rel_memory_operand() => self.relative_operand(instruction),
            ControlFlow::Next => {
                self.emit(bytes);
                Ok(())
            }
            ControlFlow::Call(_) => {
                self.push(instruction.next_ip());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn push(&mut self, value: u64) {
        self.emit(&[0x68]); // push imm32, sign-extended
        self.emit(&(value as u32).to_le_bytes());
        if value as u32 as i32 as i64 as u64 != value {
            self.emit(&[0xc7, 0x44, 0x24, 0x04]); // mov dword [rsp + 4], imm32
            self.emit(&((value >> 32) as u32).to_le_bytes());
        }
    }

    /// An instruction with an operand relative to rip: its absolute address is in a register that it does not use.
    fn relative_operand(&mut self, instruction: &Instruction) -> io::Result<()> {
        let decoded = instruction.decoded();
        let address = decoded.ip_rel_memory_address();
        let mut factory = InstructionInfoFactory::new();
        let used = factory.info(decoded).used_registers().iter().map(|used| used.register().full_register());
        let used: Vec<Register> = used.collect();
        let candidates = [Register::RAX, Register::RCX, Register::RDX, Register::RBX, Register::RSI, Register::RDI];
        let scratch = candidates.into_iter().find(|candidate| !used.contains(candidate));
        let scratch = scratch.ok_or_else(|| io::Error::other("an instruction uses every register"))?;
        let number = scratch.number() as u8;
        self.store(number, SCRATCH);
        self.load_constant(number, address);
        let mut moved = *decoded;
        moved.set_memory_base(scratch);
        moved.set_memory_displacement64(0);
        moved.set_memory_displ_size(0);
        self.encode(&moved)?;
        self.load(number, SCRATCH);
        Ok(())
    }

    fn encode(&mut self, instruction: &iced_x86::Instruction) -> io::Result<()> {
        let mut encoder = Encoder::new(64);
        encoder.encode(instruction, self.here()).map_err(io::Error::other)?;
        let bytes = encoder.take_buffer();
        self.emit(&bytes);
        Ok(())
    }

    /// Continues behind the last instruction of a block.
    fn end(&mut self, last: &Instruction) -> io::Result<()> {
        match last.flow() {
            ControlFlow::Conditional(condition, target) => self.conditional(condition, target, last.next_ip()),
            ControlFlow::Jump(target) | ControlFlow::Call(target) => self.jump(target),
            ControlFlow::Return(extra) => {
                self.save();
                self.emit(&[0x58]); // pop rax
                if extra > 0 {
                    self.emit(&[0x48, 0x8d, 0xa4, 0x24]); // lea rsp, [rsp + extra]
                    self.emit(&u32::from(extra).to_le_bytes());
                }
                self.lookup();
            }
            ControlFlow::IndirectJump => {
                self.save();
                self.load_target(last)?;
                self.lookup();
            }
            ControlFlow::IndirectCall => {
                self.save();
                self.load_target(last)?;
                self.push(last.next_ip());
                self.lookup();
            }
            _ => self.jump(last.next_ip()),
        }
        Ok(())
    }

    fn conditional(&mut self, condition: Condition, taken: u64, next: u64) {
        let stub = self.reserve(&[0x0f, 0x80 | condition.number()]);
        let other = self.reserve(&[0xe9]);
        self.connect(stub, taken);
        self.connect(other, next);
    }

    fn jump(&mut self, target: u64) {
        let displacement = self.reserve(&[0xe9]);
        self.connect(displacement, target);
    }

    /// Emits a jump without its target. Returns the address of the displacement.
    fn reserve(&mut self, opcode: &[u8]) -> u64 {
        self.emit(opcode);
        let displacement = self.here();
        self.emit(&[0; 4]);
        displacement
    }

    /// Directs a jump to a block of the program, or to a stop until that is translated.
    fn connect(&mut self, displacement: u64, target: u64) {
        let to = match self.at(target) {
            Some(at) => at,
            None => {
                self.waiting.entry(target).or_default().push(displacement);
                self.stop(CacheStop::At(target))
            }
        };
        let offset = (displacement - CODE) as usize;
        self.code[offset..offset + 4].copy_from_slice(&relative(displacement, to));
    }

    /// Emits a stop. Returns its address.
    fn stop(&mut self, stop: CacheStop) -> u64 {
        let at = self.here();
        self.emit(&[BREAKPOINT]);
        // the processor reports the address behind it
        self.stops.insert(at + 1, stop);
        at
    }

    fn save(&mut self) {
        self.store(RAX, SAVED_RAX);
        self.store(RCX, SAVED_RCX);
        self.store(RDX, SAVED_RDX);
    }

    /// Loads the target of an indirect jump or call into rax.
    fn load_target(&mut self, last: &Instruction) -> io::Result<()> {
        let decoded = last.decoded();
        if decoded.is_ip_rel_memory_operand() {
            self.load_constant(RAX, decoded.ip_rel_memory_address());
            self.emit(&[0x48, 0x8b, 0x00]); // mov rax, [rax]
            return Ok(());
        }
        let target = if decoded.op0_kind() == OpKind::Register {
            iced_x86::Instruction::with2(Opcode::Mov_r64_rm64, Register::RAX, decoded.op0_register())
        } else {
            let memory = MemoryOperand::new(
                decoded.memory_base(),
                decoded.memory_index(),
                decoded.memory_index_scale(),
                decoded.memory_displacement64() as i64,
                decoded.memory_displ_size(),
                false,
                decoded.segment_prefix(),
            );
            iced_x86::Instruction::with2(Opcode::Mov_r64_rm64, Register::RAX, memory)
        };
        self.encode(&target.map_err(io::Error::other)?)
    }

    /// Jumps to the translation of the address in rax, and restores what [`Translation::save`] saved.
    fn lookup(&mut self) {
        self.emit(&[0x0f, 0xb7, 0xc8]); // movzx ecx, ax
        self.emit(&[0x48, 0x8d, 0x0c, 0xcd, 0, 0, 0, 0]); // lea rcx, [rcx * 8]
        self.store(RCX, INDEX);
        let first = self.probe(0);
        self.load(RCX, INDEX);
        let second = self.probe(1);
        self.stop(CacheStop::AtRax);
        let hit = self.code.len();
        for at in [first, second] {
            self.code[at] = (hit - at - 1) as u8;
        }
        self.load(RAX, SAVED_RAX);
        self.load(RCX, SAVED_RCX);
        self.load(RDX, SAVED_RDX);
        self.emit(&[0xff, 0x24, 0x25]); // jmp [TARGET]
        self.emit(&(TARGET as u32).to_le_bytes());
    }

    /// Compares rax with an entry of one table. Returns the index of the displacement that leads to a hit.
    fn probe(&mut self, way: u64) -> usize {
        let table = TABLES + way * TABLE_BYTES;
        let load_entry = |offset: u64| {
            let mut bytes = [0x48, 0x8b, 0x14, 0x4d, 0, 0, 0, 0]; // mov rdx, [rcx * 2 + table]
            bytes[4..].copy_from_slice(&((table + offset) as u32).to_le_bytes());
            bytes
        };
        self.emit(&load_entry(8));
        self.store(RDX, TARGET);
        self.emit(&load_entry(0));
        self.emit(&[0x48, 0x8d, 0x0c, 0x10]); // lea rcx, [rax + rdx]
        self.emit(&[0xe3, 0]); // jrcxz
        self.code.len() - 1
    }
}

/// An entry: the negated address of a block, and that of its translation.
fn write_entry(tracee: &Tracee, entry: u64, way: usize, ip: u64, at: u64) -> io::Result<()> {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&ip.wrapping_neg().to_le_bytes());
    bytes[8..].copy_from_slice(&at.to_le_bytes());
    tracee.write(TABLES + way as u64 * TABLE_BYTES + 16 * entry, &bytes)
}

/// The displacement, stored at an address, that leads to another.
fn relative(displacement: u64, to: u64) -> [u8; 4] {
    (to.wrapping_sub(displacement + 4) as u32).to_le_bytes()
}
