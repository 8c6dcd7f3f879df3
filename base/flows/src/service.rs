//! Services: what processes are shown as. A service survives the restart of its processes.

use crate::HostId;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// What tells one service from another, from the surest sign to the weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServiceKind {
    /// A container or a pod, by its cgroup.
    Container,
    /// A systemd unit, by its cgroup.
    Unit,
    /// An executable with its normalised arguments.
    Program,
    /// The host itself: flows nobody is known for.
    Host,
}

impl ServiceKind {
    pub fn as_str(self) -> &'static str {
        match self {
            ServiceKind::Container => "container",
            ServiceKind::Unit => "unit",
            ServiceKind::Program => "program",
            ServiceKind::Host => "host",
        }
    }
}

/// Identifies a service of one host: 16 bytes in hex, made of what makes it this service.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ServiceKey(pub String);

impl ServiceKey {
    /// `identity` is the container's id or pod's uid, the unit's name, or executable and normalised arguments.
    pub fn of(host: &HostId, kind: ServiceKind, identity: &str) -> ServiceKey {
        let digest = Sha256::new()
            .chain_update(host.0.as_bytes())
            .chain_update([0])
            .chain_update(kind.as_str())
            .chain_update([0])
            .chain_update(identity.as_bytes())
            .finalize();
        ServiceKey(digest[..16].iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Service {
    pub key: ServiceKey,
    pub kind: ServiceKind,
    /// What users read and type: the container's or unit's name, or the executable's with what tells it from others.
    /// Services of equal kind and name on several hosts are replicas of one.
    pub name: String,
    /// Path of a program's executable, if it could be read; its file name if the process had ended before.
    pub executable: Option<String>,
    /// Normalised arguments: what differs from instance to instance (ports, numbers, temporary names) replaced.
    /// Values that look like secrets are not kept.
    pub arguments: Option<String>,
    pub container: Option<String>,
    pub pod: Option<String>,
    pub unit: Option<String>,
    pub cgroup: Option<String>,
}
