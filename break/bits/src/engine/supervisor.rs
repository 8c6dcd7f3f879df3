//! Supervises disturbed runs until they end: which signals they raise, how they end, and whether they hang.

use crate::engine::children::{cpu_time, is_asleep, kill, next_report, wait_for_a_child};
use crate::inject::{NextAction, PendingFault};
use crate::processor::instruction::Instruction;
use crate::tracing::syscall_policy;
use crate::tracing::threads::StoppedProcess;
use model::flip::Ending;
use sandbox::tracee::{Pid, Stop, Tracee};
use sandbox::{Answer, VirtualHost};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How often to check for hangs.
const HANG_CHECK_EVERY: Duration = Duration::from_millis(20);
/// A process that sleeps this long without using its CPU waits for something that will not happen.
const ASLEEP: Duration = Duration::from_millis(400);
/// A program whose handler keeps returning to the faulting instruction makes no progress.
const SIGNALS_MAX: u32 = 200;

/// Limits of a supervised run.
pub struct RunLimits {
    /// A child hangs after this much CPU time.
    pub cpu: Duration,
    /// A child hangs after this much wall time.
    pub wall: Duration,
    /// A child with more concurrent threads is killed.
    pub threads: usize,
}

/// A run that has ended.
pub struct EndedRun<T> {
    pub run: T,
    pub ending: Ending,
    /// The first signal and the address at which it was raised.
    pub crash: Option<(i32, u64)>,
    pub cpu: Duration,
    pub refused_calls: u32,
}

impl<T> EndedRun<T> {
    /// For a process that ended before it could be supervised.
    pub fn immediate(run: T, stop: Stop) -> EndedRun<T> {
        let ending = match stop {
            Stop::Exited(status) => Ending::Exit(status),
            Stop::Killed(signal) | Stop::Signal(signal) | Stop::Event(signal) => Ending::Signal(signal),
        };
        EndedRun { run, ending, crash: None, cpu: Duration::ZERO, refused_calls: 0 }
    }
}

/// Receives the result of a fault that is applied while the child is already supervised.
pub trait FaultListener {
    fn fault_applied(&mut self, hit: String, activated: bool);
}

/// A fault that waits for the child's system call to return.
pub struct PendingFlip {
    pub fault: Box<PendingFault>,
    pub instruction: Rc<Instruction>,
}

struct Child<T> {
    run: T,
    pending: Option<PendingFlip>,
    process: Pid,
    /// The thread that the fault is applied to.
    thread: Tracee,
    host: VirtualHost,
    started: Instant,
    crash: Option<(i32, u64)>,
    signals: u32,
    refused_calls: u32,
    hangs: bool,
    /// CPU time that it had used when it was added.
    cpu_before: Duration,
    /// CPU time at the last check, and since when it has not changed.
    idle: (Duration, Instant),
}

pub struct Supervisor<T> {
    children: HashMap<Pid, Child<T>>,
    /// Threads of children except the first of each, with the processes that they belong to.
    threads: HashMap<Pid, Pid>,
    limits: RunLimits,
    last_hang_check: Instant,
}

impl<T: FaultListener> Supervisor<T> {
    pub fn new(limits: RunLimits) -> Supervisor<T> {
        Supervisor { children: HashMap::new(), threads: HashMap::new(), limits, last_hang_check: Instant::now() }
    }

    pub fn running(&self) -> usize {
        self.children.len()
    }

    /// Resumes a stopped process, with `signal` (0: none) delivered to the thread that the fault was applied to.
    pub fn add(&mut self, mut process: StoppedProcess, run: T, signal: i32) -> io::Result<()> {
        // reading the time stamp counter raises a signal, which the program must not get
        let is_counter = signal == libc::SIGSEGV && process.host.emulate_counter(&process.thread)?;
        let signal = if is_counter { 0 } else { signal };
        let crash = if signal == 0 { None } else { Some((signal, process.thread.registers()?.rip)) };
        process.thread.resume(signal)?;
        self.insert(process, run, None, crash);
        Ok(())
    }

    /// Adds a process whose thread is in a system call, whose return a fault waits for. `stop`: the event that it is
    /// stopped by, if it is. Handling that event may end the process.
    pub fn add_pending(
        &mut self,
        process: StoppedProcess,
        run: T,
        pending: PendingFlip,
        stop: Option<Stop>,
    ) -> io::Result<Option<EndedRun<T>>> {
        let pid = process.process;
        self.insert(process, run, Some(pending), None);
        match stop {
            Some(stop) => self.resume_pending(pid, stop),
            None => Ok(None),
        }
    }

