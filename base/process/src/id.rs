//! Identity of a process across pid reuse.

use crate::proc_dir::ProcDir;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Identifies a process within one boot: a reused pid has another start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: u32,
    /// Clock ticks (1/100 s) from boot to the start of the process: field 22 of `/proc/PID/stat`.
    pub start_ticks: u64,
}

impl ProcessId {
    /// The process that has this pid now.
    pub fn of(pid: u32) -> Option<ProcessId> {
        ProcDir::open(pid).ok()?.stat().ok().map(|stat| stat.id)
    }

    /// The current process. Without `/proc`, its start time is 0.
    pub fn current() -> ProcessId {
        let pid = std::process::id();
        ProcessId::of(pid).unwrap_or(ProcessId { pid, start_ticks: 0 })
    }

    /// Whether this process is running. A zombie is not.
    pub fn is_alive(&self) -> bool {
        let stat = ProcDir::open(self.pid).and_then(|process| process.stat());
        stat.is_ok_and(|stat| stat.id == *self && !stat.is_zombie)
    }

    /// Sends a signal to exactly this process. Does nothing if it has ended. Requires Linux 5.3.
    pub fn signal(&self, signal: Signal) {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return };
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        // the handle refers to the process that has the pid now; check that it is this one
        if ProcessId::of(self.pid) == Some(*self) {
            let _ = pidfd_send_signal(handle, signal);
        }
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pid.fmt(f)
    }
}

/// Changes with each boot: start times are comparable only within one boot. None if `/proc` is not readable.
pub fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Clock ticks since boot, comparable to the start times of processes.
pub fn ticks_since_boot() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec.unsigned_abs() * 100 + now.tv_nsec.unsigned_abs() / 10_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_another_start_time_is_another_process() {
        let current = ProcessId::current();
        assert!(current.is_alive());
        let reused = ProcessId { start_ticks: current.start_ticks + 1, ..current };
        assert!(!reused.is_alive());
        reused.signal(Signal::KILL); // would end this test
    }

    #[test]
    fn a_boot_has_an_id_and_starts_precede_now() {
        assert_eq!(boot_id().unwrap().len(), 36);
        assert!(ProcessId::current().start_ticks <= ticks_since_boot());
    }
}
