//! Runs one program in the sandbox and reports how it ended: `sandboxed [--forks] [--exec] PROGRAM [ARGUMENT…]`.
//!
//! The smallest supervisor there is, to test the sandbox with: a program may send signals to itself and to no other
//! process, start processes only with `--forks`, and become another program only with `--exec`. Writes one JSON object
//! to standard output when the program has started, and one when it has ended.
#![expect(unsafe_code, reason = "waiting for any child has no checked interface")]

use model::{Failure, Family};
use sandbox::tracee::{Pid, Stop, Tracee};
use sandbox::{Launched, Limits, Program, Sandbox, TracedCall};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

const SCRATCH_BYTES: u64 = 64 << 20;
const LIMITS: Limits = Limits { memory_bytes: 1 << 30, file_bytes: 1 << 20, processes: 20, cpu_seconds: 1 };
const FAILED: u8 = 1;
const UNAVAILABLE: u8 = 3;

#[derive(Clone, Copy)]
struct Permissions {
    forks: bool,
    exec: bool,
}

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut option = |name: &str| {
        let given = arguments.first().is_some_and(|first| first == name);
        given.then(|| arguments.remove(0)).is_some()
    };
    let permissions = Permissions { forks: option("--forks"), exec: option("--exec") };
    let status = sandbox::enter(SCRATCH_BYTES, |sandbox| match run(sandbox, &arguments, permissions) {
        Ok(report) => {
            println!("{report}");
            0
        }
        Err(failure) => print_failure(&failure),
    });
    status.unwrap_or_else(|failure| print_failure(&failure)).into()
}

fn print_failure(failure: &Failure) -> u8 {
    eprintln!("{failure}");
    if failure.family == Family::Bug { FAILED } else { UNAVAILABLE }
}

fn run(sandbox: &Sandbox, argv: &[String], permissions: Permissions) -> Result<serde_json::Value, Failure> {
    let io = |e: std::io::Error| Failure::new(Family::Bug, format!("the program cannot be traced: {e}"));
    let directory = sandbox.create_dir("work").map_err(io)?;
    let [stdout, stderr] = ["stdout", "stderr"].map(|name| directory.join(name));
    let env = [("TMPDIR".to_owned(), ".".to_owned())];
    let program = Program {
        argv,
        env: &env,
        directory: &directory,
        stdin: None,
        stdout: &stdout,
        stderr: &stderr,
        limits: LIMITS,
    };
    let launched = sandbox::launch(sandbox, &program)?;
    println!("{}", serde_json::json!({ "started": launched.tracee.pid, "user": sandbox.user.uid }));
    std::io::stdout().flush().map_err(io)?;
    let mut report = supervise(launched, permissions).map_err(io)?;
    for (name, path) in [("stdout", stdout), ("stderr", stderr)] {
        let bytes = std::fs::read(path).map_err(io)?;
        report[name] = String::from_utf8_lossy(&bytes).into();
    }
    Ok(report)
}

/// Runs the program to its end. Processes that it leaves behind end with the supervisor.
fn supervise(launched: Launched, permissions: Permissions) -> std::io::Result<serde_json::Value> {
    let main = launched.tracee.pid;
    let mut tracees: BTreeMap<Pid, Tracee> = BTreeMap::from([(main, launched.tracee)]);
    tracees[&main].resume(0)?;
    let mut host = sandbox::VirtualHost::new(false);
    let (mut started, mut refused, mut most) = (0, 0, 1);
    // the stop that ended a call which was completed for the program
    let mut next = None;
    loop {
        let (pid, stop) = match next.take() {
            Some(stop) => (main, stop),
            None => wait_for_any()?,
        };
        if stop.ended() {
            tracees.remove(&pid);
            if pid == main {
                let ending = match stop {
                    Stop::Exited(status) => format!("exited {status}"),
                    Stop::Killed(signal) => format!("killed by {signal}"),
                    Stop::Signal(_) | Stop::Event(_) => unreachable!("it has ended"),
                };
                return Ok(serde_json::json!({
                    "ending": ending, "forks": started, "refused": refused, "most": most,
                }));
            }
            continue;
        }
        let tracee = match tracees.entry(pid) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => entry.insert(Tracee::new(pid)?),
        };
        let mut signal = 0;
        match stop {
            Stop::Event(libc::PTRACE_EVENT_SECCOMP) => {
                let permitted = match TracedCall::from_message(tracee.event_message()?) {
                    Some(TracedCall::Signal) => sandbox::signals_itself(tracee, pid)?,
                    Some(TracedCall::Fork) => permissions.forks,
                    Some(TracedCall::Exec) => permissions.exec,
                    Some(TracedCall::Answered) if pid == main => {
                        next = sandbox::answer_and_complete(&mut host, tracee, main)?;
                        if next.is_some() {
                            continue;
                        }
                        true
                    }
                    // its children have ids of their own, which this supervisor does not keep: they get real answers
                    Some(TracedCall::Answered) => true,
                    None => false,
                };
                if !permitted {
                    refused += 1;
                    sandbox::deny(tracee)?;
                }
            }
            Stop::Event(libc::PTRACE_EVENT_CLONE) => host.thread_started(),
            // the open memory file is that of the previous program
            Stop::Event(libc::PTRACE_EVENT_EXEC) => *tracee = Tracee::new(pid)?,
            Stop::Signal(libc::SIGSTOP) => started += i32::from(pid != main),
            Stop::Signal(libc::SIGSEGV) if host.emulate_counter(tracee)? => {}
            Stop::Signal(other) => signal = other,
            _ => (),
        }
        // it may have been killed meanwhile
        let _ = tracee.resume(signal);
        most = most.max(tracees.len());
    }
}

/// Waits for a report of any process or thread.
fn wait_for_any() -> std::io::Result<(Pid, Stop)> {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    let pid = unsafe { libc::waitpid(-1, &mut status, libc::__WALL) };
    if pid < 0 { Err(std::io::Error::last_os_error()) } else { Ok((pid, Stop::from_status(status))) }
}
