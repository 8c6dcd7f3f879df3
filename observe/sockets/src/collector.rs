//! What every way of seeing sockets delivers: ends of connections with their owners, not yet given a service.

use flows::{Attribution, Counts, Instance, Link, Losses, Passive, Protocol, Side, Source};
use model::Failure;
use std::sync::Arc;

/// A way of seeing the sockets of this host.
pub trait Collector: Send {
    /// Stands on every flow that comes of it.
    fn source(&self) -> Source;

    /// What happened since the last call; the first call tells what was there. Counts are differences, except `open`,
    /// which holds for now. An end whose connections stay open and do nothing is told once per minute at least; bytes
    /// may come some calls later.
    fn collect(&mut self) -> Result<Sightings, Failure>;
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sightings {
    pub flows: Vec<Sighting>,
    /// Everything that listens now.
    pub listeners: Vec<Listening>,
    pub losses: Losses,
}

/// One end of the connections of one kind. A key (side, netns, owner, link, attribution) may come several times in one
/// call: counts then add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub side: Side,
    /// Inode number of the network namespace.
    pub netns: u64,
    /// None: nobody is known (`attribution` is then [`Attribution::None`]).
    pub owner: Option<Arc<Owner>>,
    pub link: Link,
    /// Port of the active end of one of the connections, if known: address translation is looked up by it.
    pub example_port: Option<u16>,
    pub attribution: Attribution,
    pub counts: Counts,
}

/// Who holds a socket, as far as the collector knows. What only `/proc` tells is added later, if the process still lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Pid 0: no process is known, only its cgroup.
    pub instance: Instance,
    /// The kernel's short name: at most 15 bytes.
    pub comm: String,
    /// Inode number of its cgroup (version 2).
    pub cgroup: Option<u64>,
    /// File name of the executable without its folder. Kept because the process may be gone before `/proc` is read.
    pub executable: Option<String>,
    /// The beginning of its arguments, each ended by NUL, for the same reason. May hold secrets: never shown or kept as it is.
    pub arguments: Option<Vec<u8>>,
}

/// A socket that accepts connections, or is bound without a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    pub netns: u64,
    pub protocol: Protocol,
    pub at: Passive,
    pub owner: Option<Arc<Owner>>,
}
