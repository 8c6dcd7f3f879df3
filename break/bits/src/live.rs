//! A flip in a process that runs already: attach to one busy thread of it, go on by a few instructions, strike once, let go.
//!
//! Nothing is contained and nothing can be undone: what is corrupted is the user's own process. The thread is stepped by the
//! processor, so that no breakpoint can be left in it, and for a tenth of a second at most. Attaching shows as it does with
//! any debugger: a system call that the thread waited in may return early (`EINTR`).
//!
//! Where it strikes is drawn: the first instruction that may be hit after a seeded number of steps. That is no uniform draw
//! from a profile, and not repeatable: a running server is never twice in the same state. Symbols are those of the files that
//! this process sees under the names that the other has mapped.
//!
//! Whoever calls this must not be killed meanwhile: the kernel lets the thread go on, but with the trap of the step it was in,
//! which ends it.

use crate::advance::hide_trap_flag;
use crate::code::Admission;
use crate::executable::Facts;
use crate::instruction::Instruction;
use crate::modules::{Modules, Place};
use crate::protocol::Sites;
use crate::random::Random;
use crate::sites::Filter;
use crate::strike::{Blow, Next, Struck, strike};
use crate::tracee::{Pid, Stop, Tracee};
use model::Failure;
use model::flip::{BitPolicy, FlipType, Injection};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

/// How long a thread is stepped.
const STEPPED_MAX: Duration = Duration::from_millis(100);
/// Steps before an instruction is looked for, at most; half the time at most, too.
const STEPS_MAX: u64 = 2000;
/// Over this time a thread has to use the processor to count as busy.
const GLANCE: Duration = Duration::from_millis(20);
/// A step that takes longer waits in a system call, which is not our doing.
const STEP_MAX: Duration = Duration::from_millis(1);
const PAUSE: Duration = Duration::from_micros(100);
const LONGEST: usize = 15;

/// What to flip in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Aim {
    pub pid: Pid,
    /// One of them is drawn.
    pub types: Vec<FlipType>,
    pub bits: BitPolicy,
    /// `handlers` must be empty: where a call began is not known.
    pub sites: Sites,
    pub seed: u64,
    /// How long to wait for the process to do something.
    pub patience_ms: u64,
}

/// What was hit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wound {
    pub thread: Pid,
    /// Its position counts from the attaching.
    pub injection: Injection,
    /// With the value before and after.
    pub hit: String,
    /// False: nothing was flipped; `hit` says why.
    pub activated: bool,
    /// How long the thread was stepped, without what it waited for in system calls.
    pub stepped_us: u64,
}

/// Flips one bit. Gives up, and leaves the process alone, when `wanted` says no. Needs the right to trace the process.
pub fn flip(aim: &Aim, wanted: &dyn Fn() -> bool) -> Result<Wound, Failure> {
    refuse(aim.pid)?;
    let mut random = Random(aim.seed);
    let (now, patience) = (Instant::now(), Duration::from_millis(aim.patience_ms));
    let until = Until { soon: now + patience / 2, deadline: now + patience, wanted };
    let thread = busy_thread(aim.pid, &mut random, &until)?;
    let traced = Traced::attach(thread)?;
    let kind = aim.types[random.below(aim.types.len() as u64) as usize];
    let found = walk(&traced, aim, kind, random.below(STEPS_MAX) + 1, &until)?;
    let blow = blow(&found.instruction, kind, aim.bits, &mut random);
    let struck = strike(&traced.tracee, &found.instruction, &blow).map_err(|e| lost(thread, &e))?;
    let wound = wound(thread, &found, &blow, &struck);
    match struck.next {
        Next::Resume(signal) => traced.let_go(signal),
        Next::Underway(..) => drop(traced),
        Next::Ended(_) => std::mem::forget(traced),
    }
    Ok(wound)
}

/// Whether this process may be corrupted at all, whoever asks.
pub fn refuse(pid: Pid) -> Result<(), Failure> {
    let no = |why: &str, next: &str| Err(Failure::request(format!("process {pid} is left alone")).why(why).next(next));
    let Some(status) = Status::of(pid) else {
        return Err(Failure::request(format!("there is no process {pid}"))
            .why("it has ended, or belongs to another container")
            .next("ps -e lists those that run"));
    };
    if pid == 1 {
        return no("it is the first process: when it ends, all end", "name another one");
    }
    if own_line().contains(&pid) {
        return no("it is this tool, or one of those that started it", "name a server");
    }
    if status.tracer != 0 {
        return no(&format!("process {} traces it already", status.tracer), "end the debugger or strace first");
    }
    if status.users.windows(2).any(|two| two[0] != two[1]) {
        return no("it has changed its user (setuid) and may do what you may not", "name another one");
    }
    // SAFETY: no memory is involved.
    #[allow(unsafe_code)] // the own user id has no safe interface
    let own = unsafe { libc::geteuid() };
    if own != 0 && status.users.first() != Some(&own) {
        return no("it is another user's", "run this as that user");
    }
    let facts = File::open(format!("/proc/{pid}/exe")).and_then(|file| Facts::read(&file));
    match facts {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) => no("it is no x86-64 program", "name another one"),
        Err(error) => no(&format!("its program cannot be read: {error}"), "name a process of your own"),
    }
}

