//! Enumerates every flip in a range of the golden run and sorts them into classes, of which one member each is tried.
//!
//! | flips | are equivalent if |
//! |---|---|
//! | of registers and memory | the bit is not accessed between them ([`crate::processor::def_use`]) |
//! | whose instruction pointer or address cannot be accessed | they crash after the same system call |
//!
//! Two kinds need no trial: a bit that is written, or not accessed again; and an address that holds the same value.

mod classifier;

use crate::engine::golden_run::GoldenRun;
use crate::engine::refusal::Refusal;
use crate::engine_messages::{Totals, Weight};
use crate::plan::PlannedFlip;
use crate::processor::control_flow::ControlFlow;
use crate::processor::instruction::Instruction;
use crate::tracing::blocks::{BlockRun, StepResult};
use classifier::Classifier;
use model::Failure;
use model::flip::{BitPolicy, FlipType};
use sandbox::tracee::Registers;
use std::ops::Range;
use std::rc::Rc;

/// Instructions from the start of the range to the program's end. Each is stored with its registers: 240 bytes.
const TRACE_MAX: usize = 2_000_000;

/// The flips to enumerate.
pub struct FlipRange<'a> {
    /// The positions whose instructions are hit.
    pub positions: Range<u64>,
    pub types: &'a [FlipType],
    pub bits: BitPolicy,
    /// False: each flip is a class of its own.
    pub merge: bool,
}

/// Equivalent flips.
#[derive(Clone, Debug)]
pub struct FlipClass {
    pub member: PlannedFlip,
    pub weights: Vec<Weight>,
}

struct Step {
    instruction: Rc<Instruction>,
    registers: Registers,
    /// Admitted by the filter, within the range and the handlers.
    is_hit: bool,
    iterations: u64,
}

/// Refuses types whose flips cannot be enumerated.
pub fn check_types(types: &[FlipType]) -> Result<(), Failure> {
    if types.contains(&FlipType::Asc) {
        return Err(Failure::request("ASC cannot be tried exhaustively")
            .why("it puts arbitrary values into several variables at once, which cannot be enumerated")
            .next("omit ASC from --types, or omit --exhaustive"));
    }
    Ok(())
}

/// Steps the program from the start of the range to its end and sorts every flip into its class.
pub fn classify(run: &mut GoldenRun, range: &FlipRange) -> Result<(Vec<FlipClass>, Totals), Refusal> {
    let mut classifier = Classifier::new(range, run.golden.position);
    let catches_faults = catches_faults(run.golden.tracee.pid)?;
    let mut steps = Vec::new();
    let mut calls = 0;
    loop {
        if run.golden.threads.has_others() {
            return Err(several_threads().into());
        }
        let (thread, registers) = (run.golden.tracee.pid, *run.golden.registers());
        let position = run.golden.position;
        let inside = range.positions.contains(&position);
        if inside {
            run.golden.write_registers()?;
        }
        let site = run.next_site()?;
        let is_hit = inside && run.golden.code.site(site).admitted && !run.handlers.is_outside(thread, &registers);
        let instruction = Rc::clone(&run.golden.code.site(site).instruction);
        let crash_after = if catches_faults { None } else { Some(calls) };
        let repeated = instruction.flow() == ControlFlow::Repeated;
        if is_hit && !repeated {
            classifier.add_by_state(run, &instruction, &registers, position, crash_after, 1)?;
        }
        calls += u32::from(instruction.flow() == ControlFlow::Syscall);
        let (result, _) = run.advance(1)?;
        let (StepResult::Ran(BlockRun { repeats, .. }) | StepResult::Ended(_, BlockRun { repeats, .. })) = result;
        let iterations = repeats.unwrap_or(1);
        // the number of iterations is known only afterwards; the instruction changes no mapping
        if is_hit && repeated {
            classifier.add_by_state(run, &instruction, &registers, position, crash_after, iterations)?;
        }
        steps.push(Step { instruction, registers, is_hit, iterations });
        if let StepResult::Ended(..) = result {
            break;
        }
        if steps.len() > TRACE_MAX {
            return Err(Failure::environment(format!(
                "the program does not end within {TRACE_MAX} instructions after the range"
            ))
            .why("the accesses after a flip must be known")
            .next("end the input soon after the reply")
            .into());
        }
    }
    classifier.add_by_next_access(&steps);
    Ok(classifier.finish())
}

/// The next access to a location depends on the order of threads, which differs between forks.
fn several_threads() -> Failure {
    Failure::environment("flips of a program with several threads cannot be sorted into classes")
        .why("the next access to a bit depends on the order of threads, which differs between forks")
        .next("omit --exhaustive; a server has one thread under --replay")
}

/// Whether the program handles faults on wrong addresses: then crashes are not equivalent.
fn catches_faults(pid: i32) -> Result<bool, Refusal> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or_default();
    let caught = u64::from_str_radix(mask.trim(), 16).unwrap_or(u64::MAX);
    Ok([libc::SIGSEGV, libc::SIGBUS].iter().any(|signal| caught >> (signal - 1) & 1 == 1))
}
