//! Runs programs that may do anything, such as those with flipped bits, without harm to the host.
//!
//! A wrong bit can turn any system call of a program into `kill(-1)` or `unlink`. So a supervisor runs as the first
//! process of its own namespaces and traces every program it starts. Programs run as an unprivileged user under a
//! system call filter:
//!
//! ```text
//! tool ── reaper ──── supervisor (pid 1 of its namespaces; starts and traces programs)
//!         (waits)     └── program (its own user, no capabilities, limits, filter)
//! ```
//!
//! | The program | because of |
//! |---|---|
//! | sees and signals no process of the host | the pid namespace; `kill` runs only if the supervisor permits it |
//! | writes no file outside the scratch directory | every mount is read-only; scratch is a bounded tmpfs |
//! | opens no device but null, zero, full | `nodev` on every mount, a `/dev` of its own |
//! | reaches no network and no daemon's socket | an empty network namespace; no `AF_UNIX` sockets |
//! | gains no privilege | no capabilities, `no_new_privs`, `nosuid` on every mount |
//! | runs the same each time | fixed addresses; clocks, random numbers and ids from a [`VirtualHost`] |
//! | uses no more than its limits | resource limits; the OOM killer's first choice |
//! | does not outlive the tool | the namespace ends with pid 1; the reaper kills pid 1 when the tool dies |
//!
//! A program can still read what everybody may read, and use the processor within its limits. A named pipe of the host
//! that everybody may write to stays writable: a read-only mount does not cover what is not stored on it.
//!
//! Requires Linux 5.12 (`mount_setattr`), and root or unprivileged user namespaces. Otherwise every function fails.
#![allow(unsafe_code)] // namespaces, mounts and processes need system calls; each call states what it relies on

mod child;
mod entry_state;
mod filter;
mod host_ids;
mod launch;
mod permissions;
mod reaper;
mod syscalls;
pub mod tracee;
mod user;
mod view;
mod virtual_host;

pub use filter::FORK_MARK;
pub use host_ids::{host_pid, host_thread};
pub use launch::{Launched, Limits, Program, launch};
pub use permissions::{Barrier, attach_advice, barrier, trace_advice};
pub use syscalls::{TracedCall, deny, signals_itself};
pub use user::User;
pub use virtual_host::{ANSWERED, AfterCall, Answer, VirtualHost, answer_and_complete, is_answered, set_start_time};

use model::Failure;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Proof that this process is the supervisor of a sandbox, and what it can hand to programs.
#[derive(Debug)]
pub struct Sandbox {
    /// The user that programs run as.
    pub user: User,
    /// An empty directory at a path that is the same in every run, for the directories of programs. It ends with the
    /// namespace. Programs can traverse it but neither list nor change it (except under [`User::own`]).
    pub scratch: PathBuf,
}

impl Sandbox {
    /// Creates a directory in scratch that programs can write to.
    pub fn create_dir(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.scratch.join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        self.give(&path)?;
        Ok(path)
    }

    /// Makes the programs' user the owner of a file.
    pub fn give(&self, path: &Path) -> io::Result<()> {
        std::os::unix::fs::lchown(path, Some(self.user.uid), Some(self.user.gid))
    }
}

/// The command that starts a supervisor: `program` with `arguments`, which must call [`enter`] before it starts a
/// second thread. Requests go to its standard input, which must stay open for as long as the supervisor is needed.
/// Ctrl-C does not reach it.
pub fn supervisor_command(program: &Path, arguments: &[&OsStr]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    command
}

