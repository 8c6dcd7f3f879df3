//! The golden process: goes on by one run of instructions at a time, and knows how many it has done.
//!
//! A run goes natively to a breakpoint at its end. What ends it is then done by us (branches, returns) or by one real step
//! (system calls and what is rare). There is never more than one breakpoint in the program, and none while it is stopped:
//! a fork of it has none.

use crate::advance::{hide_trap_flag, without_trap_flag};
use crate::code::{Admission, BlockId, Code};
use crate::flow::Flow;
use crate::instruction::Instruction;
use crate::threads::{Own, Threads, Wait};
use crate::tracee::{Pid, Registers, Stop, Tracee};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::rc::Rc;

pub const BREAKPOINT: u8 = 0xcc;

/// What stepping met.
#[derive(Debug)]
pub enum Went {
    On(Ran),
    /// The program has ended; the instructions of its last run are counted in `position`.
    Ended(Stop, Ran),
}

#[derive(Clone, Copy, Debug)]
pub struct Ran {
    pub block: BlockId,
    /// Instructions of the block that ran: all, unless the limit cut it.
    pub count: u32,
    /// Iterations of the repeated instruction that ended the run.
    pub repeats: Option<u64>,
}

/// Why the program cannot be stepped any further.
#[derive(Debug)]
pub enum Trouble {
    /// It got a signal, which a campaign's golden run must not.
    Signal {
        signal: i32,
        ip: u64,
    },
    /// A system call of which the stepper can make no deterministic sense, in words.
    Call(String),
    Io(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Io(error)
    }
}

/// What watches the golden process' system calls.
pub trait Calls {
    /// A call was made and has returned: `before` holds its number and arguments, `result` what it gave. May refuse to go on.
    fn returned(&mut self, golden: &mut Golden, before: &Registers, result: i64) -> Result<(), Trouble>;
    /// The process stopped for a `PTRACE_EVENT_*` within a call. Returns with the process stopped again, to be stepped on.
    fn event(&mut self, golden: &mut Golden, event: i32, before: &Registers) -> Result<(), Trouble>;
}

pub struct Golden {
    pub process: Pid,
    /// The thread that goes on.
    pub tracee: Tracee,
    /// As they will be when it goes on: the instruction pointer may be ahead of the process itself.
    pub(crate) registers: Registers,
    pub own: Own,
    /// Those that stand still meanwhile.
    pub threads: Threads,
    pub code: Code,
    /// Instructions done since the program's entry.
    pub position: u64,
    /// Single steps instead of breakpoints.
    pub single: bool,
    /// How often the process was stopped.
    pub stops: u64,
    /// Code that breakpoints stood in, as it is without them, by its address.
    words: HashMap<u64, u64>,
}

impl Golden {
    /// Of a process that is stopped at its entry.
    pub fn at_entry(tracee: Tracee, code: Code, single: bool) -> io::Result<Golden> {
        let registers = tracee.registers()?;
        let (process, own, threads, words) = (tracee.pid, Own::default(), Threads::default(), HashMap::new());
        Ok(Golden { process, tracee, registers, own, threads, code, position: 0, single, stops: 0, words })
    }

    pub fn ip(&self) -> u64 {
        self.registers.rip
    }

    pub fn registers(&self) -> &Registers {
        &self.registers
    }

    /// Makes the process' own registers those it will go on with: before it is forked or looked at from outside.
    pub fn settle(&self) -> io::Result<()> {
        self.tracee.set_registers(&self.registers)
    }

    /// Code in this range was replaced.
    pub fn forget(&mut self, range: std::ops::Range<u64>) {
        self.code.forget(range);
        self.words.clear();
    }

    /// One run, at most `limit` instructions of it. Blocks while the program does.
    pub fn advance(
        &mut self,
        limit: u64,
        admission: &mut dyn Admission,
        calls: &mut dyn Calls,
    ) -> Result<Went, Trouble> {
        let block = self.code.block_from(self.registers.rip, &self.tracee, admission)?;
        let whole = self.code.block(block).sites.len();
        let count = whole.min(usize::try_from(limit).unwrap_or(usize::MAX));
        let sites = &self.code.block(block).sites;
        let instruction = |index: usize| &self.code.site(sites[index]).instruction;
        let last = Rc::clone(instruction(count - 1));
        let mut ran = Ran { block, count: count as u32, repeats: None };
        let finished = if self.single { self.single_step(&last, calls)? } else { self.run(block, count, calls)? };
        self.position += count as u64;
        match finished {
            Finished::Ended(stop) => return Ok(Went::Ended(stop, ran)),
            Finished::On(repeats) => ran.repeats = repeats,
            _ => {}
        }
        self.next_turn(finished, &last, calls)?;
        Ok(Went::On(ran))
    }

    /// The first `count` instructions of a run.
    fn run(&mut self, block: BlockId, count: usize, calls: &mut dyn Calls) -> Result<Finished, Trouble> {
        let sites = &self.code.block(block).sites;
        let instruction = |index: usize| &self.code.site(sites[index]).instruction;
        let last = Rc::clone(instruction(count - 1));
        let (native, to) = if count < sites.len() {
            (count, instruction(count).ip())
        } else {
            match last.flow() {
                Flow::Next => (count, last.next_ip()),
                Flow::Jump(target) | Flow::Call(target) => (count, target),
                _ => (count - 1, last.ip()),
            }
        };
        if native > 0 {
            // a run that leads back into itself cannot be stopped by a breakpoint that stands in it
            if (0..native).any(|index| instruction(index).ip() == to) {
                let run: Vec<Rc<Instruction>> = (0..native).map(|index| Rc::clone(instruction(index))).collect();
                for instruction in run {
                    self.one_step(&instruction)?;
                }
            } else {
                self.run_to(to)?;
            }
        }
        if native < count { self.finish(&last, calls) } else { Ok(Finished::On(None)) }
    }