struct Status {
    tracer: Pid,
    parent: Pid,
    /// Real, effective, saved, of the file system.
    users: Vec<u32>,
}

impl Status {
    fn of(pid: Pid) -> Option<Status> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        Some(Status {
            tracer: field("TracerPid:")?.parse().ok()?,
            parent: field("PPid:")?.parse().ok()?,
            users: field("Uid:")?.split_whitespace().filter_map(|id| id.parse().ok()).collect(),
        })
    }
}

/// This process and its ancestors.
fn own_line() -> Vec<Pid> {
    let first = std::process::id() as Pid;
    std::iter::successors(Some(first), |pid| Status::of(*pid).map(|status| status.parent).filter(|parent| *parent > 0))
        .collect()
}

/// Until when, and whether still, something is waited for.
struct Until<'a> {
    /// From then on the next best instruction is taken: the thread may do only little now and then.
    soon: Instant,
    deadline: Instant,
    wanted: &'a dyn Fn() -> bool,
}

impl Until<'_> {
    fn over(&self) -> bool {
        Instant::now() >= self.deadline || !(self.wanted)()
    }
}

fn idle(pid: Pid) -> Failure {
    Failure::environment(format!("process {pid} does nothing, and nothing was flipped"))
        .why("a flip strikes an instruction that runs, and none did while it was waited for")
        .next("send it work meanwhile, or wait longer")
}

/// Drawn by how much of the processor each thread used just now.
fn busy_thread(pid: Pid, random: &mut Random, until: &Until) -> Result<Pid, Failure> {
    let mut before = ran_for(pid);
    loop {
        if until.over() {
            return Err(idle(pid));
        }
        std::thread::sleep(GLANCE);
        let now = ran_for(pid);
        let mut busy: Vec<(Pid, u64)> =
            now.iter().map(|(id, ran)| (*id, ran.saturating_sub(*before.get(id).unwrap_or(ran)))).collect();
        busy.sort_unstable();
        let all: u64 = busy.iter().map(|(_, ran)| ran).sum();
        if all > 0 {
            let mut drawn = random.below(all);
            let at = busy.iter().find(|(_, ran)| {
                drawn < *ran || {
                    drawn -= ran;
                    false
                }
            });
            return at.map(|(id, _)| *id).ok_or_else(|| idle(pid));
        }
        before = now;
    }
}

/// Nanoseconds on the processor, by thread.
fn ran_for(pid: Pid) -> HashMap<Pid, u64> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return HashMap::new() };
    let ran = |thread: &str| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
        Some((thread.parse().ok()?, text.split_whitespace().next()?.parse().ok()?))
    };
    threads.filter_map(|entry| ran(entry.ok()?.file_name().to_str()?)).collect()
}

/// A thread that this one traces. Dropped, it is let go wherever it stands.
struct Traced {
    tracee: Tracee,
}

impl Traced {
    /// Stopped. Without `PTRACE_O_EXITKILL`: should we end, it goes on.
    fn attach(thread: Pid) -> Result<Traced, Failure> {
        let failed = |e: io::Error| {
            if !alive(thread) {
                return lost(thread, &io::Error::other("it has ended"));
            }
            Failure::environment(format!("thread {thread} cannot be traced: {e}"))
                .why("the kernel lets only root, the user's own debugger, or an ancestor trace a process")
                .next(crate::inspect::may_attach_advice())
        };
        crate::tracee::seize(thread).map_err(failed)?;
        let tracee = Tracee::of(thread).map_err(failed)?;
        tracee.interrupt().map_err(failed)?;
        tracee.wait().map_err(failed)?;
        Ok(Traced { tracee })
    }

    fn let_go(self, signal: i32) {
        // an error says that it has ended meanwhile
        let _ = self.tracee.detach_with(signal);
        std::mem::forget(self);
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        if self.tracee.detach().is_ok() {
            return;
        }
        // it runs, or waits in a system call: only a stopped one can be let go
        let _ = self.tracee.interrupt();
        while let Ok(stop) = self.tracee.wait() {
            let signal = match stop {
                Stop::Signal(signal) if signal != libc::SIGTRAP => signal,
                _ => 0,
            };
            // a step's trap that comes only now would end it: it is taken before
            let goes = match trap_is_pending(self.tracee.pid) {
                true => self.tracee.resume(signal).is_err(),
                false => self.tracee.detach_with(signal).is_ok(),
            };
            if stop.ended() || goes {
                return;
            }
        }
    }
}

