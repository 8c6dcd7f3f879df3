//! The threads of the golden process: one goes on, the others stand still.
//!
//! So its instructions are one sequence, whatever the machine does. A turn ends where its thread waits, yields or ends, or when
//! it has had its share of instructions and comes to a branch (or another end of a run), which both steppers see alike. Then
//! the one that has stood longest and can go on does. Time passes with the instructions; when nobody can go on, it passes to
//! the first end of a sleep.
//!
//! A thread that waits stands *before* its system call, which was not made: a fork makes it by itself.

use crate::flow::Flow;
use crate::instruction::Instruction;
use crate::tracee::{Pid, Registers, Tracee};
use std::collections::VecDeque;
use std::time::Duration;

/// Threads that a program may have at a time.
pub const MOST: usize = 64;
/// Instructions after which a thread that does not wait lets others go on.
const TURN: u64 = 1000;

/// What the kernel keeps of a thread and does not show to those who trace it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own {
    /// The word that is cleared when it ends, and for which others wait then. 0: none.
    pub cleared: u64,
    /// The `stack_t` that it named for its signal handlers.
    pub signal_stack: Option<[u64; 3]>,
    /// The last clock that it has read: a time at which it wants to be woken was made from it.
    pub clock: Option<Seen>,
}

/// What a clock showed, and the virtual time of it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub clock: libc::clockid_t,
    pub shown: Duration,
    pub at: Duration,
}

/// What a thread waits for, whichever comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// A wake-up of a futex that has one of these bits.
    pub word: Option<(u64, u32)>,
    /// This virtual time.
    pub until: Option<Duration>,
}

/// One that stands still.
pub struct Thread {
    pub tracee: Tracee,
    /// As they will be when it goes on; while it waits, those of its system call.
    pub registers: Registers,
    pub own: Own,
    /// None: it can go on.
    pub wait: Option<Wait>,
}

/// Who goes on next.
pub enum Turn {
    Ready(Thread),
    /// Its time has come, and its system call is to be made.
    Due(Thread),
}

#[derive(Default)]
pub struct Threads {
    /// In the order in which they came to a stand.
    standing: VecDeque<Thread>,
    /// Virtual time that has passed besides that of instructions.
    skipped: Duration,
    /// Where the turn began.
    began: u64,
}

impl Threads {
    /// There is more than the one that runs.
    pub fn several(&self) -> bool {
        !self.standing.is_empty()
    }

    pub fn standing(&self) -> impl Iterator<Item = &Thread> {
        self.standing.iter()
    }

    pub fn take_all(&mut self) -> impl Iterator<Item = Thread> + '_ {
        self.standing.drain(..)
    }

    pub fn push(&mut self, thread: Thread) {
        self.standing.push_back(thread);
    }

    /// Virtual time at a position: a nanosecond for each instruction, and what was skipped.
    pub fn now(&self, position: u64) -> Duration {
        self.skipped + Duration::from_nanos(position)
    }

    /// Whether the one that runs has had its share, and `last` is where turns end.
    pub fn turn_is_over(&self, position: u64, last: &Instruction) -> bool {
        self.several() && position - self.began >= TURN && ends_turns(last) && self.next(self.now(position)).is_some()
    }

    /// The next turn; if nobody is ready, time passes. None: all wait for each other.
    pub fn take_next(&mut self, position: u64) -> Option<Turn> {
        let now = self.now(position);
        let index = self.next(now).or_else(|| self.first_due())?;
        let thread = self.standing.remove(index)?;
        self.began = position;
        match thread.wait {
            None => Some(Turn::Ready(thread)),
            Some(Wait { until, .. }) => {
                self.skipped += until?.saturating_sub(now);
                Some(Turn::Due(thread))
            }
        }
    }

    /// One that can go on now.
    fn next(&self, now: Duration) -> Option<usize> {
        let ready = |thread: &Thread| thread.wait.is_none_or(|wait| wait.until.is_some_and(|until| until <= now));
        self.standing.iter().position(ready)
    }

    fn first_due(&self) -> Option<usize> {
        let until = |(index, thread): (usize, &Thread)| Some((thread.wait?.until?, index));
        self.standing.iter().enumerate().filter_map(until).min().map(|(_, index)| index)
    }

    /// Wakes up to `most` of those that wait for a word, in the order in which they came, and tells how many.
    pub fn wake(&mut self, word: u64, bits: u32, most: u64) -> u64 {
        let waits = |wait: Wait| wait.word.is_some_and(|(at, wanted)| at == word && wanted & bits != 0);
        let mut woken = 0;
        for thread in self.standing.iter_mut().filter(|thread| thread.wait.is_some_and(waits)) {
            if woken == most {
                break;
            }
            thread.wait = None;
            thread.registers = returned(&thread.registers, 0);
            woken += 1;
        }
        woken
    }

    /// Lets up to `most` of those that wait for a word wait for another one.
    pub fn requeue(&mut self, from: u64, to: u64, most: u64) -> u64 {
        let mut moved = 0;
        for wait in self.standing.iter_mut().filter_map(|thread| thread.wait.as_mut()) {
            if let Some((word, _)) = wait.word.as_mut().filter(|(word, _)| *word == from && moved < most) {
                *word = to;
                moved += 1;
            }
        }
        moved
    }

    pub fn ids(&self) -> Vec<Pid> {
        self.standing.iter().map(|thread| thread.tracee.pid).collect()
    }
}

/// Turns end where runs end for another reason than their length: every loop has such a place.
fn ends_turns(last: &Instruction) -> bool {
    match last.flow() {
        Flow::Next | Flow::Call(_) => false,
        Flow::Jump(target) => target <= last.ip(),
        _ => true,
    }
}

/// Registers after a system call that was not made, but has this result. Those given are at its instruction.
pub fn returned(before: &Registers, result: i64) -> Registers {
    const SYSCALL_BYTES: u64 = 2;
    let rip = before.rip + SYSCALL_BYTES;
    Registers { rip, rax: result as u64, rcx: rip, r11: before.eflags, orig_rax: u64::MAX, ..*before }
}
