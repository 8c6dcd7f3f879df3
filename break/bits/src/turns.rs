//! How the golden process goes on as several threads, one after the other.

use crate::advance::without_trap_flag;
use crate::golden::{Calls, Finished, Golden, Trouble};
use crate::instruction::Instruction;
use crate::supervise::Whole;
use crate::threads::{MOST, Own, Seen, Thread, Turn, Wait, returned};
use crate::tracee::{Pid, Registers, Stop, Tracee, wait};
use crate::waiting::{Asked, Until, shown};
use std::io;
use std::time::{Duration, Instant};

/// How long a system call may take that is not known to wait, while other threads stand still.
const CALL_MAX: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_micros(50);
/// Most calls take less.
const SHORT: Duration = Duration::from_micros(200);
/// What threads of one process have in common.
const TOGETHER: i32 = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND | libc::CLONE_THREAD;

impl Golden {
    /// A system call of one thread among several. None: it is to be made.
    pub(crate) fn among_threads(&mut self) -> Result<Option<Finished>, Trouble> {
        if !self.threads.several() {
            return Ok(None);
        }
        let done = |golden: &mut Golden, result: u64| {
            golden.registers = returned(&golden.registers, result as i64);
            Ok(Some(Finished::On(None)))
        };
        match Asked::of(&self.tracee, &self.registers) {
            Asked::Made => Ok(None),
            Asked::Unknown(what) => Err(Trouble::Call(what.into())),
            Asked::Sleep(until) => Ok(Some(Finished::Waits(Wait { word: None, until: Some(self.time(until)) }))),
            Asked::Wait { word, value, bits, until } => {
                let wait = Wait { word: Some((word, bits)), until: until.map(|until| self.time(until)) };
                Ok((self.word(word) == Some(value)).then_some(Finished::Waits(wait)))
            }
            Asked::Wake { word, bits, most } => {
                let woken = self.threads.wake(word, bits, most);
                done(self, woken)
            }
            Asked::Requeue { word, value, .. } if value.is_some_and(|value| self.word(word) != Some(value)) => Ok(None),
            Asked::Requeue { word, value, most, to, moved } => {
                let woken = self.threads.wake(word, u32::MAX, most);
                let moved = self.threads.requeue(word, to, moved);
                done(self, if value.is_some() { woken + moved } else { woken })
            }
            Asked::Yield => {
                self.registers = returned(&self.registers, 0);
                Ok(Some(Finished::Yields))
            }
            Asked::EndsThread => self.end_thread().map(Some),
            Asked::EndsProcess => self.end_process().map(|stop| Some(Finished::Ended(stop))),
        }
    }

    /// In virtual time.
    fn time(&self, until: Until) -> Duration {
        let now = self.threads.now(self.position);
        match (until, self.own.clock) {
            (Until::After(time), _) => now + time,
            // the same in every run, though the clock shows something else in each
            (Until::Shows(clock, time), Some(seen)) if seen.clock == clock => seen.at + time.saturating_sub(seen.shown),
            (Until::Shows(clock, time), _) => now + time.saturating_sub(shown(clock)),
        }
    }

    /// The thread has read a clock.
    pub fn saw(&mut self, clock: libc::clockid_t, shown: Duration) {
        self.own.clock = Some(Seen { clock, shown, at: self.threads.now(self.position) });
    }

    fn word(&self, at: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        self.tracee.read(at, &mut bytes).ok()?;
        Some(u32::from_le_bytes(bytes))
    }

    /// Lets another thread go on if it is its turn. `last`: what the one that ran has just done.
    pub(crate) fn next_turn(
        &mut self,
        finished: Finished,
        last: &Instruction,
        calls: &mut dyn Calls,
    ) -> Result<(), Trouble> {
        match finished {
            Finished::Ended(_) => return Ok(()),
            Finished::On(_) if !self.threads.turn_is_over(self.position, last) => return Ok(()),
            Finished::Waits(wait) => self.stand(Some(wait)),
            Finished::On(_) | Finished::Yields | Finished::Gone => {}
        }
        let stays = matches!(finished, Finished::On(_) | Finished::Yields);
        let (next, due) = match self.threads.take_next(self.position) {
            Some(Turn::Ready(next)) => (next, false),
            Some(Turn::Due(next)) => (next, true),
            None if stays => return Ok(()),
            None => return Err(Trouble::Call("its threads wait for each other when they take turns".into())),
        };
        if stays {
            self.stand(None);
        }
        (self.tracee, self.registers, self.own) = (next.tracee, next.registers, next.own);
        if due {
            // nobody else runs: it really waits, and is told the truth about it
            self.make_call(calls)?;
        }
        Ok(())
    }

    fn stand(&mut self, wait: Option<Wait>) {
        let Golden { tracee, registers, own, .. } = &self;
        self.threads.push(Thread { tracee: tracee.clone(), registers: *registers, own: *own, wait });
    }