fn trap_is_pending(thread: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let pending = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigPnd:")?.trim(), 16).ok());
    pending.is_some_and(|signals| signals >> (libc::SIGTRAP - 1) & 1 == 1)
}

/// Not ended, and not about to: the kernel lets nobody trace that.
fn alive(thread: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("State:"))
        .is_some_and(|state| !state.trim().starts_with(['Z', 'X']))
}

fn lost(thread: Pid, error: &io::Error) -> Failure {
    Failure::environment(format!("thread {thread} was lost, and nothing was flipped"))
        .why(error.to_string())
        .next("see whether the process still runs, and try it again")
}

/// An instruction that is next.
struct Found {
    instruction: Instruction,
    place: Place,
    steps: u64,
    stepped: Duration,
}

/// Steps the thread until it has done `steps` and the instruction that is next may be hit.
fn walk(traced: &Traced, aim: &Aim, kind: FlipType, steps: u64, until: &Until) -> Result<Found, Failure> {
    let (tracee, thread) = (&traced.tracee, traced.tracee.pid);
    let failed = |e: io::Error| lost(thread, &e);
    let modules = Modules::of(tracee).map_err(failed)?;
    let mut filter = Filter::new(aim.sites.clone(), modules);
    let (mut done, mut stepped) = (0, Duration::ZERO);
    loop {
        let registers = tracee.registers().map_err(failed)?;
        let mut code = [0; LONGEST];
        let there = tracee.read_some(registers.rip, &mut code);
        let instruction = Instruction::decode(registers.rip, &code[..there])
            .ok_or_else(|| lost(thread, &io::Error::other("there is no instruction")))?;
        let far_enough = done >= steps || stepped > STEPPED_MAX / 2 || (done > 0 && Instant::now() > until.soon);
        if far_enough && instruction.eligible(kind) && filter.admits(registers.rip) {
            let place = filter.modules.borrow_mut().place(registers.rip);
            return Ok(Found { instruction, place, steps: done, stepped });
        }
        if stepped > STEPPED_MAX {
            return Err(Failure::environment("no instruction that may be hit came by, and nothing was flipped")
                .why(format!(
                    "of {done} that ran in {} ms, none was eligible and among the sites",
                    STEPPED_MAX.as_millis()
                ))
                .next("try it again, under more load or with fewer of --symbol, --library and --except"));
        }
        let begun = Instant::now();
        step(tracee, until).map_err(failed)?.ok_or_else(|| idle(aim.pid))?;
        hide_trap_flag(tracee, &instruction, &registers).map_err(failed)?;
        stepped += begun.elapsed().min(STEP_MAX);
        done += 1;
    }
}

/// To the next instruction, perhaps that of a signal's handler. None: it was not waited for any longer. Any step may take its
/// time: an interrupted system call begins anew when its thread goes on.
fn step(tracee: &Tracee, until: &Until) -> io::Result<Option<()>> {
    let mut signal = 0;
    loop {
        tracee.start_step_with(signal)?;
        let begun = Instant::now();
        let stop = loop {
            match tracee.poll()? {
                Some(stop) => break stop,
                None if begun.elapsed() < STEP_MAX => std::thread::yield_now(),
                None if until.over() => return Ok(None),
                None => std::thread::sleep(PAUSE),
            }
        };
        match stop {
            stop if stop.trapped() => return Ok(Some(())),
            Stop::Signal(other) => signal = other,
            Stop::Event(_) => signal = 0,
            Stop::Exited(_) | Stop::Killed(_) => return Err(io::Error::other("it has ended")),
        }
    }
}

fn blow(instruction: &Instruction, kind: FlipType, bits: BitPolicy, random: &mut Random) -> Blow {
    let operand = random.below(instruction.operands(kind) as u64) as usize;
    let bit = random.below(u64::from(bits.bits(instruction.width(kind, operand)))) as u32;
    Blow { kind, operand, bit, iteration: 0, seed: random.number() }
}

fn wound(thread: Pid, found: &Found, blow: &Blow, struck: &Struck) -> Wound {
    let Found { instruction, place, steps, stepped } = found;
    let injection = Injection {
        id: 0,
        kind: blow.kind,
        position: *steps,
        iteration: 0,
        operand: blow.operand as u8,
        bit: blow.bit as u16,
        seed: blow.seed,
        ip: instruction.ip(),
        instruction: instruction.text(),
        class: instruction.class().to_owned(),
        module: place.module.clone(),
        offset: place.offset,
        symbol: place.symbol.clone(),
        source: place.source.clone(),
    };
    let (hit, activated) = (struck.hit.clone(), struck.activated);
    Wound { thread, injection, hit, activated, stepped_us: stepped.as_micros() as u64 }
}
