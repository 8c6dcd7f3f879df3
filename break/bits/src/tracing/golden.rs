//! The golden process: its threads, the real system calls that it makes, and its end.
//!
//! [`GoldenProcess::advance`] runs it.

use crate::tracing::code::Code;
use crate::tracing::step::without_trap_flag;
use crate::tracing::threads::{KernelState, StoppedProcess, Thread, Threads, Wait};
use process::ProcDir;
use sandbox::tracee::{Pid, Registers, Stop, Tracee, wait};
use sandbox::{AfterCall, Answer, VirtualHost};
use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

/// How long a call may block while other threads are stopped.
const CALL_MAX: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_micros(50);
/// Most calls return within this time, so it is spent polling.
const SHORT: Duration = Duration::from_micros(200);

/// Why the program cannot be stepped further.
#[derive(Debug)]
pub enum TraceError {
    /// It received a signal, which the golden run of a campaign must not.
    Signal {
        signal: i32,
        ip: u64,
    },
    /// It did something that cannot be repeated exactly, such as an unsupported system call, which the text names.
    Unsupported(String),
    Io(io::Error),
}

impl From<io::Error> for TraceError {
    fn from(error: io::Error) -> TraceError {
        TraceError::Io(error)
    }
}

/// Observes the system calls of the golden process.
pub trait SyscallObserver {
    /// A call has returned `result`; `before` holds its number and arguments. An error ends the run.
    fn call_returned(&mut self, golden: &mut GoldenProcess, before: &Registers, result: i64) -> Result<(), TraceError>;
    /// The process stopped for a `PTRACE_EVENT_*` within a call. Returns with the process still stopped, ready for the
    /// next step.
    fn call_stopped(&mut self, golden: &mut GoldenProcess, event: i32, before: &Registers) -> Result<(), TraceError>;
}

pub struct GoldenProcess {
    pub process: Pid,
    /// The thread that runs.
    pub tracee: Tracee,
    /// The registers it will be resumed with: the instruction pointer may be ahead of the process itself.
    pub(super) registers: Registers,
    pub kernel_state: KernelState,
    /// The threads that are stopped meanwhile.
    pub threads: Threads,
    pub code: Code,
    /// Answers its calls.
    pub host: VirtualHost,
    /// What remains to be done when the call that it is in has returned.
    after_call: Option<AfterCall>,
    /// Instructions executed since the program's entry.
    pub position: u64,
    /// Single steps instead of breakpoints.
    pub single: bool,
    /// The generation of the translation that its code cache has. None: it has no cache.
    pub(super) cache: Option<u64>,
    /// How often the process was stopped.
    pub stops: u64,
    /// The original words of code that breakpoints were set in, by address.
    pub(super) original_words: HashMap<u64, u64>,
}

impl GoldenProcess {
    /// For a process that is stopped at its entry.
    pub fn at_entry(tracee: Tracee, host: VirtualHost, code: Code, single: bool) -> io::Result<GoldenProcess> {
        let registers = tracee.registers()?;
        let process = tracee.pid;
        Ok(GoldenProcess {
            process,
            tracee,
            registers,
            kernel_state: KernelState::default(),
            threads: Threads::default(),
            code,
            host,
            after_call: None,
            position: 0,
            single,
            cache: None,
            stops: 0,
            original_words: HashMap::new(),
        })
    }

    pub fn ip(&self) -> u64 {
        self.registers.rip
    }

    pub fn registers(&self) -> &Registers {
        &self.registers
    }

    /// Sets the process's registers to those it will be resumed with, before it is forked or inspected from outside.
    pub fn write_registers(&self) -> io::Result<()> {
        self.tracee.set_registers(&self.registers)
    }

    /// Discards decoded code in this range, which was replaced.
    pub fn forget(&mut self, range: std::ops::Range<u64>) {
        self.code.forget(range);
        self.original_words.clear();
    }

    pub(super) fn stop_error(&self, stop: Stop) -> TraceError {
        match stop {
            Stop::Signal(signal) => TraceError::Signal { signal, ip: self.registers.rip },
            other => TraceError::Io(io::Error::other(format!("{other:?} at {:#x}", self.registers.rip))),
        }
    }

    /// Answers the call before which it is stopped.
    pub fn answer_call(&mut self) -> io::Result<()> {
        self.after_call = match self.host.answer(&self.tracee, self.process)? {
            Answer::Resume => None,
            Answer::Finish(after) => Some(after),
        };
        Ok(())
    }

