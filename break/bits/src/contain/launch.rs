//! Starts a program as the unprivileged user, below limits and the filter, and stops it at its first instruction.

use super::child::{Plan, Step, Told};
use super::{Contained, checked, start};
use crate::protocol::Program;
use crate::tracee::{Pid, Stop, Tracee, wait};
use model::Failure;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::Path;

/// Where a program runs, and what it is connected with.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Its working directory, from [`Contained::directory`].
    pub directory: &'a Path,
    /// None: the end of input at once.
    pub stdin: Option<&'a Path>,
    /// Made anew, and given to the program's user.
    pub stdout: &'a Path,
    pub stderr: &'a Path,
    /// Processor time after which the kernel ends it, in whole seconds.
    pub cpu_seconds: u64,
}

/// A program that has not executed an instruction yet.
pub struct Launched {
    pub tracee: Tracee,
    /// Address of the program's own first instruction (`AT_ENTRY`); before it, the dynamic linker runs.
    pub entry: u64,
    /// Address of a `syscall` instruction that is mapped as long as the program runs.
    pub gadget: u64,
}

/// What the engine is told about a program from now on. After `PTRACE_CONT`, and besides its end and its signals:
///
/// - `PTRACE_EVENT_SECCOMP`: before a call of [`filter::Traced`], whose number is the event's message.
/// - `PTRACE_EVENT_FORK`, `VFORK`, `CLONE`: it has a new child or thread, whose id is the message. That is traced as well and
///   stops by itself with `SIGSTOP` before its first instruction, perhaps before this event is seen.
/// - `PTRACE_EVENT_EXEC`: it has become another program, which only happens if the engine lets it.
const OPTIONS: i32 = libc::PTRACE_O_EXITKILL
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC;

/// Starts `program` in `place`. Blocks until it stands at its first instruction.
pub fn launch(contained: &Contained, program: &Program, place: &Place) -> Result<Launched, Failure> {
    let plan = Plan::of(contained, program, place).map_err(|e| {
        Failure::environment(format!("{} cannot be started: {e}", name(program))).why("its files cannot be opened")
    })?;
    let (mut told, telling) = io::pipe().map_err(|e| Failure::environment(format!("no pipe can be made: {e}")))?;
    // SAFETY: the engine has one thread; the child makes system calls only, and ends or becomes the program.
    let pid = match unsafe { libc::fork() } {
        -1 => return Err(Failure::environment(format!("no process can be started: {}", io::Error::last_os_error()))),
        0 => plan.become_program(telling.as_raw_fd()),
        pid => pid,
    };
    drop(telling);
    match to_first_instruction(pid) {
        Ok(true) => start::prepare(pid).map_err(|e| {
            abandon(pid);
            Failure::environment(format!("{} was started and cannot be prepared: {e}", name(program)))
        }),
        Ok(false) => Err(told_failure(program, contained, &mut told)),
        Err(e) => {
            abandon(pid);
            Err(Failure::environment(format!("{} was started and cannot be followed: {e}", name(program))))
        }
    }
}

/// False: it ended on the way.
fn to_first_instruction(pid: Pid) -> io::Result<bool> {
    if wait(pid)? != Stop::Signal(libc::SIGSTOP) {
        return Ok(false);
    }
    request(libc::PTRACE_SETOPTIONS, pid, OPTIONS)?;
    loop {
        request(libc::PTRACE_CONT, pid, 0)?;
        match wait(pid)? {
            Stop::Event(libc::PTRACE_EVENT_EXEC) => break,
            Stop::Exited(_) | Stop::Killed(_) => return Ok(false),
            // the filter's stop before execve
            _ => (),
        }
    }
    // this stop is within execve: a step ends the call, and executes nothing yet
    request(libc::PTRACE_SINGLESTEP, pid, 0)?;
    Ok(wait(pid)?.trapped())
}

fn request(request: libc::c_uint, pid: Pid, data: i32) -> io::Result<()> {
    // SAFETY: the requests made here take plain numbers.
    checked(unsafe { libc::ptrace(request, pid, 0, libc::c_long::from(data)) })
}

/// Ends what is not to go on.
fn abandon(pid: Pid) {
    // SAFETY: our own child, not waited for yet.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    while matches!(wait(pid), Ok(stop) if !stop.ended()) {}
}

fn name(program: &Program) -> &str {
    program.argv.first().map_or("a program without a name", String::as_str)
}

fn told_failure(program: &Program, contained: &Contained, from: &mut impl Read) -> Failure {
    let mut told: Told = [0; 5];
    let failure = |why: String| Failure::environment(format!("{} cannot be started", name(program))).why(why);
    if from.read_exact(&mut told).is_err() {
        return failure("it was ended before its first instruction".into());
    }
    let [step, number @ ..] = told;
    let step = Step::ALL[usize::from(step).min(Step::ALL.len() - 1)];
    let number = i32::from_le_bytes(number);
    let failure = failure(format!("{}: {}", step.words(), io::Error::from_raw_os_error(number)));
    match (step, number) {
        (Step::Trace, libc::EPERM) => failure.next(crate::inspect::may_trace_advice()),
        (Step::Execute, libc::EACCES) => match crate::inspect::barrier(name(program).as_ref(), contained.user) {
            Some(barrier) => failure.why(barrier.why).next(barrier.next),
            None => failure,
        },
        _ => failure,
    }
}
