//! Runs the golden process in its code cache: many blocks at native speed, until one must be stepped.

use crate::processor::control_flow::ControlFlow;
use crate::tracing::code::{Admission, BlockId};
use crate::tracing::fork::Gadget;
use crate::tracing::golden::{GoldenProcess, TraceError};
use crate::tracing::translation::{
    BASE, CODE, CURSOR, CacheStop, END, LOG_END, LOG_ENTRIES, LOG_ENTRY_BYTES, SAVED_RAX, SAVED_RCX, Source,
};
use sandbox::tracee::Registers;
use std::io;
use std::rc::Rc;

/// Why the process left its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheExit {
    /// As many blocks ran as were requested, or as the log has room for.
    Limit,
    /// The next block is not translated: it must be stepped.
    Untranslated,
}

impl GoldenProcess {
    /// Maps the cache, with what an earlier process has translated. Without room for it, the process is stepped.
    pub fn map_cache(&mut self, gadget: Gadget) -> io::Result<()> {
        let reserved =
            (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE | libc::MAP_NORESERVE) as u64;
        let [none, data, code] =
            [libc::PROT_NONE, libc::PROT_READ | libc::PROT_WRITE, libc::PROT_READ | libc::PROT_EXEC].map(|p| p as u64);
        let whole = END - BASE;
        let calls = [
            (libc::SYS_mmap, [BASE, whole, none, reserved, u64::MAX, 0]),
            (libc::SYS_mprotect, [BASE, LOG_END - BASE, data, 0, 0, 0]),
            (libc::SYS_mprotect, [CODE, END - CODE, code, 0, 0, 0]),
            (libc::SYS_madvise, [BASE, whole, libc::MADV_DONTFORK as u64, 0, 0, 0]),
        ];
        for (number, arguments) in calls {
            if self.tracee.system_call_from(&self.registers, gadget.0, number, arguments)? < 0 {
                return if number == libc::SYS_mmap { Ok(()) } else { self.unmap(gadget) };
            }
        }
        self.code.translation.write_all(&self.tracee, true)?;
        self.cache = Some(self.code.translation.generation);
        Ok(())
    }

    /// Removes the cache, before a fault is applied to this process.
    pub fn unmap_cache(&mut self, gadget: Gadget) -> io::Result<()> {
        if self.cache.take().is_some() {
            self.unmap(gadget)?;
        }
        Ok(())
    }

    fn unmap(&self, gadget: Gadget) -> io::Result<()> {
        let all = [BASE, END - BASE, 0, 0, 0, 0];
        self.tracee.system_call_from(&self.registers, gadget.0, libc::SYS_munmap, all)?;
        self.write_registers()
    }

    /// Whether a call maps, unmaps or protects memory of the cache. Requests for memory anywhere do not.
    pub(super) fn affects_cache(&self, call: &Registers) -> bool {
        let overlaps = |at: u64, bytes: u64| at != 0 && at < END && at.saturating_add(bytes) > BASE;
        self.cache.is_some()
            && match call.rax as i64 {
                libc::SYS_mmap
                | libc::SYS_munmap
                | libc::SYS_mprotect
                | libc::SYS_pkey_mprotect
                | libc::SYS_madvise => overlaps(call.rdi, call.rsi),
                libc::SYS_mremap => {
                    let moves = call.r10 as i32 & libc::MREMAP_FIXED != 0;
                    overlaps(call.rdi, call.rsi) || moves && overlaps(call.r8, call.rdx)
                }
                _ => false,
            }
    }

    /// Whether blocks can run translated now. With several threads, each is stepped in turn.
    pub fn has_cache(&self) -> bool {
        self.cache.is_some() && !self.threads.has_others()
    }

    /// Whether it has a cache: its path is then that of the program alone, without switches between threads.
    pub fn was_cached(&self) -> bool {
        self.cache.is_some() && !self.host.has_threads()
    }

