//! Where a running target has one of its services: a process of ours, or one that something else has started.
//!
//! An attached service has no command in the target file. It is looked at, never started, ended or restarted.

use crate::process_table::ProcessId;
use crate::service_log::ServiceLog;
use crate::service_process::{Condition, ServiceProcess};
use std::time::{Instant, SystemTime};

#[derive(Debug)]
pub(crate) enum Place {
    Started(ServiceProcess),
    Attached { since: Instant, since_at: SystemTime, healthy: bool },
}

impl Place {
    pub fn attached() -> Place {
        Place::Attached { since: Instant::now(), since_at: SystemTime::now(), healthy: false }
    }

    pub fn process(&self) -> Option<&ServiceProcess> {
        match self {
            Place::Started(process) => Some(process),
            Place::Attached { .. } => None,
        }
    }

    fn process_mut(&mut self) -> Option<&mut ServiceProcess> {
        match self {
            Place::Started(process) => Some(process),
            Place::Attached { .. } => None,
        }
    }

    pub fn log(&self) -> Option<&ServiceLog> {
        self.process().map(|process| &process.log)
    }

    pub fn id(&self) -> Option<ProcessId> {
        self.process().map(|process| process.id)
    }

    /// Since when it runs, or has been looked at.
    pub fn since(&self) -> (Instant, SystemTime) {
        match self {
            Place::Started(process) => (process.started, process.started_at),
            Place::Attached { since, since_at, .. } => (*since, *since_at),
        }
    }

    pub fn look(&mut self) -> Condition {
        match self {
            Place::Started(process) => process.look(),
            Place::Attached { healthy: true, .. } => Condition::Healthy,
            Place::Attached { healthy: false, .. } => Condition::Starting,
        }
    }

    /// As it was found last.
    pub fn is_healthy(&self) -> bool {
        match self {
            Place::Started(process) => process.condition == Condition::Healthy,
            Place::Attached { healthy, .. } => *healthy,
        }
    }

    pub fn healthy(&mut self) {
        match self {
            Place::Started(process) => process.healthy(),
            Place::Attached { healthy, .. } => *healthy = true,
        }
    }

    /// Whether its process was ended and no other one started.
    pub fn is_ended(&self) -> bool {
        self.process().is_some_and(ServiceProcess::is_ended)
    }

    /// How it ended by itself, told once.
    pub fn crashed(&mut self) -> Option<(crate::ExitStatus, &ServiceLog)> {
        let process = self.process_mut()?;
        match (process.look(), process.watched) {
            (Condition::Exited(status), true) => {
                process.watched = false;
                Some((status, &process.log))
            }
            _ => None,
        }
    }

    pub fn stopping(&mut self) -> Option<ProcessId> {
        self.process_mut()?.stopping()
    }

    pub fn reap(&mut self) {
        if let Some(process) = self.process_mut() {
            process.reap();
        }
    }
}
