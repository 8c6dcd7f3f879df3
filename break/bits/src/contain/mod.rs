//! Where a corrupted program runs: a place from which it can reach nothing of the host.
//!
//! A wrong bit can turn any call of a program into `kill(-1)` or `unlink`. So the engine is the first process of its own
//! namespaces, and every program it starts is an unprivileged user in them, below a filter of system calls:
//!
//! ```text
//! tool ── keeper ──── engine (pid 1: sees only what it starts; traces it)
//!         (waits)     └── program (own user, no capabilities, limits, filter)
//! ```
//!
//! | The program | because of |
//! |---|---|
//! | sees and signals no process of the host | pid namespace; `kill` only after the engine has allowed it |
//! | writes no file but those below the scratch directory | every mount read-only; that one a bounded tmpfs |
//! | opens no device but null, zero, full, random | `nodev` everywhere, a `/dev` of its own |
//! | reaches no network and no socket of a daemon | an empty network namespace; no `AF_UNIX` sockets |
//! | gains no privilege | no capabilities, `no_new_privs`, `nosuid` everywhere |
//! | takes no more than its share | limits; first choice of the kernel when memory ends |
//! | outlives nobody | the end of pid 1 ends all in the namespace; the keeper ends pid 1 when the tool is gone |
//!
//! What it may still do: read what everybody may read, and use the processor within its limits. A named pipe of the host that
//! everybody may write to stays writable: a read-only mount does not cover what is not stored on it.
//!
//! Needs Linux 5.12 (`mount_setattr`), and root or unprivileged user namespaces. Without, all is refused.
#![allow(unsafe_code)] // namespaces, mounts and processes are made by system calls; each call says what it relies on

mod calls;
mod child;
mod filter;
mod keeper;
mod launch;
mod start;
mod user;
mod view;

pub use calls::{Traced, refused, signals_itself};
pub use filter::FORK_MARK;
pub use keeper::{outer_pid, outer_thread};
pub use launch::{Launched, Place, launch};
pub use user::User;

use crate::tracee::Pid;
use model::Failure;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Proof that this process is contained, and what it can give to programs.
#[derive(Debug)]
pub struct Contained {
    /// What programs run as.
    pub user: User,
    /// An empty directory at a path that is the same in every run, for the directories of programs. It ends with the
    /// namespace. Programs may pass through it, and neither list nor change it (but see [`User::own`]).
    pub scratch: PathBuf,
}

impl Contained {
    /// A new directory in scratch that programs may write to.
    pub fn directory(&self, name: &str) -> io::Result<PathBuf> {
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

/// The command that starts an engine: `program` with `arguments`, which must come to [`enter`] before it has a second thread.
/// Requests go to its standard input, which must stay open as long as the engine is wanted; Ctrl-C does not reach it.
pub fn engine_command(program: &Path, arguments: &[&OsStr]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    command
}

/// Runs `engine` as the first process of namespaces of its own, with at most `scratch_bytes` of files, and returns the status
/// it exited with (128 and the signal if it was killed). Returns in the outer process alone, after all inside has ended.
///
/// The calling process must have one thread. The engine is killed when the process that started this one is gone, and
/// [`keeper::GRACE`] after standard input was closed if it has not ended by itself.
pub fn enter(scratch_bytes: u64, engine: impl FnOnce(&Contained) -> u8) -> Result<u8, Failure> {
    one_thread()?;
    let starter = keeper::starter();
    let user = user::separate()?;
    let (mut outer, mut inner) = UnixStream::pair().map_err(|e| cannot("a socket pair", &e))?;
    // SAFETY: this process has one thread, so the child is a whole copy of it.
    match unsafe { libc::fork() } {
        -1 => Err(cannot("the first process of the namespace", &io::Error::last_os_error())),
        0 => {
            drop((outer, starter));
            begin(&mut inner, user, scratch_bytes, engine)
        }
        first => {
            drop(inner);
            // an engine that has died meanwhile is told by its status
            let _ = outer.write_all(&[GO]);
            let refusal = told(&mut outer);
            let status = keeper::keep(first, starter).map_err(|e| cannot("waiting for the engine", &e))?;
            match refusal {
                Some(failure) => Err(failure),
                None => Ok(status),
            }
        }
    }
}

const GO: u8 = b'g';
/// What a Rust process exits with after a panic.
const PANICKED: u8 = 101;

/// In pid 1: makes the place, tells the outer process, and becomes the engine.
fn begin(outer: &mut UnixStream, user: User, scratch_bytes: u64, engine: impl FnOnce(&Contained) -> u8) -> ! {
    let status = match settle(outer, user, scratch_bytes) {
        Ok(contained) => {
            let _ = outer.shutdown(std::net::Shutdown::Both);
            // unwinding must not leave this frame: above it is the outer process's code
            let run = std::panic::AssertUnwindSafe(|| engine(&contained));
            std::panic::catch_unwind(run).unwrap_or(PANICKED)
        }
        Err(failure) => {
            let words = (failure.what, failure.why, failure.next);
            let _ = serde_json::to_writer(outer, &words);
            1
        }
    };
    std::process::exit(status.into())
}

fn settle(outer: &mut UnixStream, user: User, scratch_bytes: u64) -> Result<Contained, Failure> {
    // SAFETY: plain numbers; affects this process only.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::setsid();
    }
    // the outer process may have died before its death could be noticed: then nothing comes
    outer.read_exact(&mut [0]).map_err(|e| cannot("a word of the outer process", &e))?;
    let scratch = view::arrange(scratch_bytes)?;
    Ok(Contained { user, scratch })
}

/// What pid 1 could not do, if it told so.
fn told(outer: &mut UnixStream) -> Option<Failure> {
    let mut words = Vec::new();
    outer.read_to_end(&mut words).ok()?;
    let (what, why, next): (String, Option<String>, Option<String>) = serde_json::from_slice(&words).ok()?;
    Some(Failure { why, next, ..Failure::environment(what) })
}

fn one_thread() -> Result<(), Failure> {
    let threads = std::fs::read_dir("/proc/self/task").map_err(|e| cannot("the list of its own threads", &e))?.count();
    match threads {
        1 => Ok(()),
        n => Err(Failure::new(model::Family::Bug, format!("the flip engine was entered with {n} threads"))),
    }
}

/// What containment needs and does not get.
fn cannot(what: &str, error: &io::Error) -> Failure {
    Failure::environment(format!("the program cannot be contained: {what}: {error}"))
        .why("a disturbed program may do anything: it runs in namespaces of its own or not at all")
        .next(format!("run as root{}; needs Linux 5.12 or later", user::advice()))
}

/// What a system call of the C library returned.
fn checked(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