    /// Goes natively until the instruction at `to` is next.
    fn run_to(&mut self, to: u64) -> Result<(), Trouble> {
        // the aligned word: it never reaches into a page that may not be there
        let (at, shift) = (to & !7, 8 * (to & 7));
        let original = match self.words.entry(at) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => *new.insert(self.tracee.read_u64(at)?),
        };
        self.tracee.write_u64(at, original & !(0xff << shift) | u64::from(BREAKPOINT) << shift)?;
        self.tracee.set_registers(&self.registers)?;
        let stop = self.tracee.resume_and_wait(0)?;
        self.stops += 1;
        if stop.ended() {
            return Err(Trouble::Io(io::Error::other(format!("the program ended within a straight run: {stop:?}"))));
        }
        self.tracee.write_u64(at, original)?;
        self.registers = self.tracee.registers()?;
        if !stop.trapped() || self.registers.rip != to + 1 {
            return Err(self.trouble(stop));
        }
        self.registers.rip = to;
        Ok(())
    }

    pub(crate) fn trouble(&self, stop: Stop) -> Trouble {
        match stop {
            Stop::Signal(signal) => Trouble::Signal { signal, ip: self.registers.rip },
            other => Trouble::Io(io::Error::other(format!("{other:?} at {:#x}", self.registers.rip))),
        }
    }

    fn one_step(&mut self, instruction: &Instruction) -> Result<(), Trouble> {
        let before = self.registers;
        self.tracee.set_registers(&before)?;
        let stop = self.tracee.step()?;
        self.stops += 1;
        if stop.ended() {
            return Err(Trouble::Io(io::Error::other(format!("the program ended at a step: {stop:?}"))));
        }
        hide_trap_flag(&self.tracee, instruction, &before)?;
        self.registers = self.tracee.registers()?;
        if stop.trapped() { Ok(()) } else { Err(self.trouble(stop)) }
    }

    /// Does what ends a run.
    fn finish(&mut self, last: &Instruction, calls: &mut dyn Calls) -> Result<Finished, Trouble> {
        match last.flow() {
            Flow::Conditional(condition, target) => {
                let taken = condition.holds(self.registers.eflags);
                self.registers.rip = if taken { target } else { last.next_ip() };
            }
            Flow::Return(extra) => {
                self.registers.rip = self.tracee.read_u64(self.registers.rsp)?;
                self.registers.rsp += 8 + u64::from(extra);
            }
            flow @ (Flow::IndirectJump | Flow::IndirectCall) => {
                let target = last.target(&self.registers, |address| self.tracee.read_u64(address))?;
                if flow == Flow::IndirectCall {
                    self.registers.rsp -= 8;
                    self.tracee.write_u64(self.registers.rsp, last.next_ip())?;
                }
                self.registers.rip = target;
            }
            Flow::Repeated => {
                let before = last.iterations(&self.registers);
                if before > 0 {
                    self.run_to(last.next_ip())?;
                } else {
                    self.registers.rip = last.next_ip();
                }
                return Ok(Finished::On(Some(before - last.iterations(&self.registers))));
            }
            Flow::Syscall => return self.system_call(calls),
            _ => self.one_step(last)?,
        }
        Ok(Finished::On(None))
    }

    fn system_call(&mut self, calls: &mut dyn Calls) -> Result<Finished, Trouble> {
        match self.among_threads()? {
            Some(finished) => Ok(finished),
            None => self.make_call(calls),
        }
    }

    /// The real thing: it may end the program, start a thread, or map code.
    pub(crate) fn make_call(&mut self, calls: &mut dyn Calls) -> Result<Finished, Trouble> {
        let before = self.registers;
        self.tracee.set_registers(&before)?;
        let mut stop = self.step_call()?;
        self.stops += 1;
        while let Stop::Event(event) = stop {
            calls.event(self, event, &before)?;
            stop = self.step_call()?;
        }
        if stop.ended() {
            return Ok(Finished::Ended(stop));
        }
        self.registers = without_trap_flag(self.tracee.registers()?, &before);
        if !stop.trapped() {
            return Err(self.trouble(stop));
        }
        let result = self.registers.rax as i64;
        calls.returned(self, &before, result)?;
        Ok(Finished::On(None))
    }

    /// The oracle's way: the processor itself goes from instruction to instruction.
    fn single_step(&mut self, instruction: &Instruction, calls: &mut dyn Calls) -> Result<Finished, Trouble> {
        if instruction.flow() == Flow::Syscall {
            return self.system_call(calls);
        }
        let repeated = instruction.flow() == Flow::Repeated;
        let before = if repeated { instruction.iterations(&self.registers) } else { 0 };
        loop {
            self.one_step(instruction)?;
            if !(repeated && self.registers.rip == instruction.ip()) {
                break;
            }
        }
        Ok(Finished::On(repeated.then(|| before - instruction.iterations(&self.registers))))
    }
}

/// What the end of a run came to.
pub(crate) enum Finished {
    /// With the iterations of a repeated instruction.
    On(Option<u64>),
    /// The thread waits.
    Waits(Wait),
    /// It lets others go on.
    Yields,
    /// It has ended; others have not.
    Gone,
    Ended(Stop),
}
