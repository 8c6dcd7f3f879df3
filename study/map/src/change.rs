//! Changes of the graph between two times.

use flows::{Edge, Graph, Node, Protocol};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "change")]
pub enum Change {
    NewNode {
        node: Node,
    },
    GoneNode {
        node: Node,
    },
    NewEdge {
        edge: Edge,
    },
    GoneEdge {
        edge: Edge,
    },
    /// All connections failed; before, some succeeded.
    Failing {
        before: Edge,
        after: Edge,
    },
    /// Some connections succeeded; before, all failed.
    Healed {
        before: Edge,
        after: Edge,
    },
}

/// The changes from `before` to `after`: nodes first, each kind sorted by id.
pub fn changes(before: &Graph, after: &Graph) -> Vec<Change> {
    let mut changes = Vec::new();
    let [old, new] = [before, after].map(|g| g.nodes.iter().map(|n| (&n.id, n)).collect::<BTreeMap<_, _>>());
    for (id, node) in &new {
        if !old.contains_key(id) {
            changes.push(Change::NewNode { node: (*node).clone() });
        }
    }
    for (id, node) in &old {
        if !new.contains_key(id) {
            changes.push(Change::GoneNode { node: (*node).clone() });
        }
    }
    let [old, new] = [before, after].map(|g| g.edges.iter().map(|e| (key(e), e)).collect::<BTreeMap<_, _>>());
    for (id, edge) in &new {
        match old.get(id) {
            None => changes.push(Change::NewEdge { edge: (*edge).clone() }),
            Some(before) if !fails(before) && fails(edge) => {
                changes.push(Change::Failing { before: (*before).clone(), after: (*edge).clone() });
            }
            Some(before) if fails(before) && !fails(edge) => {
                changes.push(Change::Healed { before: (*before).clone(), after: (*edge).clone() });
            }
            Some(_) => {}
        }
    }
    for (id, edge) in &old {
        if !new.contains_key(id) {
            changes.push(Change::GoneEdge { edge: (*edge).clone() });
        }
    }
    changes
}

fn key(edge: &Edge) -> (&str, &str, Protocol, &str) {
    (&edge.from, &edge.to, edge.protocol, &edge.at)
}

fn fails(edge: &Edge) -> bool {
    edge.counts.failed > 0 && edge.counts.established == 0 && edge.counts.open == 0
}
