//! Processes from `/proc`, identified so that a reused pid is never mistaken for the original process.
//!
//! A [`ProcessId`] is a pid and a start time. A signal is sent through a pidfd whose start time is verified after
//! opening, so it reaches that process or none. Linux 5.3 or newer.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// `start_ticks`: clock ticks between boot and the start of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: i32,
    pub start_ticks: u64,
}

/// The fields of `/proc/<pid>/stat` that are used here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat {
    pub id: ProcessId,
    pub parent: i32,
    pub group: i32,
    /// Still runs; false for a zombie, whose exit status its parent has not collected yet.
    pub alive: bool,
}

impl ProcessId {
    /// The process that currently has this pid.
    pub fn of(pid: i32) -> Option<ProcessId> {
        stat(pid).map(|stat| stat.id)
    }

    pub fn current() -> ProcessId {
        let pid = std::process::id() as i32;
        ProcessId::of(pid).unwrap_or(ProcessId { pid, start_ticks: 0 })
    }

    /// Whether exactly this process still runs. A zombie does not.
    pub fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.id == *self && stat.alive)
    }

    /// Sends a signal to exactly this process; does nothing if it has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return;
        };
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
            return;
        };
        // The handle refers to the process that has the pid now; it is signaled only if that is the same one.
        if ProcessId::of(self.pid) == Some(*self) {
            let _ = pidfd_send_signal(handle, signal);
        }
    }
}

impl std::fmt::Display for ProcessId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.pid)
    }
}

pub(crate) fn stat(pid: i32) -> Option<Stat> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(pid, &String::from_utf8_lossy(&text))
}

/// `pid (name) state parent group … threads(20) … start(22) …`; the name may contain spaces and parentheses.
fn parse_stat(pid: i32, text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<i64>().ok();
    let threads = number(20)?;
    // If its first thread has ended, a process appears as a zombie although other threads run.
    let alive = !matches!(*fields.first()?, "Z" | "X" | "x") || threads > 1;
    let id = ProcessId { pid, start_ticks: number(22)? as u64 };
    Some(Stat { id, parent: number(4)? as i32, group: number(5)? as i32, alive })
}

/// All processes, in no particular order. Short-lived ones may be missing.
pub(crate) fn all() -> Vec<Stat> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries.flatten().filter_map(|entry| stat(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// The value of a variable in the initial environment of the process; `None` also without permission to read it.
pub(crate) fn variable(pid: i32, name: &str) -> Option<String> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    environment.split(|byte| *byte == 0).find_map(|entry| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    })
}

/// The kernel's name of the program, at most 15 bytes.
pub(crate) fn name(pid: i32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|name| name.trim().to_owned())
}

/// Differs from boot to boot: start times are comparable only within one.
pub(crate) fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let line = "7 (a) b (c) S 3 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4711 9 9";
        let stat = parse_stat(7, line).unwrap();
        assert_eq!((stat.parent, stat.group, stat.id.start_ticks, stat.alive), (3, 7, 4711, true));
        assert!(!parse_stat(7, &line.replace(" S ", " Z ")).unwrap().alive);
    }

    #[test]
    fn a_process_with_another_start_time_is_not_the_same() {
        let own = ProcessId::current();
        assert!(own.is_alive());
        let recycled = ProcessId { start_ticks: own.start_ticks + 1, ..own };
        assert!(!recycled.is_alive());
        recycled.signal(Signal::KILL); // would end this test
    }
}
