//! Runs the golden process by one block of instructions at a time.
//!
//! A block runs natively to a breakpoint at its end. Its last instruction is then emulated (branches, returns) or
//! executed by one real step (system calls and rare instructions). There is never more than one breakpoint in the
//! program, and none while it is stopped, so a fork of it has none.

use crate::processor::control_flow::ControlFlow;
use crate::processor::instruction::Instruction;
use crate::tracing::code::{Admission, BlockId};
use crate::tracing::golden::{BlockEnd, GoldenProcess, SyscallObserver, TraceError};
use crate::tracing::step::{BREAKPOINT, hide_trap_flag};
use sandbox::tracee::Stop;
use std::collections::hash_map::Entry;
use std::io;
use std::rc::Rc;

/// The result of running a block.
#[derive(Debug)]
pub enum StepResult {
    Ran(BlockRun),
    /// The program has ended; the instructions of its last block are counted in `position`.
    Ended(Stop, BlockRun),
}

#[derive(Clone, Copy, Debug)]
pub struct BlockRun {
    pub block: BlockId,
    /// Instructions of the block that ran: all, unless the limit cut it.
    pub count: u32,
    /// Iterations of the repeated instruction that ended the block.
    pub repeats: Option<u64>,
}

impl GoldenProcess {
    /// Runs one block, at most `limit` instructions of it. Blocks while the program does.
    pub fn advance(
        &mut self,
        limit: u64,
        admission: &mut dyn Admission,
        calls: &mut dyn SyscallObserver,
    ) -> Result<StepResult, TraceError> {
        let block = self.code.block_from(self.registers.rip, &self.tracee, admission)?;
        let whole = self.code.block(block).sites.len();
        let count = whole.min(usize::try_from(limit).unwrap_or(usize::MAX));
        let sites = &self.code.block(block).sites;
        let instruction = |index: usize| &self.code.site(sites[index]).instruction;
        let last = Rc::clone(instruction(count - 1));
        let mut ran = BlockRun { block, count: count as u32, repeats: None };
        let finished = if self.single { self.single_step(&last, calls)? } else { self.run_block(block, count, calls)? };
        self.position += count as u64;
        match finished {
            BlockEnd::ProcessEnded(stop) => return Ok(StepResult::Ended(stop, ran)),
            BlockEnd::Completed(repeats) => ran.repeats = repeats,
            _ => {}
        }
        self.switch_turn(finished, &last, calls)?;
        Ok(StepResult::Ran(ran))
    }

    /// Runs the first `count` instructions of a block.
    fn run_block(
        &mut self,
        block: BlockId,
        count: usize,
        calls: &mut dyn SyscallObserver,
    ) -> Result<BlockEnd, TraceError> {
        let sites = &self.code.block(block).sites;
        let instruction = |index: usize| &self.code.site(sites[index]).instruction;
        let last = Rc::clone(instruction(count - 1));
        let (native, to) = if count < sites.len() {
            (count, instruction(count).ip())
        } else {
            match last.flow() {
                ControlFlow::Next => (count, last.next_ip()),
                ControlFlow::Jump(target) | ControlFlow::Call(target) => (count, target),
                _ => (count - 1, last.ip()),
            }
        };
        if native > 0 {
            // a block that leads back into itself cannot be stopped by a breakpoint inside it
            if (0..native).any(|index| instruction(index).ip() == to) {
                let run: Vec<Rc<Instruction>> = (0..native).map(|index| Rc::clone(instruction(index))).collect();
                for instruction in run {
                    self.one_step(&instruction)?;
                }
            } else {
                self.run_to(to)?;
            }
        }
        if native < count { self.finish(&last, calls) } else { Ok(BlockEnd::Completed(None)) }
    }

