//! Schedules the threads of the golden process: one after the other, in an order that follows from the program alone.

use crate::processor::instruction::Instruction;
use crate::tracing::golden::{BlockEnd, GoldenProcess, SyscallObserver, TraceError};
use crate::tracing::step::without_trap_flag;
use crate::tracing::thread_calls::{Deadline, ThreadCall, clock_time};
use crate::tracing::threads::{ClockReading, KernelState, MAX_THREADS, Thread, Turn, Wait, returned};
use sandbox::tracee::{Pid, Registers, Stop, Tracee};
use std::io;
use std::time::Duration;

/// What threads of one process share.
const THREAD_FLAGS: i32 =
    libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND | libc::CLONE_THREAD;

impl GoldenProcess {
    /// Emulates a system call that concerns the scheduling of several threads. None: the real call is made.
    pub(super) fn emulate_call(&mut self) -> Result<Option<BlockEnd>, TraceError> {
        if !self.threads.has_others() {
            return Ok(None);
        }
        let done = |golden: &mut GoldenProcess, result: u64| {
            golden.registers = returned(&golden.registers, result as i64);
            Ok(Some(BlockEnd::Completed(None)))
        };
        match ThreadCall::of(&self.tracee, &self.registers) {
            ThreadCall::Proceed => Ok(None),
            ThreadCall::Unsupported(what) => Err(TraceError::Unsupported(what.into())),
            ThreadCall::Sleep(until) => {
                Ok(Some(BlockEnd::Waits(Wait { word: None, until: Some(self.virtual_time(until)) })))
            }
            ThreadCall::Wait { word, value, bits, until } => {
                let wait = Wait { word: Some((word, bits)), until: until.map(|until| self.virtual_time(until)) };
                Ok((self.futex_word(word) == Some(value)).then_some(BlockEnd::Waits(wait)))
            }
            ThreadCall::Wake { word, bits, max } => {
                let woken = self.threads.wake(word, bits, max);
                done(self, woken)
            }
            ThreadCall::Requeue { word, value, .. }
                if value.is_some_and(|value| self.futex_word(word) != Some(value)) =>
            {
                Ok(None)
            }
            ThreadCall::Requeue { word, value, max, to, moved } => {
                let woken = self.threads.wake(word, u32::MAX, max);
                let moved = self.threads.requeue(word, to, moved);
                done(self, if value.is_some() { woken + moved } else { woken })
            }
            ThreadCall::Yield => {
                self.registers = returned(&self.registers, 0);
                Ok(Some(BlockEnd::Yields))
            }
            ThreadCall::EndsThread => self.end_thread().map(Some),
            ThreadCall::EndsProcess => self.end_process().map(|stop| Some(BlockEnd::ProcessEnded(stop))),
        }
    }

    /// A deadline in virtual time.
    fn virtual_time(&self, until: Deadline) -> Duration {
        let now = self.threads.now(self.position);
        match (until, self.kernel_state.clock) {
            (Deadline::After(time), _) => now + time,
            // the same in every run, although the clock differs between runs
            (Deadline::AtClock(clock, time), Some(reading)) if reading.clock == clock => {
                reading.at + time.saturating_sub(reading.shown)
            }
            (Deadline::AtClock(clock, time), _) => now + time.saturating_sub(clock_time(clock)),
        }
    }

    /// Records that the thread has read a clock.
    pub fn record_clock(&mut self, clock: libc::clockid_t, shown: Duration) {
        self.kernel_state.clock = Some(ClockReading { clock, shown, at: self.threads.now(self.position) });
    }

    fn futex_word(&self, at: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        self.tracee.read(at, &mut bytes).ok()?;
        Some(u32::from_le_bytes(bytes))
    }

    /// Switches to another thread if the turn is over. `last`: the instruction that was executed last.
    pub(super) fn switch_turn(
        &mut self,
        finished: BlockEnd,
        last: &Instruction,
        calls: &mut dyn SyscallObserver,
    ) -> Result<(), TraceError> {
        match finished {
            BlockEnd::ProcessEnded(_) => return Ok(()),
            BlockEnd::Completed(_) if !self.threads.turn_is_over(self.position, last) => return Ok(()),
            BlockEnd::Waits(wait) => self.stop_running_thread(Some(wait)),
            BlockEnd::Completed(_) | BlockEnd::Yields | BlockEnd::ThreadEnded => {}
        }
        let runnable = matches!(finished, BlockEnd::Completed(_) | BlockEnd::Yields);
        let (next, due) = match self.threads.take_next(self.position) {
            Some(Turn::Ready(next)) => (next, false),
            Some(Turn::Due(next)) => (next, true),
            None if runnable => return Ok(()),
            None => return Err(TraceError::Unsupported("its threads wait for each other when they take turns".into())),
        };
        if runnable {
            self.stop_running_thread(None);
        }
        (self.tracee, self.registers, self.kernel_state) = (next.tracee, next.registers, next.kernel_state);
        if due {
            // no other thread is runnable: it really waits, so that clocks show it the right time
            self.make_call(calls)?;
        }
        Ok(())
    }

    fn stop_running_thread(&mut self, wait: Option<Wait>) {
        let GoldenProcess { tracee, registers, kernel_state, .. } = &self;
        let (registers, kernel_state) = (*registers, *kernel_state);
        self.threads.push(Thread { tracee: tracee.clone(), registers, kernel_state, wait });
    }

    /// Adds a thread that the running one is starting by the call in `before`.
    pub fn adopt(&mut self, before: &Registers) -> Result<(), TraceError> {
        let flags = before.rdi as i32;
        if flags & THREAD_FLAGS != THREAD_FLAGS || flags & (libc::CLONE_VFORK | libc::CLONE_PTRACE) != 0 {
            return Err(TraceError::Unsupported(
                "it starts a thread that does not share descriptors or the working directory".into(),
            ));
        }
        if self.threads.ids().len() + 2 > MAX_THREADS {
            return Err(TraceError::Unsupported(format!("it has more than {MAX_THREADS} threads at a time")));
        }
        let tracee = Tracee::new(self.tracee.event_message()? as Pid)?;
        match tracee.wait()? {
            Stop::Signal(libc::SIGSTOP) => {}
            stop => return Err(io::Error::other(format!("a thread did not begin stopped: {stop:?}")).into()),
        }
        // the call saves the flags of the parent, which was stepped
        let registers = Registers { orig_rax: u64::MAX, ..without_trap_flag(tracee.registers()?, before) };
        let cleared_at_exit = if flags & libc::CLONE_CHILD_CLEARTID != 0 { before.r10 } else { 0 };
        let kernel_state = KernelState { cleared_at_exit, ..KernelState::default() };
        self.threads.push(Thread { tracee, registers, kernel_state, wait: None });
        Ok(())
    }
}
