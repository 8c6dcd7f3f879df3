//! Lets a stopped process execute exactly one instruction, or a number of iterations of a repeated one.

use crate::flow::Flow;
use crate::instruction::Instruction;
use crate::tracee::{Registers, Stop, Tracee};
use iced_x86::Mnemonic;
use std::io;
use std::time::{Duration, Instant};

/// How long a system call is waited for here.
const PATIENCE: Duration = Duration::from_millis(20);
const TRAP_FLAG: u64 = 1 << 8;
/// From this many iterations on, a breakpoint behind the instruction is cheaper than a trap for each.
const WORTH_A_BREAKPOINT: u64 = 4;

/// What came of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advanced {
    Done,
    /// It did not complete: it raised this signal, which is not delivered yet.
    Raised(i32),
    Ended(Stop),
    /// A system call that has not returned. Some: it reported this, is stopped, and needs another step.
    Underway(Option<Stop>),
}

/// One instruction, or one iteration of a repeated one. `before`: its registers. Blocks for 20 ms at most.
///
/// The processor's trap flag, by which a step is brought about, shows in what `pushf` and `syscall` store of the flags; it
/// is taken out there. A signal from elsewhere is put off until the process is resumed.
pub fn over(tracee: &Tracee, instruction: &Instruction, before: &Registers) -> io::Result<Advanced> {
    let mut held = Held::default();
    tracee.start_step()?;
    let begun = Instant::now();
    loop {
        let stop = match instruction.flow() {
            Flow::Syscall => match patiently(tracee, begun)? {
                None => return Ok(held.release(tracee, Advanced::Underway(None))),
                Some(stop) => stop,
            },
            _ => tracee.wait()?,
        };
        match held.reported(tracee, instruction, before, stop)? {
            Some(advanced) => return Ok(held.release(tracee, advanced)),
            None => tracee.start_step()?,
        }
    }
}

/// Signals from elsewhere that have to wait until an instruction is done.
#[derive(Debug, Default)]
pub(crate) struct Held(Vec<i32>);

impl Held {
    /// What a stop says of the instruction that is being stepped over. None: nothing yet, it needs another step.
    pub fn reported(
        &mut self,
        tracee: &Tracee,
        instruction: &Instruction,
        before: &Registers,
        stop: Stop,
    ) -> io::Result<Option<Advanced>> {
        Ok(Some(match stop {
            stop if stop.ended() => Advanced::Ended(stop),
            stop if stop.trapped() => {
                hide_trap_flag(tracee, instruction, before)?;
                Advanced::Done
            }
            Stop::Signal(signal @ (libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL)) => {
                Advanced::Raised(signal)
            }
            Stop::Signal(signal) => {
                self.0.push(signal);
                return Ok(None);
            }
            stop => Advanced::Underway(Some(stop)),
        }))
    }

    /// They are pending again, unless it has ended.
    pub fn release(&mut self, tracee: &Tracee, advanced: Advanced) -> Advanced {
        for signal in self.0.drain(..).filter(|_| !matches!(advanced, Advanced::Ended(_))) {
            tracee.send(signal);
        }
        advanced
    }
}

fn patiently(tracee: &Tracee, begun: Instant) -> io::Result<Option<Stop>> {
    loop {
        if let Some(stop) = tracee.poll()? {
            return Ok(Some(stop));
        }
        match begun.elapsed() {
            waited if waited > PATIENCE => return Ok(None),
            waited if waited > Duration::from_micros(200) => std::thread::sleep(Duration::from_micros(200)),
            _ => std::thread::yield_now(),
        }
    }
}

/// Takes the trap flag out of what an instruction that was stepped over has stored of the flags. `before`: its registers.
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

/// What a system call that was stepped over has returned with.
pub(crate) fn without_trap_flag(after: Registers, before: &Registers) -> Registers {
    if before.eflags & TRAP_FLAG != 0 { after } else { Registers { r11: after.r11 & !TRAP_FLAG, ..after } }
}

/// Lets a repeated instruction do this many of its iterations, fewer than it has left, and stops before the next one.
///
/// The flags are then those from before the instruction, as where the processor is interrupted in it (Intel SDM, REP).
pub(crate) fn iterations(tracee: &Tracee, instruction: &Instruction, count: u64) -> io::Result<Advanced> {
    let before = tracee.registers()?;
    let left = instruction.iterations(&before).checked_sub(count).filter(|&left| left > 0);
    let left = left.ok_or_else(|| ended(instruction, count))?;
    let mut behind = [0];
    let stepped = count < WORTH_A_BREAKPOINT || tracee.read(instruction.next_ip(), &mut behind).is_err();
    let advanced = if stepped {
        by_steps(tracee, instruction, count)?
    } else {
        tracee.set_registers(&Registers { rcx: count, orig_rax: u64::MAX, ..before })?;
        to_breakpoint(tracee, instruction, behind)?
    };
    match advanced {
        Advanced::Done => {
            let after = tracee.registers()?;
            let rcx = if stepped { after.rcx } else { after.rcx + left };
            if rcx != left {
                return Err(ended(instruction, count));
            }
            tracee.set_registers(&Registers { rip: instruction.ip(), rcx, eflags: before.eflags, ..after })?;
        }
        Advanced::Raised(_) if !stepped => {
            let after = tracee.registers()?;
            tracee.set_registers(&Registers { rcx: after.rcx + left, ..after })?;
        }
        _ => {}
    }
    Ok(advanced)
}

fn ended(instruction: &Instruction, count: u64) -> io::Error {
    io::Error::other(format!("{} has no iteration {count}", instruction.text()))
}

fn by_steps(tracee: &Tracee, instruction: &Instruction, count: u64) -> io::Result<Advanced> {
    for _ in 0..count {
        match over(tracee, instruction, &tracee.registers()?)? {
            Advanced::Done => {}
            other => return Ok(other),
        }
    }
    Ok(Advanced::Done)
}

/// Runs it to the instruction behind, which begins with `code`.
fn to_breakpoint(tracee: &Tracee, instruction: &Instruction, code: [u8; 1]) -> io::Result<Advanced> {
    const BREAKPOINT: u8 = 0xcc;
    let next = instruction.next_ip();
    tracee.write(next, &[BREAKPOINT])?;
    let mut held = Held::default();
    let advanced = loop {
        match tracee.resume_and_wait(0)? {
            stop if stop.ended() => return Ok(Advanced::Ended(stop)),
            stop if stop.trapped() => break Advanced::Done,
            Stop::Signal(signal @ (libc::SIGSEGV | libc::SIGBUS)) => break Advanced::Raised(signal),
            Stop::Signal(signal) => held.0.push(signal),
            stop => return Err(io::Error::other(format!("{} was stopped by {stop:?}", instruction.text()))),
        }
    };
    tracee.write(next, &code)?;
    Ok(held.release(tracee, advanced))
}