    /// Runs at most `max` blocks and appends them to `ran`. Requires [`GoldenProcess::has_cache`].
    pub fn run_translated(
        &mut self,
        max: u64,
        admission: &mut dyn Admission,
        ran: &mut Vec<BlockId>,
    ) -> Result<CacheExit, TraceError> {
        if self.cache != Some(self.code.translation.generation) {
            self.code.translation.write_all(&self.tracee, false)?;
            self.cache = Some(self.code.translation.generation);
        }
        let room = LOG_ENTRY_BYTES * max.min(LOG_ENTRIES);
        self.tracee.write(CURSOR, &room.wrapping_neg().to_le_bytes())?;
        let exit = self.run_cache(admission)?;
        let unused = self.tracee.read_u64(CURSOR)?.wrapping_neg();
        let mut log = vec![0; room.saturating_sub(unused) as usize];
        self.tracee.read(LOG_END - room, &mut log)?;
        for entry in log.chunks_exact(LOG_ENTRY_BYTES as usize) {
            let block = BlockId::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
            self.position += self.code.block(block).sites.len() as u64;
            ran.push(block);
        }
        Ok(exit)
    }

    fn run_cache(&mut self, admission: &mut dyn Admission) -> Result<CacheExit, TraceError> {
        let mut is_indirect = false;
        loop {
            let Some(at) = self.translated(admission)? else { return Ok(CacheExit::Untranslated) };
            if is_indirect {
                self.code.translation.add_target(&self.tracee, self.registers.rip)?;
            }
            self.tracee.set_registers(&Registers { rip: at, ..self.registers })?;
            let stop = self.tracee.resume_and_wait(0)?;
            self.stops += 1;
            if stop.ended() {
                return Err(TraceError::Io(io::Error::other(format!("the program ended in a block: {stop:?}"))));
            }
            let now = self.tracee.registers()?;
            match (stop, self.code.translation.stop_at(now.rip)) {
                (stop, Some(CacheStop::At(rip))) if stop.trapped() => self.registers = Registers { rip, ..now },
                (stop, Some(CacheStop::AtRax)) if stop.trapped() => {
                    // rax, rcx, rdx
                    let mut saved = [0; 24];
                    self.tracee.read(SAVED_RAX, &mut saved)?;
                    let [rax, rcx, rdx] = [0usize, 8, 16].map(|at| {
                        saved[at..at + 8].iter().rev().fold(0u64, |whole, &byte| whole << 8 | u64::from(byte))
                    });
                    self.registers = Registers { rip: now.rax, rax, rcx, rdx, ..now };
                    is_indirect = true;
                    continue;
                }
                (stop, Some(CacheStop::LogFull(rip))) if stop.trapped() => {
                    let rcx = self.tracee.read_u64(SAVED_RCX)?;
                    self.registers = Registers { rip, rcx, ..now };
                    return Ok(CacheExit::Limit);
                }
                _ => {
                    self.registers = Registers { rip: self.code.translation.origin(now.rip), ..now };
                    return Err(self.stop_error(stop));
                }
            }
            is_indirect = false;
        }
    }

    /// The translation of the block that is next. None: it must be stepped.
    fn translated(&mut self, admission: &mut dyn Admission) -> Result<Option<u64>, TraceError> {
        let ip = self.registers.rip;
        if let Some(at) = self.code.translation.at(ip) {
            return Ok(Some(at));
        }
        let block = self.code.block_from(ip, &self.tracee, admission)?;
        let sites = self.code.block(block).sites.iter();
        let instructions: Vec<_> = sites.map(|site| Rc::clone(&self.code.site(*site).instruction)).collect();
        let last = instructions.last().map(|last| last.flow());
        if matches!(last, Some(ControlFlow::Syscall | ControlFlow::Repeated | ControlFlow::Other)) {
            return Ok(None);
        }
        let mut source = Source { block, instructions: Vec::with_capacity(instructions.len()) };
        for instruction in instructions {
            let mut bytes = vec![0; instruction.length() as usize];
            self.tracee.read(instruction.ip(), &mut bytes)?;
            source.instructions.push((instruction, bytes));
        }
        if !source.is_translatable() {
            return Ok(None);
        }
        let generation = self.code.translation.generation;
        let at = self.code.translation.add(&self.tracee, &source)?;
        // the cache was full: it was emptied, in the process as well
        if self.code.translation.generation != generation {
            self.cache = Some(self.code.translation.generation);
        }
        Ok(Some(at))
    }
}
