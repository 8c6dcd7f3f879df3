//! A service of a running target: a process that the supervisor started, or an attached service.
//!
//! An attached service has no command in the target file, because something else starts it. It is checked, but never
//! started, ended or restarted.

use crate::supervise::service_log::ServiceLog;
use crate::supervise::service_process::{Condition, ServiceProcess};
use process::ProcessId;
use std::time::{Instant, SystemTime};

#[derive(Debug)]
pub(crate) enum ServiceInstance {
    Started(ServiceProcess),
    Attached { since: Instant, since_at: SystemTime, healthy: bool },
}

impl ServiceInstance {
    pub fn attached() -> ServiceInstance {
        ServiceInstance::Attached { since: Instant::now(), since_at: SystemTime::now(), healthy: false }
    }

    pub fn process(&self) -> Option<&ServiceProcess> {
        match self {
            ServiceInstance::Started(process) => Some(process),
            ServiceInstance::Attached { .. } => None,
        }
    }

    fn process_mut(&mut self) -> Option<&mut ServiceProcess> {
        match self {
            ServiceInstance::Started(process) => Some(process),
            ServiceInstance::Attached { .. } => None,
        }
    }

    pub fn log(&self) -> Option<&ServiceLog> {
        self.process().map(|process| &process.log)
    }

    pub fn id(&self) -> Option<ProcessId> {
        self.process().map(|process| process.id)
    }

    /// When it was started, or attached.
    pub fn since(&self) -> (Instant, SystemTime) {
        match self {
            ServiceInstance::Started(process) => (process.started, process.started_at),
            ServiceInstance::Attached { since, since_at, .. } => (*since, *since_at),
        }
    }

    pub fn poll(&mut self) -> Condition {
        match self {
            ServiceInstance::Started(process) => process.poll(),
            ServiceInstance::Attached { healthy: true, .. } => Condition::Healthy,
            ServiceInstance::Attached { healthy: false, .. } => Condition::Starting,
        }
    }

    /// As of the latest check.
    pub fn is_healthy(&self) -> bool {
        match self {
            ServiceInstance::Started(process) => process.condition == Condition::Healthy,
            ServiceInstance::Attached { healthy, .. } => *healthy,
        }
    }

    pub fn set_healthy(&mut self) {
        match self {
            ServiceInstance::Started(process) => process.set_healthy(),
            ServiceInstance::Attached { healthy, .. } => *healthy = true,
        }
    }

    /// Whether its process was ended and not started again.
    pub fn is_ended(&self) -> bool {
        self.process().is_some_and(ServiceProcess::is_ended)
    }

    /// How it exited by itself; returned once per crash.
    pub fn take_crash(&mut self) -> Option<(crate::ExitStatus, &ServiceLog)> {
        let process = self.process_mut()?;
        match (process.poll(), process.has_unreported_exit) {
            (Condition::Exited(status), true) => {
                process.has_unreported_exit = false;
                Some((status, &process.log))
            }
            _ => None,
        }
    }

    pub fn mark_stopping(&mut self) -> Option<ProcessId> {
        self.process_mut()?.mark_stopping()
    }

    pub fn reap(&mut self) {
        if let Some(process) = self.process_mut() {
            process.reap();
        }
    }
}