    /// Adds a process in which the thread that the fault was applied to has ended, while others may run on.
    pub fn add_without_thread(&mut self, process: StoppedProcess, run: T) {
        self.insert(process, run, None, None);
    }

    fn insert(&mut self, process: StoppedProcess, run: T, pending: Option<PendingFlip>, crash: Option<(i32, u64)>) {
        let now = Instant::now();
        let StoppedProcess { process, thread, other_threads, host } = process;
        let cpu_before = cpu_time(process).unwrap_or_default();
        for thread in other_threads.iter().chain([&thread]).filter(|thread| thread.pid != process) {
            self.threads.insert(thread.pid, process);
        }
        for thread in &other_threads {
            // fails for one that the hit thread has ended, whose end is reported later
            let _ = thread.resume(0);
        }
        let child = Child {
            run,
            pending,
            process,
            thread,
            host,
            cpu_before,
            started: now,
            crash,
            signals: 0,
            refused_calls: 0,
            hangs: false,
            idle: (Duration::ZERO, now),
        };
        self.children.insert(process, child);
    }

    /// Handles a stop of a child with a pending fault: the fault is applied now, or stays pending.
    fn resume_pending(&mut self, process: Pid, mut stop: Stop) -> io::Result<Option<EndedRun<T>>> {
        loop {
            let Some(child) = self.children.get_mut(&process) else { return Ok(None) };
            let Some(PendingFlip { fault, instruction }) = child.pending.take() else { return Ok(None) };
            if stop == Stop::Event(libc::PTRACE_EVENT_SECCOMP) {
                if sandbox::is_answered(&child.thread)? {
                    if let Answer::Finish(after) = child.host.answer(&child.thread, process)? {
                        stop = child.thread.step()?;
                        if !stop.ended() {
                            let registers = child.thread.registers()?;
                            child.thread.set_registers(&child.host.after_call(&child.thread, after, &registers))?;
                        }
                    }
                } else if !syscall_policy::decide(&child.thread, process).unwrap_or(false) {
                    child.refused_calls += 1;
                }
            }
            if let Stop::Event(libc::PTRACE_EVENT_CLONE) = stop {
                let thread = child.thread.event_message()? as Pid;
                child.host.thread_started();
                self.threads.insert(thread, process);
            }
            let applied = fault.resume(&child.thread, &instruction, stop)?;
            child.run.fault_applied(applied.hit, applied.activated);
            match applied.next {
                NextAction::Resume(signal) => {
                    child.thread.resume(signal)?;
                    return Ok(None);
                }
                // the end of the process is reported by its first thread
                NextAction::Ended(_) if child.thread.pid != process => return Ok(None),
                NextAction::Ended(stop) => {
                    return Ok(self.children.remove(&process).map(|child| EndedRun::immediate(child.run, stop)));
                }
                NextAction::Pending(next, fault) => {
                    child.pending = Some(PendingFlip { fault, instruction });
                    match next {
                        Some(next) => stop = next,
                        None => return Ok(None),
                    }
                }
            }
        }
    }

    /// The runs that have ended. Waits up to `timeout` for the first one; without children it returns at once.
    pub fn ended(&mut self, timeout: Duration) -> io::Result<Vec<EndedRun<T>>> {
        let deadline = Instant::now() + timeout;
        loop {
            let mut ended = Vec::new();
            let any_report = self.handle_reports(&mut ended)?;
            if self.last_hang_check.elapsed() >= HANG_CHECK_EVERY {
                self.kill_hanging();
                self.last_hang_check = Instant::now();
            }
            let now = Instant::now();
            if !ended.is_empty() || self.children.is_empty() || now >= deadline {
                return Ok(ended);
            }
            if !any_report {
                wait_for_a_child((deadline - now).min(HANG_CHECK_EVERY));
            }
        }
    }

    /// Handles all available reports. Returns whether there was one.
    fn handle_reports(&mut self, ended: &mut Vec<EndedRun<T>>) -> io::Result<bool> {
        let mut any_report = false;
        while let Some((pid, stop, cpu)) = next_report()? {
            any_report = true;
            let process = self.threads.get(&pid).copied().unwrap_or(pid);
            let is_pending = |child: &Child<T>| child.pending.is_some() && child.thread.pid == pid;
            match stop {
                stop if stop.ended() => ended.extend(self.thread_ended(pid, process, stop, cpu)),
                stop if self.children.get(&process).is_some_and(is_pending) => {
                    ended.extend(self.resume_pending(process, stop)?);
                }
                stop => {
                    // it was killed in a call that was completed for it
                    if let Some(stop) = self.handle_stop(pid, process, stop) {
                        let cpu = self.children.get(&process).map_or(Duration::ZERO, |child| child.idle.0);
                        ended.extend(self.thread_ended(pid, process, stop, cpu));
                    }
                }
            }
        }
        Ok(any_report)
    }

