//! Processes, the instances of a service.

use crate::ServiceKey;
use process::ProcessId;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Process {
    #[serde(rename = "instance")]
    pub id: ProcessId,
    pub service: ServiceKey,
    pub netns: u64,
    /// The kernel's short name: at most 15 bytes; a process can change it.
    pub comm: String,
}
