//! Ending everything that an `up` or a campaign started, also after the tool was killed.

pub(crate) mod command_guard;
pub(crate) mod owned_processes;
pub(crate) mod reaper;
