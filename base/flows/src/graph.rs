//! The dependency graph of a map. `study/map` builds it; reports and the command line render it.

use crate::{Attribution, Counts, Protocol, Source};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    Host,
    Container,
    Unit,
    Program,
    Process,
    /// An address without an agent.
    External,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Unique in the graph, and the same in every graph of the same node, so that layouts are stable.
    pub id: String,
    pub kind: NodeKind,
    pub label: String,
    /// Names of the hosts on which it was observed.
    pub hosts: Vec<String>,
    /// Ports and paths it listens on, as text.
    pub listens: Vec<String>,
    /// Number of processes that it represents.
    pub processes: u64,
}

/// `from` depends on `to`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    pub from: String,
    pub to: String,
    pub protocol: Protocol,
    /// Listen address of `to`: `:8080` or a path.
    pub at: String,
    /// Counts of the active side, or of the passive side if only that was observed. Bytes are from the view of the
    /// active side.
    pub counts: Counts,
    /// Both ends were observed. Otherwise the other end has no agent, or its agent started later.
    pub paired: bool,
    /// The worse of the two ends.
    pub source: Source,
    pub attribution: Attribution,
    /// Passes an address translation or a proxy that is not shown.
    pub translated: bool,
}

impl Edge {
    /// Adds the counts of an edge that is merged into this one.
    pub fn add_concurrent(&mut self, other: &Edge) {
        self.counts.add_concurrent(&other.counts);
        self.paired &= other.paired;
        self.source = self.source.max(other.source);
        self.attribution = self.attribution.max(other.attribution);
        self.translated |= other.translated;
    }
}

/// Nodes and edges, each sorted by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Graph {
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
    /// Why data may be missing, for the reader: losses, hosts that did not answer.
    pub remarks: Vec<String>,
}
