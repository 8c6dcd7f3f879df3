//! Services as processes: starting them, waiting until they are healthy, restarting and stopping them.

pub(crate) mod event;
pub(crate) mod instance;
pub(crate) mod ports;
pub(crate) mod reaper_monitor;
pub(crate) mod service_log;
pub(crate) mod service_process;
pub(crate) mod start_progress;
pub(crate) mod supervisor;
