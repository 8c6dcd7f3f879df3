//! Disturbed children, run to their end: what signal struck, how each ended, which one hangs.

use crate::children::{cpu_time, kill, next_report, sleeps, wait_for_a_child};
use crate::gate;
use crate::instruction::Instruction;
use crate::strike::{Next, Rest};
use crate::tracee::{Pid, Stop, Tracee};
use model::flip::Ending;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How often hangs are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A process that sleeps this long without any use of its CPU waits for something that will not come.
const ASLEEP: Duration = Duration::from_millis(400);
/// A program whose handler returns to the fault again and again makes no progress.
const SIGNALS_MAX: u32 = 200;

pub struct Bounds {
    /// CPU time after which a child counts as hanging.
    pub cpu: Duration,
    /// And wall time, whatever it does.
    pub wall: Duration,
    /// A child that has more threads at a time was made to, and is ended.
    pub threads: usize,
}

/// A child's end.
pub struct Ended<T> {
    pub what: T,
    pub ending: Ending,
    /// The first signal and where it struck.
    pub crash: Option<(i32, u64)>,
    pub cpu: Duration,
    pub refused_calls: u32,
}

impl<T> Ended<T> {
    /// Of a process that was gone before it could be added.
    pub fn at_once(what: T, stop: Stop) -> Ended<T> {
        let ending = match stop {
            Stop::Exited(status) => Ending::Exit(status),
            Stop::Killed(signal) | Stop::Signal(signal) | Stop::Event(signal) => Ending::Signal(signal),
        };
        Ended { what, ending, crash: None, cpu: Duration::ZERO, refused_calls: 0 }
    }
}

/// What is told of a flip that happens only while the child is supervised already.
pub trait Hit {
    fn struck(&mut self, hit: String, activated: bool);
}

/// A flip that waits for the child's system call to return.
pub struct Underway {
    pub rest: Box<Rest>,
    pub instruction: Rc<Instruction>,
}

/// A process that was stopped as a whole, and is to go on.
pub struct Whole {
    pub process: Pid,
    /// The thread that was struck.
    pub struck: Tracee,
    /// All others.
    pub others: Vec<Tracee>,
}

impl Whole {
    /// With one thread.
    pub fn of(tracee: Tracee) -> Whole {
        Whole { process: tracee.pid, struck: tracee, others: Vec::new() }
    }
}

struct Child<T> {
    what: T,
    underway: Option<Underway>,
    process: Pid,
    struck: Tracee,
    begun: Instant,
    crash: Option<(i32, u64)>,
    signals: u32,
    refused_calls: u32,
    hangs: bool,
    /// CPU time that it had used before it was added.
    before: Duration,
    /// CPU time at the last look, and since when it has been that.
    asleep: (Duration, Instant),
}

pub struct Supervisor<T> {
    children: HashMap<Pid, Child<T>>,
    /// Threads of children but the first of each, and the processes that they belong to.
    threads: HashMap<Pid, Pid>,
    bounds: Bounds,
    looked: Instant,
}

impl<T: Hit> Supervisor<T> {
    pub fn new(bounds: Bounds) -> Supervisor<T> {
        Supervisor { children: HashMap::new(), threads: HashMap::new(), bounds, looked: Instant::now() }
    }

    pub fn running(&self) -> usize {
        self.children.len()
    }

    /// Lets a stopped child go on, with `signal` (0: none) delivered to the one that was struck.
    pub fn add(&mut self, child: Whole, what: T, signal: i32) -> io::Result<()> {
        let crash = if signal == 0 { None } else { Some((signal, child.struck.registers()?.rip)) };
        child.struck.resume(signal)?;
        self.insert(child, what, None, crash);
        Ok(())
    }

    /// A child whose struck thread is in a system call, of whose return a flip depends. `stop`: what it is stopped for, if it is.
    /// The child may end by that.
    pub fn add_underway(
        &mut self,
        child: Whole,
        what: T,
        underway: Underway,
        stop: Option<Stop>,
    ) -> io::Result<Option<Ended<T>>> {
        let process = child.process;
        self.insert(child, what, Some(underway), None);
        match stop {
            Some(stop) => self.reported_underway(process, stop),
            None => Ok(None),
        }
    }

    /// A child whose struck thread has ended, while others may go on.
    pub fn add_without(&mut self, child: Whole, what: T) {
        self.insert(child, what, None, None);
    }

    fn insert(&mut self, child: Whole, what: T, underway: Option<Underway>, crash: Option<(i32, u64)>) {
        let now = Instant::now();
        let Whole { process, struck, others } = child;
        let before = cpu_time(process).unwrap_or_default();
        for thread in others.iter().chain([&struck]).filter(|thread| thread.pid != process) {
            self.threads.insert(thread.pid, process);
        }
        for thread in &others {
            // one that the struck one has ended is gone, and will report so
            let _ = thread.resume(0);
        }
        let child = Child {
            what,
            underway,
            process,
            struck,
            before,
            begun: now,
            crash,
            signals: 0,
            refused_calls: 0,
            hangs: false,
            asleep: (Duration::ZERO, now),
        };
        self.children.insert(process, child);
    }

