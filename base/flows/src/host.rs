//! Hosts and their addresses.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Stays the same across reboots: the machine id, or the host name if there is none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostId(pub String);

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Host {
    pub id: HostId,
    pub name: String,
    /// The kernel's boot id, which changes with each boot.
    pub boot: String,
    pub addresses: Vec<HostAddress>,
}

/// An address in a network namespace of the host. Loopback addresses are not listed, because every namespace has them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostAddress {
    /// Inode number of the network namespace: unique on the host while it exists.
    pub netns: u64,
    pub ip: IpAddr,
}
