//! Flows: connections with equal endpoints and owner, as observed at one end.

use crate::{Attribution, ProcessId, ServiceKey, Source};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    Tcp,
    Udp,
    Unix,
}

/// The end at which the connection was observed. The active side depends on the passive side (Transtracer §3.1, figure
/// 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// It connected.
    Active,
    /// It listens.
    Passive,
}

/// Address on which the passive side listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ListenAddress {
    Inet {
        /// The address that was connected to; IPv4-mapped IPv6 addresses are converted to IPv4.
        ip: IpAddr,
        port: u16,
    },
    /// Path of a Unix socket. Abstract names start with `@`.
    Path(String),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Inet { ip: IpAddr::V6(ip), port } => write!(f, "[{ip}]:{port}"),
            ListenAddress::Inet { ip, port } => write!(f, "{ip}:{port}"),
            ListenAddress::Path(path) => path.fmt(f),
        }
    }
}

/// The properties that both ends of a connection have in common. It contains no ephemeral port, so thousands of
/// connections form one flow.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Link {
    pub protocol: Protocol,
    /// Address of the active side; none for Unix sockets.
    pub active: Option<IpAddr>,
    pub passive: ListenAddress,
}

impl Link {
    /// Whether the link is valid only within one network namespace of one host: a loopback address or a Unix path.
    pub fn is_local(&self) -> bool {
        match &self.passive {
            ListenAddress::Inet { ip, .. } => ip.is_loopback() || self.active.is_some_and(|ip| ip.is_loopback()),
            ListenAddress::Path(_) => true,
        }
    }
}

/// Activity in a window, except `open`, which is the number at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Connections opened, without those that were open before the agent started.
    pub opened: u64,
    pub established: u64,
    /// Never established: refused, timed out, unreachable.
    pub failed: u64,
    /// Ended after being established.
    pub closed: u64,
    /// Connections open at the end of the window.
    pub open: u64,
    /// Bytes of payload that this end sent and the other acknowledged.
    pub sent: u64,
    /// Bytes of payload that this end received.
    pub received: u64,
}

impl Counts {
    /// Adds a later window of the same flow.
    pub fn add(&mut self, later: &Counts) {
        self.opened += later.opened;
        self.established += later.established;
        self.failed += later.failed;
        self.closed += later.closed;
        self.open = later.open;
        self.sent += later.sent;
        self.received += later.received;
    }

    /// Adds another flow of the same window.
    pub fn add_concurrent(&mut self, other: &Counts) {
        let open = self.open + other.open;
        self.add(other);
        self.open = open;
    }
}

/// The identity of a flow: everything but its counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FlowKey {
    pub side: Side,
    pub service: ServiceKey,
    pub process: Option<ProcessId>,
    pub netns: u64,
    pub link: Link,
    pub translated: Option<ListenAddress>,
    pub source: Source,
    pub attribution: Attribution,
}

impl FlowKey {
    pub fn with_counts(self, counts: Counts) -> Flow {
        let FlowKey { side, service, process, netns, link, translated, source, attribution } = self;
        Flow { side, service, process, netns, link, translated, source, attribution, counts }
    }
}

impl Flow {
    pub fn key(&self) -> FlowKey {
        let Flow { side, service, process, netns, link, translated, source, attribution, counts: _ } = self.clone();
        FlowKey { side, service, process, netns, link, translated, source, attribution }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    pub side: Side,
    pub service: ServiceKey,
    /// The process, or none if it had ended by the end of the window: short-lived processes of one service share a
    /// flow.
    pub process: Option<ProcessId>,
    pub netns: u64,
    pub link: Link,
    /// The real destination, if address translation on this host (conntrack) changed it.
    pub translated: Option<ListenAddress>,
    pub source: Source,
    pub attribution: Attribution,
    pub counts: Counts,
}

/// A socket that accepts connections (TCP, Unix) or is bound without a peer (UDP).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Listener {
    pub service: ServiceKey,
    pub netns: u64,
    pub protocol: Protocol,
    /// The unspecified address means all addresses of the namespace.
    pub at: ListenAddress,
}
