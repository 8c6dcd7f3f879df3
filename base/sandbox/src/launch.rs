//! Starts a program as the unprivileged user, under limits and the filter, and stops it at its first instruction.

use crate::child::{ChildPlan, ErrorReport, Step};
use crate::tracee::{Pid, Stop, Tracee, wait};
use crate::{Sandbox, checked, entry_state};
use model::Failure;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::Path;

/// A program to launch: its command line, environment, streams and limits.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// Absolute path of the executable, then its arguments.
    pub argv: &'a [String],
    /// The whole environment; nothing is inherited.
    pub env: &'a [(String, String)],
    /// Its working directory, from [`Sandbox::create_dir`].
    pub directory: &'a Path,
    /// None: an empty standard input.
    pub stdin: Option<&'a Path>,
    /// Truncated, and given to the program's user.
    pub stdout: &'a Path,
    pub stderr: &'a Path,
    pub limits: Limits,
}

/// Limits that the kernel enforces.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Address space.
    pub memory_bytes: u64,
    /// One file.
    pub file_bytes: u64,
    /// Processes and threads of the program's user.
    pub processes: u64,
    /// CPU time in whole seconds.
    pub cpu_seconds: u64,
}

/// A program that has not executed an instruction yet.
pub struct Launched {
    pub tracee: Tracee,
    /// Address of the program's own first instruction (`AT_ENTRY`); the dynamic linker runs before it.
    pub entry: u64,
    /// Address of a `syscall` instruction that stays mapped while the program runs.
    pub gadget: u64,
}

/// The events that a supervisor receives about a program after `PTRACE_CONT`, besides its end and its signals:
///
/// - `PTRACE_EVENT_SECCOMP`: before a call that is a [`crate::TracedCall`], whose number is the event's message.
/// - `PTRACE_EVENT_FORK`, `VFORK`, `CLONE`: it has a new child or thread, whose id is the message. That one is traced
///   as well and stops with `SIGSTOP` before its first instruction, possibly before this event is reported.
/// - `PTRACE_EVENT_EXEC`: it has become another program, which happens only if the supervisor permits it.
const OPTIONS: i32 = libc::PTRACE_O_EXITKILL
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC;

/// Starts `program`. Blocks until it is stopped at its first instruction.
pub fn launch(sandbox: &Sandbox, program: &Program) -> Result<Launched, Failure> {
    let plan = ChildPlan::new(sandbox, program).map_err(|e| {
        Failure::environment(format!("{} cannot be started: {e}", name(program))).why("its files cannot be opened")
    })?;
    let (mut errors, error_sink) = io::pipe().map_err(|e| Failure::environment(format!("no pipe can be made: {e}")))?;
    // SAFETY: the supervisor has one thread; the child makes system calls only, and ends or becomes the program.
    let pid = match unsafe { libc::fork() } {
        -1 => return Err(Failure::environment(format!("no process can be started: {}", io::Error::last_os_error()))),
        0 => plan.become_program(error_sink.as_raw_fd()),
        pid => pid,
    };
    drop(error_sink);
    tracing::debug!(pid, program = name(program), "program started");
    match run_to_first_instruction(pid) {
        Ok(true) => entry_state::prepare(pid).map_err(|e| {
            kill_and_reap(pid);
            Failure::environment(format!("{} was started and cannot be prepared: {e}", name(program)))
        }),
        Ok(false) => Err(start_failure(program, sandbox, &mut errors)),
        Err(e) => {
            kill_and_reap(pid);
            Err(Failure::environment(format!("{} was started and cannot be traced: {e}", name(program))))
        }
    }
}

/// False: it ended on the way.
fn run_to_first_instruction(pid: Pid) -> io::Result<bool> {
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

fn kill_and_reap(pid: Pid) {
    // SAFETY: our own child that was not waited for.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    while matches!(wait(pid), Ok(stop) if !stop.ended()) {}
}

fn name<'a>(program: &Program<'a>) -> &'a str {
    program.argv.first().map_or("a program without a name", String::as_str)
}

fn start_failure(program: &Program, sandbox: &Sandbox, errors: &mut impl Read) -> Failure {
    let mut report: ErrorReport = [0; 5];
    let failure = |why: String| Failure::environment(format!("{} cannot be started", name(program))).why(why);
    if errors.read_exact(&mut report).is_err() {
        return failure("it was killed before its first instruction".into());
    }
    let [step, number @ ..] = report;
    let step = Step::ALL[usize::from(step).min(Step::ALL.len() - 1)];
    let number = i32::from_le_bytes(number);
    let failure = failure(format!("{}: {}", step.description(), io::Error::from_raw_os_error(number)));
    match (step, number) {
        (Step::Trace, libc::EPERM) => failure.next(crate::trace_advice()),
        (Step::Execute, libc::EACCES) => match crate::barrier(name(program).as_ref(), sandbox.user) {
            Some(barrier) => failure.why(barrier.why).next(barrier.next),
            None => failure,
        },
        _ => failure,
    }
}
