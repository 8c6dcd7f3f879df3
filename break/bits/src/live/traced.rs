//! A thread that is traced briefly and always detached, whatever it is doing.

use super::lost;
use model::Failure;
use sandbox::tracee::{Pid, Stop, Tracee};
use std::io;

/// A thread that the calling thread traces. Detached when dropped.
pub(super) struct Traced {
    pub tracee: Tracee,
}

impl Traced {
    /// Attaches to a thread and stops it. Without `PTRACE_O_EXITKILL`, so that it survives this process.
    pub fn attach(thread: Pid) -> Result<Traced, Failure> {
        let failed = |e: io::Error| {
            if !alive(thread) {
                return lost(thread, &io::Error::other("it has ended"));
            }
            Failure::environment(format!("thread {thread} cannot be traced: {e}"))
                .why("only root, the user's own debugger, or an ancestor may trace a process")
                .next(sandbox::attach_advice())
        };
        sandbox::tracee::seize(thread).map_err(failed)?;
        let tracee = Tracee::new(thread).map_err(failed)?;
        tracee.interrupt().map_err(failed)?;
        tracee.wait().map_err(failed)?;
        Ok(Traced { tracee })
    }

    pub fn detach(self, signal: i32) {
        // an error means that it has ended
        let _ = self.tracee.detach_with(signal);
        std::mem::forget(self);
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        if self.tracee.detach().is_ok() {
            return;
        }
        // it runs or waits in a system call: only a stopped thread can be detached
        let _ = self.tracee.interrupt();
        while let Ok(stop) = self.tracee.wait() {
            let signal = match stop {
                Stop::Signal(signal) if signal != libc::SIGTRAP => signal,
                _ => 0,
            };
            // a pending trap of a step would kill it once detached: receive it first
            let detached = match trap_is_pending(self.tracee.pid) {
                true => self.tracee.resume(signal).is_err(),
                false => self.tracee.detach_with(signal).is_ok(),
            };
            if stop.ended() || detached {
                return;
            }
        }
    }
}

fn trap_is_pending(thread: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let pending = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigPnd:")?.trim(), 16).ok());
    pending.is_some_and(|signals| signals >> (libc::SIGTRAP - 1) & 1 == 1)
}

/// Whether it is running. A thread that is ending cannot be traced either.
fn alive(thread: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("State:"))
        .is_some_and(|state| !state.trim().starts_with(['Z', 'X']))
}
