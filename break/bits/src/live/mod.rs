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
//! which ends it. So a process of its own does it ([`helper`]).

mod busy;
pub mod helper;
mod refusal;
mod traced;

pub use refusal::{Begun, refuse};

use crate::advance::hide_trap_flag;
use crate::code::Admission;
use crate::instruction::Instruction;
use crate::modules::{Modules, Place};
use crate::protocol::Sites;
use crate::random::Random;
use crate::sites::Filter;
use crate::strike::{Blow, Next, Struck, strike};
use crate::tracee::{Pid, Stop, Tracee};
use busy::{Until, busy_thread, idle};
use model::Failure;
use model::flip::{BitPolicy, FlipType, Injection};
use serde::{Deserialize, Serialize};
use std::io;
use std::time::{Duration, Instant};
use traced::Traced;

/// How long a thread is stepped.
const STEPPED_MAX: Duration = Duration::from_millis(100);
/// Steps before an instruction is looked for, at most; half the time at most, too.
const STEPS_MAX: u64 = 2000;
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