    fn thread_ended(&mut self, thread: Pid, process: Pid, stop: Stop, cpu: Duration) -> Option<EndedRun<T>> {
        match stop {
            Stop::Exited(status) if thread == process => self.end(process, Ending::Exit(status), cpu),
            Stop::Killed(signal) if thread == process => self.end(process, Ending::Signal(signal), cpu),
            _ => {
                self.threads.remove(&thread);
                None
            }
        }
    }

    fn end(&mut self, process: Pid, ending: Ending, cpu: Duration) -> Option<EndedRun<T>> {
        let child = self.children.remove(&process)?;
        self.threads.retain(|_, of| *of != process);
        let cpu = cpu.saturating_sub(child.cpu_before);
        let ending = if child.hangs { Ending::Hang } else { ending };
        Some(EndedRun { run: child.run, ending, crash: child.crash, cpu, refused_calls: child.refused_calls })
    }

    /// A thread has stopped, of a child or of a process that lost its parent. It is resumed. Returns its end if it
    /// ended in a call that was completed for it.
    fn handle_stop(&mut self, thread: Pid, process: Pid, stop: Stop) -> Option<Stop> {
        // a thread that was just killed reports its end separately, here and below
        let tracee = Tracee::new(thread).ok()?;
        let mut child = self.children.get_mut(&process);
        let mut delivered = 0;
        match stop {
            Stop::Event(libc::PTRACE_EVENT_SECCOMP) if sandbox::is_answered(&tracee).unwrap_or(false) => {
                let mut orphan = VirtualHost::new(false);
                let host = child.map_or(&mut orphan, |child| &mut child.host);
                match sandbox::answer_and_complete(host, &tracee, process).unwrap_or(None) {
                    Some(stop) if stop.ended() => return Some(stop),
                    Some(stop) => return self.handle_stop(thread, process, stop),
                    None => {}
                }
            }
            Stop::Signal(libc::SIGSEGV)
                if child.as_mut().is_some_and(|child| child.host.emulate_counter(&tracee).unwrap_or(false)) => {}
            // the kernel stops a new thread with this signal for its tracer
            Stop::Signal(libc::SIGSTOP) if thread != process || child.is_none() => {}
            Stop::Signal(signal) => {
                delivered = signal;
                if let Some(child) = &mut child {
                    child.record_signal(&tracee, signal);
                }
            }
            Stop::Event(libc::PTRACE_EVENT_SECCOMP) => {
                let permitted = syscall_policy::decide(&tracee, process).unwrap_or(false);
                if let Some(child) = child.filter(|_| !permitted) {
                    child.refused_calls += 1;
                }
            }
            Stop::Event(libc::PTRACE_EVENT_CLONE) => {
                if let (Some(child), Ok(new)) = (child, tracee.event_message()) {
                    child.host.thread_started();
                    self.threads.insert(new as Pid, process);
                    if self.threads.values().filter(|of| **of == process).count() > self.limits.threads {
                        kill(process);
                    }
                }
            }
            _ => {}
        }
        let _ = tracee.resume(delivered);
        None
    }

    fn kill_hanging(&mut self) {
        let now = Instant::now();
        for child in self.children.values_mut().filter(|child| !child.hangs) {
            let Some(cpu) = cpu_time(child.process) else { continue };
            if cpu != child.idle.0 || !is_asleep(child.process) {
                child.idle = (cpu, now);
            }
            let stuck = now - child.idle.1 > ASLEEP;
            let over_cpu = cpu.saturating_sub(child.cpu_before) > self.limits.cpu;
            if stuck || over_cpu || now - child.started > self.limits.wall {
                child.hangs = true;
                kill(child.process);
            }
        }
    }
}

impl<T> Child<T> {
    fn record_signal(&mut self, thread: &Tracee, signal: i32) {
        self.signals += 1;
        let at = || thread.registers().map_or(0, |registers| registers.rip);
        self.crash.get_or_insert_with(|| (signal, at()));
        if self.signals > SIGNALS_MAX {
            self.hangs = true;
            kill(self.process);
        }
    }
}
