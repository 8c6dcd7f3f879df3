//! Executes exactly one instruction of a stopped process, or a number of iterations of a repeated one.

use crate::processor::control_flow::ControlFlow;
use crate::processor::instruction::Instruction;
use iced_x86::Mnemonic;
use sandbox::tracee::{Registers, Stop, Tracee};
use std::io;
use std::time::{Duration, Instant};

/// How long to wait for a system call.
const CALL_TIMEOUT: Duration = Duration::from_millis(20);
const TRAP_FLAG: u64 = 1 << 8;
/// The instruction `int3`.
pub const BREAKPOINT: u8 = 0xcc;
/// From this many iterations on, a breakpoint after the instruction is cheaper than a trap per iteration.
const WORTH_A_BREAKPOINT: u64 = 4;

/// The outcome of executing an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    Completed,
    /// It did not complete: it raised this signal, which is not delivered yet.
    Raised(i32),
    Ended(Stop),
    /// A system call that has not returned. Some: the thread is stopped by this event and needs another step.
    Pending(Option<Stop>),
}

/// Executes one instruction, or one iteration of a repeated one. `before`: its registers. Blocks for at most 20 ms.
///
/// A step sets the processor's trap flag, which `pushf` and `syscall` store with the flags; it is cleared there.
/// Signals that the instruction did not raise are deferred until the process is resumed.
pub fn over(tracee: &Tracee, instruction: &Instruction, before: &Registers) -> io::Result<StepOutcome> {
    let mut deferred = DeferredSignals::default();
    tracee.start_step()?;
    let begin = Instant::now();
    loop {
        let stop = match instruction.flow() {
            ControlFlow::Syscall => match poll_call(tracee, begin)? {
                None => return Ok(deferred.release(tracee, StepOutcome::Pending(None))),
                Some(stop) => stop,
            },
            _ => tracee.wait()?,
        };
        match deferred.reported(tracee, instruction, before, stop)? {
            Some(outcome) => return Ok(deferred.release(tracee, outcome)),
            None => tracee.start_step()?,
        }
    }
}

/// Signals that an instruction did not raise, deferred until it has completed.
#[derive(Debug, Default)]
pub(crate) struct DeferredSignals(Vec<i32>);

impl DeferredSignals {
    /// The outcome that a stop means for the instruction being executed. None: not known yet, it needs another step.
    pub fn reported(
        &mut self,
        tracee: &Tracee,
        instruction: &Instruction,
        before: &Registers,
        stop: Stop,
    ) -> io::Result<Option<StepOutcome>> {
        Ok(Some(match stop {
            stop if stop.ended() => StepOutcome::Ended(stop),
            stop if stop.trapped() => {
                hide_trap_flag(tracee, instruction, before)?;
                StepOutcome::Completed
            }
            Stop::Signal(signal @ (libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL)) => {
                StepOutcome::Raised(signal)
            }
            Stop::Signal(signal) => {
                self.0.push(signal);
                return Ok(None);
            }
            stop => StepOutcome::Pending(Some(stop)),
        }))
    }

    /// Sends them again, unless the process has ended.
    pub fn release(&mut self, tracee: &Tracee, outcome: StepOutcome) -> StepOutcome {
        for signal in self.0.drain(..).filter(|_| !matches!(outcome, StepOutcome::Ended(_))) {
            tracee.send(signal);
        }
        outcome
    }
}

fn poll_call(tracee: &Tracee, begin: Instant) -> io::Result<Option<Stop>> {
    loop {
        if let Some(stop) = tracee.poll()? {
            return Ok(Some(stop));
        }
        match begin.elapsed() {
            waited if waited > CALL_TIMEOUT => return Ok(None),
            waited if waited > Duration::from_micros(200) => std::thread::sleep(Duration::from_micros(200)),
            _ => std::thread::yield_now(),
        }
    }
}

