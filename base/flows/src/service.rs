//! Services: groups of processes that the map shows as one node. A service keeps its identity when its processes
//! restart.

use crate::HostId;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// How a service is identified, from most to least reliable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServiceKind {
    /// A container or a pod, by its cgroup.
    Container,
    /// A systemd unit, by its cgroup.
    Unit,
    /// An executable with its normalized arguments.
    Program,
    /// The host itself, for flows without a known owner.
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

/// Identifies a service of one host: 16 bytes in hex, a hash of the host and the service's identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ServiceKey(pub String);

impl ServiceKey {
    /// `identity` is the id of the container or pod, the name of the unit, or the executable and its normalized
    /// arguments.
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
    /// Name shown to users: that of the container or unit, or one derived from the executable. Services of equal kind
    /// and name on several hosts are replicas of one service.
    pub name: String,
    /// Path of a program's executable if it was readable; only its file name if the process had ended before.
    pub executable: Option<String>,
    /// Normalized arguments: instance-specific parts (ports, numbers, temporary names) are replaced, and values that
    /// may be secrets are removed.
    pub arguments: Option<String>,
    pub container: Option<String>,
    pub pod: Option<String>,
    pub unit: Option<String>,
    pub cgroup: Option<String>,
}
