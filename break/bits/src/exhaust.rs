//! Every flip there is within a stretch of the golden run, as classes of which one member each has to be tried.
//!
//! | flips | are one class if |
//! |---|---|
//! | of registers and memory | nothing accesses the bit between them ([`crate::defuse`]) |
//! | whose instruction pointer or address leads nowhere | they crash after the same system call |
//!
//! Two kinds need no trial: a bit that is written or never looked at again, and an address at which the same value stands.

mod sorting;

use crate::flow::Flow;
use crate::golden::{Ran, Went};
use crate::instruction::Instruction;
use crate::plan::Planned;
use crate::profile::Started;
use crate::protocol::{Census, Weight};
use crate::refusal::Refusal;
use crate::tracee::Registers;
use model::Failure;
use model::flip::{BitPolicy, FlipType};
use sorting::Sorting;
use std::ops::Range;
use std::rc::Rc;

/// Instructions from the stretch's beginning to the program's end. Each is kept with its registers: 240 bytes.
const TRACE_MAX: usize = 2_000_000;

/// What is asked for.
pub struct Stretch<'a> {
    /// Positions, of which all instructions are struck.
    pub positions: Range<u64>,
    pub types: &'a [FlipType],
    pub bits: BitPolicy,
    /// False: each flip is a class of its own.
    pub merge: bool,
}

/// Flips that come to the same.
#[derive(Clone, Debug)]
pub struct Class {
    pub member: Planned,
    pub weights: Vec<Weight>,
}

struct Step {
    instruction: Rc<Instruction>,
    registers: Registers,
    /// Admitted, and within the stretch and the handlers.
    struck: bool,
    iterations: u64,
}

/// Refuses what has no "every".
pub fn refuse(types: &[FlipType]) -> Result<(), Failure> {
    if types.contains(&FlipType::Asc) {
        return Err(Failure::request("ASC cannot be tried exhaustively")
            .why("it puts arbitrary values into several variables at once: they are drawn, and nobody can list them")
            .next("leave ASC out of --types, or --exhaustive"));
    }
    Ok(())
}

/// Follows the program from the stretch to its end and sorts every flip into its class.
pub fn classes(started: &mut Started, stretch: &Stretch) -> Result<(Vec<Class>, Census), Refusal> {
    let mut sorting = Sorting::new(stretch, started.golden.position);
    let caught = catches_faults(started.golden.tracee.pid)?;
    let mut steps = Vec::new();
    let mut calls = 0;
    loop {
        if started.golden.threads.several() {
            return Err(several_threads().into());
        }
        let (thread, registers) = (started.golden.tracee.pid, *started.golden.registers());
        let position = started.golden.position;
        let inside = stretch.positions.contains(&position);
        if inside {
            started.golden.settle()?;
        }
        let site = started.next_site()?;
        let struck = inside && started.golden.code.site(site).admitted && !started.handlers.outside(thread, &registers);
        let instruction = Rc::clone(&started.golden.code.site(site).instruction);
        let before = if caught { None } else { Some(calls) };
        let repeated = instruction.flow() == Flow::Repeated;
        if struck && !repeated {
            sorting.forward(started, &instruction, &registers, position, before, 1)?;
        }
        calls += u32::from(instruction.flow() == Flow::Syscall);
        let (went, _) = started.advance(1)?;
        let (Went::On(Ran { repeats, .. }) | Went::Ended(_, Ran { repeats, .. })) = went;
        let iterations = repeats.unwrap_or(1);
        // how often it repeats is known only afterwards; it changes no mapping
        if struck && repeated {
            sorting.forward(started, &instruction, &registers, position, before, iterations)?;
        }
        steps.push(Step { instruction, registers, struck, iterations });
        if let Went::Ended(..) = went {
            break;
        }
        if steps.len() > TRACE_MAX {
            return Err(Failure::environment(format!(
                "{TRACE_MAX} instructions follow the stretch and the program goes on"
            ))
            .why("all that comes after a flip must be known")
            .next("end the input soon after what is looked at")
            .into());
        }
    }
    sorting.backward(&steps);
    Ok(sorting.done())
}

/// Which access of a place is the next one depends on their order, which is another one in each fork.
fn several_threads() -> Failure {
    Failure::environment("flips of a program with several threads cannot be sorted into classes")
        .why("which access is the next one depends on the order of its threads, which is not the same in every fork")
        .next("leave --exhaustive out; a server has one thread under --replay")
}

/// Whether the program has a handler for a wrong address: then what follows depends on more.
fn catches_faults(pid: i32) -> Result<bool, Refusal> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or_default();
    let caught = u64::from_str_radix(mask.trim(), 16).unwrap_or(u64::MAX);
    Ok([libc::SIGSEGV, libc::SIGBUS].iter().any(|signal| caught >> (signal - 1) & 1 == 1))
}