/// Runs `supervisor` as the first process of its own namespaces, with at most `scratch_bytes` of files, and returns its
/// exit status (128 plus the signal if it was killed). Returns in the outer process alone, after everything inside has
/// ended.
///
/// The calling process must have one thread. The supervisor is killed when the process that started this one ends, and
/// [`reaper::GRACE`] after standard input was closed if it has not ended by then.
pub fn enter(scratch_bytes: u64, supervisor: impl FnOnce(&Sandbox) -> u8) -> Result<u8, Failure> {
    require_one_thread()?;
    let starter = reaper::starter();
    let user = user::separate()?;
    let (mut outer, mut inner) = UnixStream::pair().map_err(|e| unavailable("a socket pair", &e))?;
    // SAFETY: this process has one thread, so the child is a whole copy of it.
    match unsafe { libc::fork() } {
        -1 => Err(unavailable("the first process of the namespace", &io::Error::last_os_error())),
        0 => {
            drop((outer, starter));
            run_supervisor(&mut inner, user, scratch_bytes, supervisor)
        }
        first => {
            drop(inner);
            tracing::debug!(supervisor = first, uid = user.uid, "sandbox created");
            // if the supervisor has died meanwhile, its status shows it
            let _ = outer.write_all(&[GO]);
            let failure = reported_failure(&mut outer);
            let status = reaper::reap(first, starter).map_err(|e| unavailable("waiting for the supervisor", &e))?;
            tracing::debug!(supervisor = first, status, "sandbox ended");
            match failure {
                Some(failure) => Err(failure),
                None => Ok(status),
            }
        }
    }
}

const GO: u8 = b'g';
/// The exit status of a Rust process after a panic.
const PANICKED: u8 = 101;

/// In pid 1: sets the sandbox up, reports to the outer process, and runs the supervisor.
fn run_supervisor(
    outer: &mut UnixStream,
    user: User,
    scratch_bytes: u64,
    supervisor: impl FnOnce(&Sandbox) -> u8,
) -> ! {
    let status = match set_up(outer, user, scratch_bytes) {
        Ok(sandbox) => {
            let _ = outer.shutdown(std::net::Shutdown::Both);
            // unwinding must not leave this frame: above it is the outer process's code
            let run = std::panic::AssertUnwindSafe(|| supervisor(&sandbox));
            std::panic::catch_unwind(run).unwrap_or(PANICKED)
        }
        Err(failure) => {
            let parts = (failure.what, failure.why, failure.next);
            let _ = serde_json::to_writer(outer, &parts);
            1
        }
    };
    std::process::exit(status.into())
}

fn set_up(outer: &mut UnixStream, user: User, scratch_bytes: u64) -> Result<Sandbox, Failure> {
    // SAFETY: plain numbers; affects this process only.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::setsid();
    }
    // if the outer process died before the death signal was set, this read fails
    outer.read_exact(&mut [0]).map_err(|e| unavailable("the outer process's signal to start", &e))?;
    let scratch = view::arrange(scratch_bytes)?;
    Ok(Sandbox { user, scratch })
}

/// Why pid 1 could not set the sandbox up, if it could not.
fn reported_failure(outer: &mut UnixStream) -> Option<Failure> {
    let mut bytes = Vec::new();
    outer.read_to_end(&mut bytes).ok()?;
    let (what, why, next): (String, Option<String>, Option<String>) = serde_json::from_slice(&bytes).ok()?;
    Some(Failure { why, next, ..Failure::environment(what) })
}

fn require_one_thread() -> Result<(), Failure> {
    let threads =
        std::fs::read_dir("/proc/self/task").map_err(|e| unavailable("the list of its own threads", &e))?.count();
    match threads {
        1 => Ok(()),
        n => Err(Failure::new(model::Family::Bug, format!("the sandbox was entered with {n} threads"))),
    }
}

/// A requirement of the sandbox that the environment does not meet.
fn unavailable(what: &str, error: &io::Error) -> Failure {
    Failure::environment(format!("the program cannot be contained: {what}: {error}"))
        .why("a disturbed program may do anything, so it runs in its own namespaces or not at all")
        .next(format!("run as root{}; requires Linux 5.12 or later", user::advice()))
}

/// Turns a return value of the C library into a result.
fn checked(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
