//! The threads of the golden process: one runs, the others are stopped.
//!
//! So its instructions are one sequence, independent of the machine. A turn ends where its thread waits, yields or
//! ends, or, once it has executed its share of instructions, at the next branch or other end of a block, which both
//! steppers reach alike. Next is the runnable thread that has been stopped longest. Virtual time advances with the
//! instructions; when no thread is runnable, it advances to the earliest end of a sleep.
//!
//! A thread that waits is stopped *before* its system call, which was not made: a fork makes the call itself.

use crate::processor::control_flow::ControlFlow;
use crate::processor::instruction::Instruction;
use sandbox::VirtualHost;
use sandbox::tracee::{Pid, Registers, Tracee};
use std::collections::VecDeque;
use std::time::Duration;

/// How many threads a program may have at a time.
pub const MAX_THREADS: usize = 64;
/// Instructions after which a thread that does not wait yields to others.
const TURN: u64 = 1000;

/// State of a thread that the kernel keeps and does not show to its tracer.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelState {
    /// The word that the kernel clears when it ends, for which others wait then. 0: none.
    pub cleared_at_exit: u64,
    /// The `stack_t` that it set for its signal handlers.
    pub signal_stack: Option<[u64; 3]>,
    /// The last clock that it read: the basis of absolute timeouts.
    pub clock: Option<ClockReading>,
}

/// The time that a clock showed, and the virtual time of that reading.
#[derive(Clone, Copy, Debug)]
pub struct ClockReading {
    pub clock: libc::clockid_t,
    pub shown: Duration,
    pub at: Duration,
}

/// What a thread waits for: whichever happens first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// A wake-up of the futex at an address with one of these bits.
    pub word: Option<(u64, u32)>,
    /// This virtual time.
    pub until: Option<Duration>,
}

/// A stopped thread.
pub struct Thread {
    pub tracee: Tracee,
    /// The registers it will be resumed with; while it waits, those of its system call.
    pub registers: Registers,
    pub kernel_state: KernelState,
    /// None: it is runnable.
    pub wait: Option<Wait>,
}

/// The thread that runs next.
pub enum Turn {
    Ready(Thread),
    /// Its timeout has expired, and its system call is made now.
    Due(Thread),
}

/// A process whose threads are all stopped, ready to be resumed.
pub struct StoppedProcess {
    pub process: Pid,
    /// The thread that a fault is applied to.
    pub thread: Tracee,
    pub other_threads: Vec<Tracee>,
    /// Answers its calls from now on.
    pub host: VirtualHost,
}

impl StoppedProcess {
    pub fn single_threaded(tracee: Tracee, host: VirtualHost) -> StoppedProcess {
        StoppedProcess { process: tracee.pid, thread: tracee, other_threads: Vec::new(), host }
    }
}

#[derive(Default)]
pub struct Threads {
    /// In the order in which they were stopped.
    stopped: VecDeque<Thread>,
    /// Virtual time besides that of instructions.
    skipped: Duration,
    /// The position at which the turn began.
    began: u64,
}

impl Threads {
    /// Whether there are other threads than the running one.
    pub fn has_others(&self) -> bool {
        !self.stopped.is_empty()
    }

    pub fn stopped(&self) -> impl Iterator<Item = &Thread> {
        self.stopped.iter()
    }

    pub fn take_all(&mut self) -> impl Iterator<Item = Thread> + '_ {
        self.stopped.drain(..)
    }

    pub fn push(&mut self, thread: Thread) {
        self.stopped.push_back(thread);
    }

    /// Virtual time at a position: one nanosecond per instruction, plus skipped time.
    pub fn now(&self, position: u64) -> Duration {
        self.skipped + Duration::from_nanos(position)
    }

    /// Whether the running thread has used its share, `last` ends turns, and another thread is runnable.
    pub fn turn_is_over(&self, position: u64, last: &Instruction) -> bool {
        self.has_others()
            && position - self.began >= TURN
            && ends_turns(last)
            && self.next(self.now(position)).is_some()
    }

    /// The next turn. If no thread is runnable, time advances to the earliest timeout. None: deadlock.
    pub fn take_next(&mut self, position: u64) -> Option<Turn> {
        let now = self.now(position);
        let index = self.next(now).or_else(|| self.first_due())?;
        let thread = self.stopped.remove(index)?;
        self.began = position;
        match thread.wait {
            None => Some(Turn::Ready(thread)),
            Some(Wait { until, .. }) => {
                self.skipped += until?.saturating_sub(now);
                Some(Turn::Due(thread))
            }
        }
    }

    /// A thread that is runnable now.
    fn next(&self, now: Duration) -> Option<usize> {
        let ready = |thread: &Thread| thread.wait.is_none_or(|wait| wait.until.is_some_and(|until| until <= now));
        self.stopped.iter().position(ready)
    }

    fn first_due(&self) -> Option<usize> {
        let until = |(index, thread): (usize, &Thread)| Some((thread.wait?.until?, index));
        self.stopped.iter().enumerate().filter_map(until).min().map(|(_, index)| index)
    }

    /// Wakes up to `most` threads that wait for a word, in the order in which they were stopped, and returns how many.
    pub fn wake(&mut self, word: u64, bits: u32, max: u64) -> u64 {
        let waits = |wait: Wait| wait.word.is_some_and(|(at, mask)| at == word && mask & bits != 0);
        let mut woken = 0;
        for thread in self.stopped.iter_mut().filter(|thread| thread.wait.is_some_and(waits)) {
            if woken == max {
                break;
            }
            thread.wait = None;
            thread.registers = returned(&thread.registers, 0);
            woken += 1;
        }
        woken
    }

    /// Moves up to `most` threads that wait for one word to another, and returns how many.
    pub fn requeue(&mut self, from: u64, to: u64, max: u64) -> u64 {
        let mut moved = 0;
        for wait in self.stopped.iter_mut().filter_map(|thread| thread.wait.as_mut()) {
            if let Some((word, _)) = wait.word.as_mut().filter(|(word, _)| *word == from && moved < max) {
                *word = to;
                moved += 1;
            }
        }
        moved
    }

    pub fn ids(&self) -> Vec<Pid> {
        self.stopped.iter().map(|thread| thread.tracee.pid).collect()
    }
}

/// Turns end where blocks end for another reason than their length: every loop has such a place.
fn ends_turns(last: &Instruction) -> bool {
    match last.flow() {
        ControlFlow::Next | ControlFlow::Call(_) => false,
        ControlFlow::Jump(target) => target <= last.ip(),
        _ => true,
    }
}

/// Registers after a system call that was emulated with this result; `before` are those at its instruction.
pub fn returned(before: &Registers, result: i64) -> Registers {
    const SYSCALL_BYTES: u64 = 2;
    let rip = before.rip + SYSCALL_BYTES;
    Registers { rip, rax: result as u64, rcx: rip, r11: before.eflags, orig_rax: u64::MAX, ..*before }
}