    /// Makes the real call: it may end the program, start a thread, or map code.
    pub(super) fn make_call(&mut self, calls: &mut dyn SyscallObserver) -> Result<BlockEnd, TraceError> {
        let before = self.registers;
        self.tracee.set_registers(&before)?;
        let mut stop = self.step_call()?;
        self.stops += 1;
        while let Stop::Event(event) = stop {
            calls.call_stopped(self, event, &before)?;
            stop = self.step_call()?;
        }
        if stop.ended() {
            return Ok(BlockEnd::ProcessEnded(stop));
        }
        self.registers = without_trap_flag(self.tracee.registers()?, &before);
        if !stop.trapped() {
            return Err(self.stop_error(stop));
        }
        if let Some(after) = self.after_call.take() {
            self.registers = self.host.after_call(&self.tracee, after, &self.registers);
        }
        let result = self.registers.rax as i64;
        calls.call_returned(self, &before, result)?;
        Ok(BlockEnd::Completed(None))
    }

    /// The process with all its threads, each with the registers it will be resumed with: for a process that runs on
    /// freely.
    pub fn stopped_process(&self) -> io::Result<StoppedProcess> {
        self.write_registers()?;
        let written = |thread: &Thread| thread.tracee.set_registers(&thread.registers).map(|()| thread.tracee.clone());
        let other_threads = self.threads.stopped().map(written).collect::<io::Result<_>>()?;
        Ok(StoppedProcess {
            process: self.process,
            thread: self.tracee.clone(),
            other_threads,
            host: self.host.clone(),
        })
    }

    /// Ends the running thread while others remain.
    pub(super) fn end_thread(&mut self) -> Result<BlockEnd, TraceError> {
        if self.tracee.holds_robust_lock() {
            return Err(TraceError::Unsupported("a thread ends with a robust lock that it holds".into()));
        }
        self.tracee.set_registers(&self.registers)?;
        self.tracee.start_step()?;
        self.stops += 1;
        match self.tracee.pid {
            first if first == self.process => wait_until_zombie(first)?,
            thread => drop(wait_for_end(thread)?),
        }
        self.threads.wake(self.kernel_state.cleared_at_exit, u32::MAX, 1);
        Ok(BlockEnd::ThreadEnded)
    }

    /// Ends the process with all its threads.
    pub(super) fn end_process(&mut self) -> Result<Stop, TraceError> {
        self.tracee.set_registers(&self.registers)?;
        self.tracee.start_step()?;
        self.stops += 1;
        Ok(self.reap()?)
    }

    /// Kills the process.
    pub fn kill(&mut self) -> io::Result<()> {
        self.tracee.kill();
        self.reap().map(drop)
    }

    /// Waits for the end of every thread. The kernel reports the first thread last, with the status of the process.
    fn reap(&mut self) -> io::Result<Stop> {
        let all = self.threads.take_all().map(|thread| thread.tracee.pid).chain([self.tracee.pid]);
        for thread in all.filter(|thread| *thread != self.process) {
            wait_for_end(thread)?;
        }
        wait_for_end(self.process)
    }

    /// Steps to the next report of a system call. While other threads are stopped, the wait is bounded.
    fn step_call(&self) -> Result<Stop, TraceError> {
        let stop = if self.threads.has_others() { self.step_with_timeout()? } else { self.tracee.step()? };
        // the last thread was not the first one: the process has ended as well
        Ok(if stop.ended() && self.tracee.pid != self.process { wait_for_end(self.process)? } else { stop })
    }

    fn step_with_timeout(&self) -> Result<Stop, TraceError> {
        self.tracee.start_step()?;
        let begin = Instant::now();
        loop {
            match self.tracee.poll()? {
                Some(stop) => return Ok(stop),
                None if begin.elapsed() > CALL_MAX => {
                    let call = self.registers.rax;
                    let what = format!("a thread waits in system call {call} while others are runnable");
                    return Err(TraceError::Unsupported(what));
                }
                None if begin.elapsed() < SHORT => std::thread::yield_now(),
                None => std::thread::sleep(PAUSE),
            }
        }
    }
}

fn wait_for_end(thread: Pid) -> io::Result<Stop> {
    loop {
        match wait(thread)? {
            stop if stop.ended() => return Ok(stop),
            // it is being killed and executes nothing more
            _ => {}
        }
    }
}

/// Waits until the first thread has ended, which the kernel does not report while others remain.
fn wait_until_zombie(process: Pid) -> io::Result<()> {
    let begin = Instant::now();
    let process = process as u32;
    let dir = ProcDir::open(process)?;
    while !matches!(dir.thread_state(process)?, 'Z' | 'X') {
        if begin.elapsed() > CALL_MAX {
            return Err(io::Error::other("the first thread does not end"));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// How a block ended.
pub(super) enum BlockEnd {
    /// With the iterations of a repeated instruction.
    Completed(Option<u64>),
    /// The thread waits.
    Waits(Wait),
    /// The thread yields.
    Yields,
    /// The thread has ended; others have not.
    ThreadEnded,
    ProcessEnded(Stop),
}
