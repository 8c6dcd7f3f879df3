//! Flips one bit in a process that runs already: attaches to a busy thread, steps it for a few instructions, applies
//! one fault, and detaches.
//!
//! Nothing is contained and nothing can be undone: the user's own process is corrupted. The thread is single-stepped by
//! the processor, so that no breakpoint can remain in it, and for a tenth of a second at most. Attaching has the same
//! visible effect as attaching a debugger: a system call that the thread waited in may return early (`EINTR`).
//!
//! The instruction is the first eligible one after a random number of steps. This is not a uniform draw from a profile,
//! and not repeatable: a running server is never in the same state twice. Symbols are read from the files that this
//! process finds under the names that the other has mapped.
//!
//! The caller must not be killed meanwhile: the kernel would resume the thread with a pending trap, which kills it. So
//! a separate process does this work ([`helper`]).

mod allowed;
mod busy;
pub mod helper;
mod traced;

pub use allowed::check_allowed;

use crate::engine_messages::Sites;
use crate::inject::{AppliedFault, Fault, NextAction, apply};
use crate::plan::sites::SiteFilter;
use crate::processor::instruction::Instruction;
use crate::program::modules::{CodeLocation, Modules};
use crate::tracing::code::Admission;
use crate::tracing::step::hide_trap_flag;
use busy::{WaitLimit, busy_thread, idle};
use model::Failure;
use model::flip::{BitPolicy, FlipType};
use model::random::Random;
use sandbox::tracee::{Pid, Stop, Tracee};
use serde::{Deserialize, Serialize};
use std::io;
use std::time::{Duration, Instant};
use traced::Traced;

/// How long a thread is stepped at most.
const STEPPED_MAX: Duration = Duration::from_millis(100);
/// The most steps before an eligible instruction is searched, which also takes at most half the time.
const STEPS_MAX: u64 = 2000;
/// A step that takes longer waits in a system call, and the excess does not count.
const STEP_MAX: Duration = Duration::from_millis(1);
const PAUSE: Duration = Duration::from_micros(100);
const LONGEST: usize = 15;

/// The process to flip a bit in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    pub pid: Pid,
    /// One of these types is drawn.
    pub types: Vec<FlipType>,
    pub bits: BitPolicy,
    /// `handlers` must be empty: the entry of a running call is unknown.
    pub sites: Sites,
    pub seed: u64,
    /// How long to wait for the process to be busy.
    pub patience_ms: u64,
}

/// The flip that was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Injection {
    pub thread: Pid,
    /// Its position counts from the attachment.
    pub injection: model::flip::Injection,
    /// What was hit, with its value before and after.
    pub hit: String,
    /// False: nothing was flipped, for the reason in `hit`.
    pub activated: bool,
    /// How long the thread was stepped, excluding waits in system calls.
    pub stepped_us: u64,
}

/// Flips one bit. Gives up, without changing the process, when `is_needed` returns false. Requires the right to trace
/// the process.
pub fn flip(target: &Target, is_needed: &dyn Fn() -> bool) -> Result<Injection, Failure> {
    check_allowed(target.pid)?;
    let mut random = Random(target.seed);
    let (now, patience) = (Instant::now(), Duration::from_millis(target.patience_ms));
    let limit = WaitLimit { soon: now + patience / 2, deadline: now + patience, is_needed };
    let thread = busy_thread(target.pid, &mut random, &limit)?;
    let traced = Traced::attach(thread)?;
    let kind = target.types[random.below(target.types.len() as u64) as usize];
    let found = step_to_site(&traced, target, kind, random.below(STEPS_MAX) + 1, &limit)?;
    let fault = draw_fault(&found.instruction, kind, target.bits, &mut random);
    let applied = apply(&traced.tracee, None, &found.instruction, &fault).map_err(|e| lost(thread, &e))?;
    let injection = injection(thread, &found, &fault, &applied);
    match applied.next {
        NextAction::Resume(signal) => traced.detach(signal),
        NextAction::Pending(..) => drop(traced),
        NextAction::Ended(_) => std::mem::forget(traced),
    }
    Ok(injection)
}

