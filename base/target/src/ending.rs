//! Finding every process that belongs to an `up`, and ending them all.
//!
//! A process belongs if it is a service's first process or in that process's group, if it descends from one that
//! belongs, or if its environment carries the mark of this `up` (`FAULTLOOM_UP`), which survives a change of session
//! and the death of its parents. Not found: a process that has left the group, has lost its parents *and* has
//! started with an emptied environment.
//!
//! A group id is trusted only while the process that gave it its number is in the process table (a zombie counts):
//! later it may be somebody else's.

use crate::process_table::{self, ProcessId, Stat};
use rustix::process::Signal;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// The variable every service is started with; its value is the mark of the `up`.
pub(crate) const MARK_VARIABLE: &str = "FAULTLOOM_UP";
/// How long services get between SIGTERM and SIGKILL.
pub(crate) const GRACE: Duration = Duration::from_secs(3);
const AFTER_KILL: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Clone, Debug)]
pub(crate) struct Belongings {
    mark: String,
    /// Only this service's processes, by `FAULTLOOM_SERVICE`; all of the `up` if `None`.
    service: Option<String>,
    /// Nothing that started before can be ours.
    since_ticks: u64,
    leaders: Vec<ProcessId>,
    /// Seen to be ours once; remembered when the evidence has gone.
    known: HashSet<ProcessId>,
}

impl Belongings {
    pub fn new(mark: &str, since: ProcessId) -> Belongings {
        Belongings {
            mark: mark.to_owned(),
            service: None,
            since_ticks: since.start_ticks,
            leaders: Vec::new(),
            known: HashSet::new(),
        }
    }

    pub fn of_service(mut self, name: &str) -> Belongings {
        self.service = Some(name.to_owned());
        self
    }

    /// A service's first process, which leads a group of its own.
    pub fn add_leader(&mut self, leader: ProcessId) {
        self.leaders.push(leader);
    }

    pub fn forget_leader(&mut self, leader: ProcessId) {
        self.leaders.retain(|known| *known != leader);
    }

    /// Those of ours that run now.
    pub fn alive(&mut self) -> Vec<ProcessId> {
        let own_pid = std::process::id() as i32;
        let table: Vec<Stat> = process_table::all().into_iter().filter(|stat| stat.id.pid != own_pid).collect();
        let groups: HashSet<i32> =
            table.iter().map(|stat| stat.id).filter(|id| self.leaders.contains(id)).map(|id| id.pid).collect();
        let mut ours: HashSet<i32> = HashSet::new();
        for stat in &table {
            let belongs = self.known.contains(&stat.id)
                || groups.contains(&stat.group)
                || (stat.alive && stat.id.start_ticks >= self.since_ticks && self.is_marked(stat.id.pid));
            if belongs {
                ours.insert(stat.id.pid);
            }
        }
        loop {
            let more: Vec<i32> = table
                .iter()
                .filter(|stat| ours.contains(&stat.parent) && !ours.contains(&stat.id.pid))
                .map(|stat| stat.id.pid)
                .collect();
            if more.is_empty() {
                break;
            }
            ours.extend(more);
        }
        let alive: Vec<ProcessId> =
            table.iter().filter(|stat| stat.alive && ours.contains(&stat.id.pid)).map(|stat| stat.id).collect();
        self.known.extend(alive.iter().copied());
        alive
    }

    fn is_marked(&self, pid: i32) -> bool {
        process_table::variable(pid, MARK_VARIABLE).as_deref() == Some(self.mark.as_str())
            && self
                .service
                .as_ref()
                .is_none_or(|name| process_table::variable(pid, "FAULTLOOM_SERVICE").as_deref() == Some(name.as_str()))
    }

    /// SIGTERM to all, after `grace` SIGKILL, until none is left; returns those that would not go (a process stuck
    /// in the kernel). Blocks for at most `grace` and 3 s more.
    pub fn end(&mut self, grace: Duration) -> Vec<ProcessId> {
        let begin = Instant::now();
        let mut asked = HashSet::new();
        let mut empty_looks = 0;
        loop {
            let alive = self.alive();
            // A process forked while the table was read may have been missed once, not twice.
            empty_looks = if alive.is_empty() { empty_looks + 1 } else { 0 };
            if empty_looks == 2 {
                return Vec::new();
            }
            let past = begin.elapsed();
            if past >= grace + AFTER_KILL {
                return alive;
            }
            for process in alive {
                if past >= grace {
                    process.signal(Signal::KILL);
                } else if asked.insert(process) {
                    process.signal(Signal::TERM);
                    process.signal(Signal::CONT); // one that is stopped would not see the other
                }
            }
            if empty_looks == 0 {
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }
}