    /// Takes up a thread that the one that runs is just starting by the call in `before`.
    pub fn adopt(&mut self, before: &Registers) -> Result<(), Trouble> {
        let flags = before.rdi as i32;
        if flags & TOGETHER != TOGETHER || flags & (libc::CLONE_VFORK | libc::CLONE_PTRACE) != 0 {
            return Err(Trouble::Call("it starts a thread with descriptors or a directory of its own".into()));
        }
        if self.threads.ids().len() + 2 > MOST {
            return Err(Trouble::Call(format!("it has more than {MOST} threads at a time")));
        }
        let tracee = Tracee::of(self.tracee.event_message()? as Pid)?;
        match tracee.wait()? {
            Stop::Signal(libc::SIGSTOP) => {}
            stop => return Err(io::Error::other(format!("a thread did not begin stopped: {stop:?}")).into()),
        }
        // the flags that the call keeps are those of its parent, which was stepped
        let registers = Registers { orig_rax: u64::MAX, ..without_trap_flag(tracee.registers()?, before) };
        let cleared = if flags & libc::CLONE_CHILD_CLEARTID != 0 { before.r10 } else { 0 };
        self.threads.push(Thread { tracee, registers, own: Own { cleared, ..Own::default() }, wait: None });
        Ok(())
    }

    /// All of it, each thread with the registers that it will go on with: for a process that goes on by itself.
    pub fn whole(&self) -> io::Result<Whole> {
        self.settle()?;
        let settled = |thread: &Thread| thread.tracee.set_registers(&thread.registers).map(|()| thread.tracee.clone());
        let others = self.threads.standing().map(settled).collect::<io::Result<_>>()?;
        Ok(Whole { process: self.process, struck: self.tracee.clone(), others })
    }

    /// The thread ends, and others go on.
    fn end_thread(&mut self) -> Result<Finished, Trouble> {
        if self.tracee.holds_robust_lock() {
            return Err(Trouble::Call("a thread ends with a robust lock that it holds".into()));
        }
        self.tracee.set_registers(&self.registers)?;
        self.tracee.start_step()?;
        self.stops += 1;
        match self.tracee.pid {
            first if first == self.process => until_zombie(first)?,
            thread => drop(end_of(thread)?),
        }
        self.threads.wake(self.own.cleared, u32::MAX, 1);
        Ok(Finished::Gone)
    }

    /// All of them end.
    fn end_process(&mut self) -> Result<Stop, Trouble> {
        self.tracee.set_registers(&self.registers)?;
        self.tracee.start_step()?;
        self.stops += 1;
        Ok(self.reap()?)
    }

    /// Ends the process, whatever it does.
    pub fn kill(&mut self) -> io::Result<()> {
        self.tracee.kill();
        self.reap().map(drop)
    }

    /// Waits for the end of every thread. The kernel tells that of the first one last, with the status of all.
    fn reap(&mut self) -> io::Result<Stop> {
        let all = self.threads.take_all().map(|thread| thread.tracee.pid).chain([self.tracee.pid]);
        for thread in all.filter(|thread| *thread != self.process) {
            end_of(thread)?;
        }
        end_of(self.process)
    }

    /// To what a system call reports next. While others stand still, it is not waited for without end.
    pub(crate) fn step_call(&self) -> Result<Stop, Trouble> {
        let stop = if self.threads.several() { self.patiently()? } else { self.tracee.step()? };
        // the last thread of several was not the first: the process has ended as well
        Ok(if stop.ended() && self.tracee.pid != self.process { end_of(self.process)? } else { stop })
    }

    fn patiently(&self) -> Result<Stop, Trouble> {
        self.tracee.start_step()?;
        let begun = Instant::now();
        loop {
            match self.tracee.poll()? {
                Some(stop) => return Ok(stop),
                None if begun.elapsed() > CALL_MAX => {
                    let call = self.registers.rax;
                    let what = format!("a thread waits in system call {call} while others could go on");
                    return Err(Trouble::Call(what));
                }
                None if begun.elapsed() < SHORT => std::thread::yield_now(),
                None => std::thread::sleep(PAUSE),
            }
        }
    }
}

fn end_of(thread: Pid) -> io::Result<Stop> {
    loop {
        match wait(thread)? {
            stop if stop.ended() => return Ok(stop),
            // it is being ended, and can do nothing else any more
            _ => {}
        }
    }
}

/// Until the first thread has ended, of which the kernel reports nothing while others are left.
fn until_zombie(thread: Pid) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{thread}/task/{thread}/stat"))?;
        if stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X'])) {
            return Ok(());
        }
        if begun.elapsed() > CALL_MAX {
            return Err(io::Error::other("the first thread does not end"));
        }
        std::thread::sleep(PAUSE);
    }
}