    /// Runs natively until the instruction at `to` is next.
    fn run_to(&mut self, to: u64) -> Result<(), TraceError> {
        // an aligned word never reaches into a page that may be unmapped
        let (at, shift) = (to & !7, 8 * (to & 7));
        let original = match self.original_words.entry(at) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => *entry.insert(self.tracee.read_u64(at)?),
        };
        self.tracee.write_u64(at, original & !(0xff << shift) | u64::from(BREAKPOINT) << shift)?;
        self.tracee.set_registers(&self.registers)?;
        let stop = self.tracee.resume_and_wait(0)?;
        self.stops += 1;
        if stop.ended() {
            return Err(TraceError::Io(io::Error::other(format!("the program ended within a block: {stop:?}"))));
        }
        self.tracee.write_u64(at, original)?;
        self.registers = self.tracee.registers()?;
        if !stop.trapped() || self.registers.rip != to + 1 {
            return Err(self.stop_error(stop));
        }
        self.registers.rip = to;
        Ok(())
    }

    fn one_step(&mut self, instruction: &Instruction) -> Result<(), TraceError> {
        if instruction.reads_counter() {
            let after = self.host.counter_read(&self.tracee, &self.registers);
            self.registers = after.ok_or_else(|| io::Error::other("the code of rdtsc has changed"))?;
            return Ok(());
        }
        let before = self.registers;
        self.tracee.set_registers(&before)?;
        let stop = self.tracee.step()?;
        self.stops += 1;
        if stop.ended() {
            return Err(TraceError::Io(io::Error::other(format!("the program ended during a step: {stop:?}"))));
        }
        hide_trap_flag(&self.tracee, instruction, &before)?;
        self.registers = self.tracee.registers()?;
        if stop.trapped() { Ok(()) } else { Err(self.stop_error(stop)) }
    }

    /// Executes or emulates the last instruction of a block.
    fn finish(&mut self, last: &Instruction, calls: &mut dyn SyscallObserver) -> Result<BlockEnd, TraceError> {
        match last.flow() {
            ControlFlow::Conditional(condition, target) => {
                let taken = condition.holds(self.registers.eflags);
                self.registers.rip = if taken { target } else { last.next_ip() };
            }
            ControlFlow::Return(extra) => {
                self.registers.rip = self.tracee.read_u64(self.registers.rsp)?;
                self.registers.rsp += 8 + u64::from(extra);
            }
            flow @ (ControlFlow::IndirectJump | ControlFlow::IndirectCall) => {
                let target = last.target(&self.registers, |address| self.tracee.read_u64(address))?;
                if flow == ControlFlow::IndirectCall {
                    self.registers.rsp -= 8;
                    self.tracee.write_u64(self.registers.rsp, last.next_ip())?;
                }
                self.registers.rip = target;
            }
            ControlFlow::Repeated => {
                let before = last.iterations(&self.registers);
                if before > 0 {
                    self.run_to(last.next_ip())?;
                } else {
                    self.registers.rip = last.next_ip();
                }
                return Ok(BlockEnd::Completed(Some(before - last.iterations(&self.registers))));
            }
            ControlFlow::Syscall => return self.system_call(calls),
            _ => self.one_step(last)?,
        }
        Ok(BlockEnd::Completed(None))
    }

    fn system_call(&mut self, calls: &mut dyn SyscallObserver) -> Result<BlockEnd, TraceError> {
        match self.emulate_call()? {
            Some(finished) => Ok(finished),
            None => self.make_call(calls),
        }
    }

    /// Steps one instruction on the processor: the oracle that block stepping is compared with.
    fn single_step(
        &mut self,
        instruction: &Instruction,
        calls: &mut dyn SyscallObserver,
    ) -> Result<BlockEnd, TraceError> {
        if instruction.flow() == ControlFlow::Syscall {
            return self.system_call(calls);
        }
        let repeated = instruction.flow() == ControlFlow::Repeated;
        let before = if repeated { instruction.iterations(&self.registers) } else { 0 };
        loop {
            self.one_step(instruction)?;
            if !(repeated && self.registers.rip == instruction.ip()) {
                break;
            }
        }
        Ok(BlockEnd::Completed(repeated.then(|| before - instruction.iterations(&self.registers))))
    }
}
