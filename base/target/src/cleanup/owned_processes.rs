//! Finds and ends all processes of an `up`.
//!
//! A process belongs to an `up` if it is a service's first process or in that process's group, if it descends from
//! one that belongs, if its environment carries the mark of this `up` (`FAULTLOOM_UP`), which survives a change of
//! session and the death of its parents, or if its working directory is a temporary folder of this `up`. Not found: a
//! process that has left the group, has lost its parents *and* was started with an empty environment.
//!
//! A group id is trusted only while the group's leader is in the process table (a zombie counts): later the kernel may
//! reuse the number.

use process::{ProcessId, Stat, processes};
use rustix::process::Signal;
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Set for every service; its value is the mark of the `up`.
pub(crate) const MARK_VARIABLE: &str = "FAULTLOOM_UP";
/// Time between SIGTERM and SIGKILL.
pub(crate) const GRACE: Duration = Duration::from_secs(3);
/// On a busy machine, the kernel may need seconds to free the memory of a killed process.
const AFTER_KILL: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Clone, Debug)]
pub(crate) struct OwnedProcesses {
    mark: String,
    /// Only this service's processes, by `FAULTLOOM_SERVICE`; all of the `up` if `None`.
    service: Option<String>,
    /// No process that started earlier belongs to the `up`.
    since_ticks: u64,
    leaders: Vec<ProcessId>,
    /// Temporary folders that only owned processes work in.
    folders: Vec<PathBuf>,
    /// Processes found so far; kept because the evidence may disappear.
    found: HashSet<ProcessId>,
}

impl OwnedProcesses {
    pub fn new(mark: &str, since: ProcessId) -> OwnedProcesses {
        OwnedProcesses {
            mark: mark.to_owned(),
            service: None,
            since_ticks: since.start_ticks,
            leaders: Vec::new(),
            folders: Vec::new(),
            found: HashSet::new(),
        }
    }

    pub fn of_service(mut self, name: &str) -> OwnedProcesses {
        self.service = Some(name.to_owned());
        self
    }

    /// A service's first process, which leads a group of its own.
    pub fn add_leader(&mut self, leader: ProcessId) {
        self.leaders.push(leader);
    }

    pub fn add_folder(&mut self, folder: PathBuf) {
        self.folders.push(folder);
    }

    pub fn remove_leader(&mut self, leader: ProcessId) {
        self.leaders.retain(|other| *other != leader);
    }

    /// The owned processes that run now.
    pub fn alive(&mut self) -> Vec<ProcessId> {
        let own_pid = std::process::id();
        let table: Vec<Stat> = processes().filter(|stat| stat.id.pid != own_pid).collect();
        let groups: HashSet<u32> =
            table.iter().map(|stat| stat.id).filter(|id| self.leaders.contains(id)).map(|id| id.pid).collect();
        let mut owned: HashSet<u32> = HashSet::new();
        for stat in &table {
            let belongs = self.found.contains(&stat.id)
                || groups.contains(&stat.group)
                || (!stat.is_zombie && stat.id.start_ticks >= self.since_ticks && self.has_evidence(stat.id.pid));
            if belongs {
                owned.insert(stat.id.pid);
            }
        }
        loop {
            let more: Vec<u32> = table
                .iter()
                .filter(|stat| owned.contains(&stat.parent) && !owned.contains(&stat.id.pid))
                .map(|stat| stat.id.pid)
                .collect();
            if more.is_empty() {
                break;
            }
            owned.extend(more);
        }
        let alive: Vec<ProcessId> =
            table.iter().filter(|stat| !stat.is_zombie && owned.contains(&stat.id.pid)).map(|stat| stat.id).collect();
        self.found.extend(alive.iter().copied());
        alive
    }

    fn has_evidence(&self, pid: u32) -> bool {
        self.is_marked(pid) || (!self.folders.is_empty() && self.works_in_folder(pid))
    }

    fn works_in_folder(&self, pid: u32) -> bool {
        let directory = std::fs::read_link(format!("/proc/{pid}/cwd"));
        directory.is_ok_and(|directory| self.folders.iter().any(|folder| directory.starts_with(folder)))
    }

    fn is_marked(&self, pid: u32) -> bool {
        variable(pid, MARK_VARIABLE).as_deref() == Some(self.mark.as_str())
            && self
                .service
                .as_ref()
                .is_none_or(|name| variable(pid, "FAULTLOOM_SERVICE").as_deref() == Some(name.as_str()))
    }

    /// Sends SIGTERM to all, after `grace` SIGKILL, until none is left. Returns those that did not end (stuck in the
    /// kernel). Blocks for at most `grace` and 15 s.
    pub fn end(&mut self, grace: Duration) -> Vec<ProcessId> {
        let begin = Instant::now();
        let mut terminated = HashSet::new();
        let mut empty_polls = 0;
        loop {
            let alive = self.alive();
            // A process forked while the table was read may be missed once, but not twice.
            empty_polls = if alive.is_empty() { empty_polls + 1 } else { 0 };
            if empty_polls == 2 {
                return Vec::new();
            }
            let elapsed = begin.elapsed();
            if elapsed >= grace + AFTER_KILL {
                return alive;
            }
            for process in alive {
                if elapsed >= grace {
                    tracing::debug!(pid = process.pid, "SIGKILL");
                    process.signal(Signal::KILL);
                } else if terminated.insert(process) {
                    tracing::debug!(pid = process.pid, "SIGTERM");
                    process.signal(Signal::TERM);
                    process.signal(Signal::CONT); // a stopped process does not handle SIGTERM
                }
            }
            if empty_polls == 0 {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }
}

/// The value of a variable in the initial environment of the process; `None` also without permission to read it.
pub(crate) fn variable(pid: u32, name: &str) -> Option<String> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    environment.split(|byte| *byte == 0).find_map(|entry| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    })
}
