//! The result of every collector: connection ends and listeners with their owners, before services are assigned.

use flows::{Attribution, Counts, Link, ListenAddress, Losses, ProcessId, Protocol, Side, Source};
use model::Failure;
use std::sync::Arc;

/// Observes the sockets of this host.
pub trait Collector: Send {
    /// Recorded on every flow from this collector.
    fn source(&self) -> Source;

    /// Returns the activity since the last call; the first call returns the existing sockets. Counts are differences,
    /// except `open`, which is the current number. Idle open connections are reported at least once per minute. Bytes
    /// may be reported some calls later. Blocks while it reads from the kernel.
    fn collect(&mut self) -> Result<CollectedSockets, Failure>;

    /// Announces that the next call of [`Collector::collect`] is the last one, so nothing may wait for a later one.
    fn prepare_last(&mut self) {}
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectedSockets {
    pub flows: Vec<SocketObservation>,
    /// All current listeners.
    pub listeners: Vec<ObservedListener>,
    pub losses: Losses,
}

/// One end of connections with equal side, namespace, owner process, link and attribution. A result may contain such a
/// group several times; the counts then add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketObservation {
    pub side: Side,
    /// Inode number of the network namespace.
    pub netns: u64,
    /// None: unknown (`attribution` is then [`Attribution::None`]).
    pub owner: Option<Arc<Owner>>,
    /// Several processes listen at the address; the owner is one of them, and which of them accepted is unknown.
    pub any_worker: bool,
    pub link: Link,
    /// Port of the active end of one of the connections, if known; used to look up address translation.
    pub example_port: Option<u16>,
    pub attribution: Attribution,
    pub counts: Counts,
}

/// The process that holds a socket, with the data that the collector captured. The identity is `process` alone: a later
/// result may contain more data about the same process. Data from `/proc` is added later if the process is still alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Pid 0: the process is unknown, only its cgroup is known.
    pub process: ProcessId,
    /// The kernel's short name: at most 15 bytes.
    pub comm: String,
    /// Inode number of its cgroup (version 2).
    pub cgroup: Option<u64>,
    /// File name of the executable without its directory. Kept because the process may end before `/proc` is read.
    pub executable: Option<String>,
    /// The start of its arguments, each terminated by NUL, for the same reason. May contain secrets: never shown or
    /// stored unchanged.
    pub arguments: Option<Vec<u8>>,
}

/// A socket that accepts connections, or that is bound without a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedListener {
    pub netns: u64,
    pub protocol: Protocol,
    pub at: ListenAddress,
    pub owner: Option<Arc<Owner>>,
}
