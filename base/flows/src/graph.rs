//! The dependency graph: what a map shows. Made by `study/map`, drawn by whoever shows it.

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
    /// Addresses that no agent answers for.
    External,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Unique in the graph and equal in every graph of the same thing, so that pictures keep its place.
    pub id: String,
    pub kind: NodeKind,
    pub label: String,
    /// Names of the hosts it was seen on.
    pub hosts: Vec<String>,
    /// Ports and paths it listens on, as text.
    pub listens: Vec<String>,
    /// How many processes it stands for.
    pub processes: u64,
}

/// `from` depends on `to`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    pub from: String,
    pub to: String,
    pub protocol: Protocol,
    /// Where `to` was reached: `:8080` or a path.
    pub at: String,
    /// As the active side counted, or the passive side where only it was seen. Bytes are those of the active side.
    pub counts: Counts,
    /// Both ends were seen. If not, the other end has no agent, or was not there yet.
    pub paired: bool,
    /// The weaker of both ends.
    pub source: Source,
    pub attribution: Attribution,
    /// Through an address translation or a proxy that is not shown.
    pub translated: bool,
}

impl Edge {
    /// Adds an edge that is to be the same one.
    pub fn add_beside(&mut self, other: &Edge) {
        self.counts.add_beside(&other.counts);
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
    /// Why something may be missing, for the reader: losses, hosts that did not answer.
    pub remarks: Vec<String>,
}
