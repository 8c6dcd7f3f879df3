//! Processes: instances of a service.

use crate::ServiceKey;
use serde::{Deserialize, Serialize};

/// A process, never confused with a later one of the same pid. The boot is that of the host it was seen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Instance {
    pub pid: u32,
    /// Clock ticks (1/100 s) from boot to its start, as in field 22 of `/proc/PID/stat`.
    pub start_ticks: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Process {
    pub instance: Instance,
    pub service: ServiceKey,
    pub netns: u64,
    /// The kernel's short name: at most 15 bytes, and workers rename themselves.
    pub comm: String,
}
