//! Flows: connections of one kind between two ends, as one of the ends saw them.

use crate::{Attribution, Instance, ServiceKey, Source};
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

/// Which end of the connection saw it. The active side depends on the passive one (Transtracer §3.1, figure 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// It connected.
    Active,
    /// It listens.
    Passive,
}

/// Where the passive side listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Passive {
    Inet {
        /// As it was connected to; IPv4-mapped IPv6 addresses are written as IPv4.
        ip: IpAddr,
        port: u16,
    },
    /// A Unix socket. Abstract names begin with `@`.
    Path(String),
}

impl fmt::Display for Passive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Passive::Inet { ip: IpAddr::V6(ip), port } => write!(f, "[{ip}]:{port}"),
            Passive::Inet { ip, port } => write!(f, "{ip}:{port}"),
            Passive::Path(path) => path.fmt(f),
        }
    }
}

/// What both ends of a connection agree on. Ephemeral ports are left out: thousands of connections are one flow.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Link {
    pub protocol: Protocol,
    /// Address of the side that connected; none for Unix sockets.
    pub active: Option<IpAddr>,
    pub passive: Passive,
}

impl Link {
    /// Loopback addresses and Unix paths mean something within one network namespace of one host only.
    pub fn is_local(&self) -> bool {
        match &self.passive {
            Passive::Inet { ip, .. } => ip.is_loopback() || self.active.is_some_and(|ip| ip.is_loopback()),
            Passive::Path(_) => true,
        }
    }
}

/// What happened in a window, except `open`, which holds for its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Connections begun. Those that were open before the agent started are not in it.
    pub opened: u64,
    pub established: u64,
    /// Never established: refused, timed out, unreachable.
    pub failed: u64,
    /// Ended after they had been established.
    pub closed: u64,
    /// Connections open at the end of the window.
    pub open: u64,
    /// Bytes of payload this end sent and the other acknowledged.
    pub sent: u64,
    /// Bytes of payload this end received.
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

    /// Adds what another flow did in the same window.
    pub fn add_beside(&mut self, other: &Counts) {
        let open = self.open + other.open;
        self.add(other);
        self.open = open;
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    pub side: Side,
    pub service: ServiceKey,
    /// The process, unless it was gone at the end of the window: short-lived processes of one service share a flow.
    pub process: Option<Instance>,
    pub netns: u64,
    pub link: Link,
    /// Where the connection really went, if an address translation on this host (conntrack) changed it.
    pub translated: Option<Passive>,
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
    /// May be the unspecified address: it then listens on all addresses of its namespace.
    pub at: Passive,
}
