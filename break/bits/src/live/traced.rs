//! A thread that is traced for a moment, and let go wherever it stands then.

use super::lost;
use crate::tracee::{Pid, Stop, Tracee};
use model::Failure;
use std::io;

/// A thread that this one traces. Dropped, it is let go.
pub(super) struct Traced {
    pub tracee: Tracee,
}

impl Traced {
    /// Stopped. Without `PTRACE_O_EXITKILL`: should we end, it goes on.
    pub fn attach(thread: Pid) -> Result<Traced, Failure> {
        let failed = |e: io::Error| {
            if !alive(thread) {
                return lost(thread, &io::Error::other("it has ended"));
            }
            Failure::environment(format!("thread {thread} cannot be traced: {e}"))
                .why("the kernel lets only root, the user's own debugger, or an ancestor trace a process")
                .next(crate::inspect::may_attach_advice())
        };
        crate::tracee::seize(thread).map_err(failed)?;
        let tracee = Tracee::of(thread).map_err(failed)?;
        tracee.interrupt().map_err(failed)?;
        tracee.wait().map_err(failed)?;
        Ok(Traced { tracee })
    }

    pub fn let_go(self, signal: i32) {
        // an error says that it has ended meanwhile
        let _ = self.tracee.detach_with(signal);
        std::mem::forget(self);
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        if self.tracee.detach().is_ok() {
            return;
        }
        // it runs, or waits in a system call: only a stopped one can be let go
        let _ = self.tracee.interrupt();
        while let Ok(stop) = self.tracee.wait() {
            let signal = match stop {
                Stop::Signal(signal) if signal != libc::SIGTRAP => signal,
                _ => 0,
            };
            // a step's trap that comes only now would end it: it is taken before
            let goes = match trap_is_pending(self.tracee.pid) {
                true => self.tracee.resume(signal).is_err(),
                false => self.tracee.detach_with(signal).is_ok(),
            };
            if stop.ended() || goes {
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

/// Not ended, and not about to: the kernel lets nobody trace that.
fn alive(thread: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("State:"))
        .is_some_and(|state| !state.trim().starts_with(['Z', 'X']))
}
