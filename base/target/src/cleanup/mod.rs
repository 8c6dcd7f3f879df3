//! Ending everything that an `up` started, also after the tool was killed.

pub(crate) mod owned_processes;
pub(crate) mod program_guard;
pub(crate) mod reaper;