    /// A child with a flip still to come has stopped: the flip comes now, or later.
    fn reported_underway(&mut self, process: Pid, mut stop: Stop) -> io::Result<Option<Ended<T>>> {
        loop {
            let Some(child) = self.children.get_mut(&process) else { return Ok(None) };
            let Some(Underway { rest, instruction }) = child.underway.take() else { return Ok(None) };
            if stop == Stop::Event(libc::PTRACE_EVENT_SECCOMP) && !gate::admits(&child.struck, process).unwrap_or(false)
            {
                child.refused_calls += 1;
            }
            if let Stop::Event(libc::PTRACE_EVENT_CLONE) = stop {
                let thread = child.struck.event_message()? as Pid;
                self.threads.insert(thread, process);
            }
            let struck = rest.after(&child.struck, &instruction, stop)?;
            child.what.struck(struck.hit, struck.activated);
            match struck.next {
                Next::Resume(signal) => {
                    child.struck.resume(signal)?;
                    return Ok(None);
                }
                // the end of the process is reported by its first thread
                Next::Ended(_) if child.struck.pid != process => return Ok(None),
                Next::Ended(stop) => {
                    return Ok(self.children.remove(&process).map(|child| Ended::at_once(child.what, stop)));
                }
                Next::Underway(next, rest) => {
                    child.underway = Some(Underway { rest, instruction });
                    match next {
                        Some(next) => stop = next,
                        None => return Ok(None),
                    }
                }
            }
        }
    }

    /// Those that ended meanwhile. Waits up to `timeout` for something to happen if nothing has; without children it returns at once.
    pub fn ended(&mut self, timeout: Duration) -> io::Result<Vec<Ended<T>>> {
        let deadline = Instant::now() + timeout;
        loop {
            let mut ended = Vec::new();
            let happened = self.reap(&mut ended)?;
            if self.looked.elapsed() >= LOOK_EVERY {
                self.look_for_hangs();
                self.looked = Instant::now();
            }
            let now = Instant::now();
            if !ended.is_empty() || self.children.is_empty() || now >= deadline {
                return Ok(ended);
            }
            if !happened {
                wait_for_a_child((deadline - now).min(LOOK_EVERY));
            }
        }
    }

    /// Takes every report there is. True if there was one.
    fn reap(&mut self, ended: &mut Vec<Ended<T>>) -> io::Result<bool> {
        let mut happened = false;
        while let Some((pid, stop, cpu)) = next_report()? {
            happened = true;
            let process = self.threads.get(&pid).copied().unwrap_or(pid);
            let underway = |child: &Child<T>| child.underway.is_some() && child.struck.pid == pid;
            match stop {
                Stop::Exited(status) if pid == process => ended.extend(self.end(pid, Ending::Exit(status), cpu)),
                Stop::Killed(signal) if pid == process => ended.extend(self.end(pid, Ending::Signal(signal), cpu)),
                Stop::Exited(_) | Stop::Killed(_) => {
                    self.threads.remove(&pid);
                }
                stop if self.children.get(&process).is_some_and(underway) => {
                    ended.extend(self.reported_underway(process, stop)?);
                }
                stop => self.reported(pid, process, stop),
            }
        }
        Ok(happened)
    }

    fn end(&mut self, process: Pid, ending: Ending, cpu: Duration) -> Option<Ended<T>> {
        let child = self.children.remove(&process)?;
        self.threads.retain(|_, of| *of != process);
        let cpu = cpu.saturating_sub(child.before);
        let ending = if child.hangs { Ending::Hang } else { ending };
        Some(Ended { what: child.what, ending, crash: child.crash, cpu, refused_calls: child.refused_calls })
    }

    /// A thread has stopped, of a child or of a process that lost its parent. It goes on.
    fn reported(&mut self, thread: Pid, process: Pid, stop: Stop) {
        // one that was just killed reports its end by itself, here and below
        let Ok(tracee) = Tracee::of(thread) else { return };
        let mut child = self.children.get_mut(&process);
        let mut delivered = 0;
        match stop {
            // the one with which the kernel stops a new one for us
            Stop::Signal(libc::SIGSTOP) if thread != process || child.is_none() => {}
            Stop::Signal(signal) => {
                delivered = signal;
                if let Some(child) = &mut child {
                    child.signalled(&tracee, signal);
                }
            }
            Stop::Event(libc::PTRACE_EVENT_SECCOMP) => {
                let admitted = gate::admits(&tracee, process).unwrap_or(false);
                if let Some(child) = child.filter(|_| !admitted) {
                    child.refused_calls += 1;
                }
            }
            Stop::Event(libc::PTRACE_EVENT_CLONE) => {
                if let (Some(_), Ok(new)) = (child, tracee.event_message()) {
                    self.threads.insert(new as Pid, process);
                    if self.threads.values().filter(|of| **of == process).count() > self.bounds.threads {
                        kill(process);
                    }
                }
            }
            _ => {}
        }
        let _ = tracee.resume(delivered);
    }

    fn look_for_hangs(&mut self) {
        let now = Instant::now();
        for child in self.children.values_mut().filter(|child| !child.hangs) {
            let Some(cpu) = cpu_time(child.process) else { continue };
            if cpu != child.asleep.0 || !sleeps(child.process) {
                child.asleep = (cpu, now);
            }
            let stuck = now - child.asleep.1 > ASLEEP;
            if stuck || cpu.saturating_sub(child.before) > self.bounds.cpu || now - child.begun > self.bounds.wall {
                child.hangs = true;
                kill(child.process);
            }
        }
    }
}

impl<T> Child<T> {
    fn signalled(&mut self, thread: &Tracee, signal: i32) {
        self.signals += 1;
        let at = || thread.registers().map_or(0, |registers| registers.rip);
        self.crash.get_or_insert_with(|| (signal, at()));
        if self.signals > SIGNALS_MAX {
            self.hangs = true;
            kill(self.process);
        }
    }
}