fn lost(thread: Pid, error: &io::Error) -> Failure {
    Failure::environment(format!("thread {thread} was lost, and nothing was flipped"))
        .why(error.to_string())
        .next("check whether the process still runs, and try it again")
}

/// The next instruction of a stopped thread.
struct Site {
    instruction: Instruction,
    location: CodeLocation,
    steps: u64,
    stepped: Duration,
}

/// Steps the thread `steps` times and then until the next instruction may be hit.
fn step_to_site(
    traced: &Traced,
    target: &Target,
    kind: FlipType,
    steps: u64,
    limit: &WaitLimit,
) -> Result<Site, Failure> {
    let (tracee, thread) = (&traced.tracee, traced.tracee.pid);
    let failed = |e: io::Error| lost(thread, &e);
    let modules = Modules::of(tracee).map_err(failed)?;
    let mut filter = SiteFilter::new(target.sites.clone(), modules);
    let (mut done, mut stepped) = (0, Duration::ZERO);
    loop {
        let registers = tracee.registers().map_err(failed)?;
        let mut code = [0; LONGEST];
        let there = tracee.read_some(registers.rip, &mut code);
        let instruction = Instruction::decode(registers.rip, &code[..there])
            .ok_or_else(|| lost(thread, &io::Error::other("there is no instruction")))?;
        let far_enough = done >= steps || stepped > STEPPED_MAX / 2 || (done > 0 && Instant::now() > limit.soon);
        if far_enough && instruction.eligible(kind) && filter.admits(registers.rip) {
            let location = filter.modules.borrow_mut().locate(registers.rip);
            return Ok(Site { instruction, location, steps: done, stepped });
        }
        if stepped > STEPPED_MAX {
            return Err(Failure::environment(
                "the process executed no instruction that may be hit, and nothing was flipped",
            )
            .why(format!(
                "none of the {done} instructions in {} ms was eligible and among the sites",
                STEPPED_MAX.as_millis()
            ))
            .next("try it again, under more load or with fewer of --symbol, --library and --except"));
        }
        let begin = Instant::now();
        step(tracee, limit).map_err(failed)?.ok_or_else(|| idle(target.pid))?;
        hide_trap_flag(tracee, &instruction, &registers).map_err(failed)?;
        stepped += begin.elapsed().min(STEP_MAX);
        done += 1;
    }
}

/// Steps to the next instruction, possibly of a signal handler. None: the limit was reached. Any step may block,
/// because an interrupted system call restarts when its thread is resumed.
fn step(tracee: &Tracee, limit: &WaitLimit) -> io::Result<Option<()>> {
    let mut signal = 0;
    loop {
        tracee.start_step_with(signal)?;
        let begin = Instant::now();
        let stop = loop {
            match tracee.poll()? {
                Some(stop) => break stop,
                None if begin.elapsed() < STEP_MAX => std::thread::yield_now(),
                None if limit.is_over() => return Ok(None),
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

fn draw_fault(instruction: &Instruction, kind: FlipType, bits: BitPolicy, random: &mut Random) -> Fault {
    let operand = random.below(instruction.operands(kind) as u64) as usize;
    let bit = random.below(u64::from(bits.bits(instruction.width(kind, operand)))) as u32;
    Fault { kind, operand, bit, iteration: 0, seed: random.number() }
}

fn injection(thread: Pid, site: &Site, fault: &Fault, applied: &AppliedFault) -> Injection {
    let Site { instruction, location, steps, stepped } = site;
    let injection = model::flip::Injection {
        id: 0,
        kind: fault.kind,
        position: *steps,
        iteration: 0,
        operand: fault.operand as u8,
        bit: fault.bit as u16,
        seed: fault.seed,
        ip: instruction.ip(),
        instruction: instruction.text(),
        class: instruction.class().to_owned(),
        module: location.module.clone(),
        offset: location.offset,
        symbol: location.symbol.clone(),
        source: location.source.clone(),
    };
    let (hit, activated) = (applied.hit.clone(), applied.activated);
    Injection { thread, injection, hit, activated, stepped_us: stepped.as_micros() as u64 }
}