/// Clears the trap flag in the copy of the flags that a stepped instruction has stored. `before`: its registers.
pub(crate) fn hide_trap_flag(tracee: &Tracee, instruction: &Instruction, before: &Registers) -> io::Result<()> {
    if before.eflags & TRAP_FLAG != 0 {
        return Ok(());
    }
    match instruction.decoded().mnemonic() {
        Mnemonic::Syscall => {
            let registers = tracee.registers()?;
            let without = without_trap_flag(registers, before);
            if without.r11 != registers.r11 { tracee.set_registers(&without) } else { Ok(()) }
        }
        Mnemonic::Pushfq | Mnemonic::Pushf => {
            let second = tracee.registers()?.rsp + 1;
            let mut byte = [0];
            tracee.read(second, &mut byte)?;
            tracee.write(second, &[byte[0] & !((TRAP_FLAG >> 8) as u8)])
        }
        _ => Ok(()),
    }
}

/// The registers after a stepped system call, without the trap flag.
pub(crate) fn without_trap_flag(after: Registers, before: &Registers) -> Registers {
    if before.eflags & TRAP_FLAG != 0 { after } else { Registers { r11: after.r11 & !TRAP_FLAG, ..after } }
}

/// Executes this many iterations of a repeated instruction, fewer than it has left, and stops before the next one.
///
/// The flags are then those from before the instruction, as when the processor is interrupted in it (Intel SDM, REP).
pub(crate) fn iterations(tracee: &Tracee, instruction: &Instruction, count: u64) -> io::Result<StepOutcome> {
    let before = tracee.registers()?;
    let left = instruction.iterations(&before).checked_sub(count).filter(|&left| left > 0);
    let left = left.ok_or_else(|| no_iteration(instruction, count))?;
    let mut behind = [0];
    let stepped = count < WORTH_A_BREAKPOINT || tracee.read(instruction.next_ip(), &mut behind).is_err();
    let outcome = if stepped {
        by_steps(tracee, instruction, count)?
    } else {
        tracee.set_registers(&Registers { rcx: count, orig_rax: u64::MAX, ..before })?;
        to_breakpoint(tracee, instruction, behind)?
    };
    match outcome {
        StepOutcome::Completed => {
            let after = tracee.registers()?;
            let rcx = if stepped { after.rcx } else { after.rcx + left };
            if rcx != left {
                return Err(no_iteration(instruction, count));
            }
            tracee.set_registers(&Registers { rip: instruction.ip(), rcx, eflags: before.eflags, ..after })?;
        }
        StepOutcome::Raised(_) if !stepped => {
            let after = tracee.registers()?;
            tracee.set_registers(&Registers { rcx: after.rcx + left, ..after })?;
        }
        _ => {}
    }
    Ok(outcome)
}

fn no_iteration(instruction: &Instruction, count: u64) -> io::Error {
    io::Error::other(format!("{} has no iteration {count}", instruction.text()))
}

fn by_steps(tracee: &Tracee, instruction: &Instruction, count: u64) -> io::Result<StepOutcome> {
    for _ in 0..count {
        match over(tracee, instruction, &tracee.registers()?)? {
            StepOutcome::Completed => {}
            other => return Ok(other),
        }
    }
    Ok(StepOutcome::Completed)
}

/// Runs it to a breakpoint at the next instruction, which begins with `code`.
fn to_breakpoint(tracee: &Tracee, instruction: &Instruction, code: [u8; 1]) -> io::Result<StepOutcome> {
    let next = instruction.next_ip();
    tracee.write(next, &[BREAKPOINT])?;
    let mut deferred = DeferredSignals::default();
    let outcome = loop {
        match tracee.resume_and_wait(0)? {
            stop if stop.ended() => return Ok(StepOutcome::Ended(stop)),
            stop if stop.trapped() => break StepOutcome::Completed,
            Stop::Signal(signal @ (libc::SIGSEGV | libc::SIGBUS)) => break StepOutcome::Raised(signal),
            Stop::Signal(signal) => deferred.0.push(signal),
            stop => return Err(io::Error::other(format!("{} was stopped by {stop:?}", instruction.text()))),
        }
    };
    tracee.write(next, &code)?;
    Ok(deferred.release(tracee, outcome))
}
