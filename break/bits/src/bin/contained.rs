//! Runs one program contained and undisturbed, and says what came of it: `contained [--forks] [--exec] PROGRAM
//! [ARGUMENT…]`.
//!
//! The smallest engine there is, for trying out containment: it lets a program send signals to itself and no other, start
//! processes only with `--forks`, and become another program only with `--exec`. One JSON object on standard output; the program's first when it
//! has started, so that whoever waits knows.
#![expect(unsafe_code, reason = "waiting for any child has no checked interface")]

use bit_flips::contain::{self, Contained, Launched, Place, Traced};
use bit_flips::inspect;
use bit_flips::protocol::{Limits, Program};
use bit_flips::tracee::Tracee;
use model::{Failure, Family};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

const SCRATCH_BYTES: u64 = 64 << 20;
const CPU_SECONDS: u64 = 1;
const FAILED: u8 = 1;
const CANNOT: u8 = 3;

#[derive(Clone, Copy)]
struct Allowed {
    forks: bool,
    exec: bool,
}

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut option = |name: &str| {
        let given = arguments.first().is_some_and(|first| first == name);
        given.then(|| arguments.remove(0)).is_some()
    };
    let allowed = Allowed { forks: option("--forks"), exec: option("--exec") };
    let status = contain::enter(SCRATCH_BYTES, |contained| match run(contained, arguments, allowed) {
        Ok(told) => {
            println!("{told}");
            0
        }
        Err(failure) => refuse(&failure),
    });
    status.unwrap_or_else(|failure| refuse(&failure)).into()
}

fn refuse(failure: &Failure) -> u8 {
    eprintln!("{failure}");
    if failure.family == Family::Bug { FAILED } else { CANNOT }
}

fn run(contained: &Contained, argv: Vec<String>, allowed: Allowed) -> Result<serde_json::Value, Failure> {
    let io = |e: std::io::Error| Failure::new(Family::Bug, format!("the program cannot be followed: {e}"));
    let directory = contained.directory("work").map_err(io)?;
    let [stdout, stderr] = ["stdout", "stderr"].map(|name| directory.join(name));
    let limits = Limits { memory_bytes: 1 << 30, file_bytes: 1 << 20, processes: 20, ..Limits::default() };
    let program = Program { env: vec![("TMPDIR".into(), ".".into())], limits, ..Program::new(argv) };
    inspect::refuse(&program, contained.user)?;
    let place =
        Place { directory: &directory, stdin: None, stdout: &stdout, stderr: &stderr, cpu_seconds: CPU_SECONDS };
    let launched = contain::launch(contained, &program, &place)?;
    println!("{}", serde_json::json!({ "started": launched.tracee.pid, "user": contained.user.uid }));
    std::io::stdout().flush().map_err(io)?;
    let mut told = follow(launched, allowed).map_err(io)?;
    for (name, path) in [("stdout", stdout), ("stderr", stderr)] {
        let bytes = std::fs::read(path).map_err(io)?;
        told[name] = String::from_utf8_lossy(&bytes).into();
    }
    Ok(told)
}

/// Until the program has ended; what it left behind ends with the engine.
fn follow(launched: Launched, allowed: Allowed) -> std::io::Result<serde_json::Value> {
    let main = launched.tracee.pid;
    let mut tracees = BTreeMap::from([(main, launched.tracee)]);
    tracees[&main].resume(0)?;
    let (mut started, mut refused, mut most) = (0, 0, 1);
    loop {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        let pid = unsafe { libc::waitpid(-1, &mut status, libc::__WALL) };
        if pid < 0 {
            return Err(std::io::Error::last_os_error());
        }
        if !libc::WIFSTOPPED(status) {
            tracees.remove(&pid);
            if pid == main {
                let ending = match libc::WIFEXITED(status) {
                    true => format!("exited {}", libc::WEXITSTATUS(status)),
                    false => format!("killed by {}", libc::WTERMSIG(status)),
                };
                return Ok(serde_json::json!({
                    "ending": ending, "forks": started, "refused": refused, "most": most,
                }));
            }
            continue;
        }
        let tracee = match tracees.entry(pid) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(new) => new.insert(Tracee::of(pid)?),
        };
        let mut signal = 0;
        match (status >> 16, libc::WSTOPSIG(status)) {
            (libc::PTRACE_EVENT_SECCOMP, _) => {
                let goes_on = match Traced::of(tracee.event_message()?) {
                    Some(Traced::Signal) => contain::signals_itself(&tracee.registers()?, pid, pid),
                    Some(Traced::Fork) => allowed.forks,
                    Some(Traced::Exec) => allowed.exec,
                    None => false,
                };
                if !goes_on {
                    refused += 1;
                    contain::refused(tracee)?;
                }
            }
            (0, libc::SIGSTOP) => started += i32::from(pid != main),
            (0, other) => signal = other,
            _ => (),
        }
        // it may have been killed meanwhile
        let _ = tracee.resume(signal);
        most = most.max(tracees.len());
    }
}
