//! The part of a graph within some hops of a node.

use flows::Graph;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Direction of edges to follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// To the nodes that they depend on.
    DependsOn,
    /// To the nodes that depend on them.
    DependedBy,
    #[default]
    Both,
}

/// The part of the graph that is reachable from `start` by at most `hops` edges of the same direction; other neighbors
/// of a neighbor are not included. Includes the nodes of `start`. More hops never return less.
pub fn neighborhood(graph: &Graph, start: &BTreeSet<String>, direction: Direction, hops: usize) -> Graph {
    let mut nodes: BTreeSet<&str> = start.iter().map(String::as_str).collect();
    let mut edges: BTreeSet<usize> = BTreeSet::new();
    for forward in [true, false] {
        match direction {
            Direction::DependsOn if !forward => continue,
            Direction::DependedBy if forward => continue,
            _ => walk(graph, start, forward, hops, &mut nodes, &mut edges),
        }
    }
    Graph {
        nodes: graph.nodes.iter().filter(|n| nodes.contains(n.id.as_str())).cloned().collect(),
        edges: edges.into_iter().map(|i| graph.edges[i].clone()).collect(),
        remarks: graph.remarks.clone(),
    }
}

fn walk<'g>(
    graph: &'g Graph,
    start: &'g BTreeSet<String>,
    forward: bool,
    hops: usize,
    nodes: &mut BTreeSet<&'g str>,
    edges: &mut BTreeSet<usize>,
) {
    let mut leaving: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, edge) in graph.edges.iter().enumerate() {
        leaving.entry(if forward { &edge.from } else { &edge.to }).or_default().push(i);
    }
    let mut reached: BTreeSet<&str> = start.iter().map(String::as_str).collect();
    let mut frontier = reached.clone();
    for _ in 0..hops {
        let mut next = BTreeSet::new();
        for i in frontier.iter().flat_map(|node| leaving.get(node)).flatten() {
            edges.insert(*i);
            let other: &str = if forward { &graph.edges[*i].to } else { &graph.edges[*i].from };
            if reached.insert(other) {
                next.insert(other);
            }
        }
        if next.is_empty() {
            break;
        }
        frontier = next;
    }
    nodes.extend(reached);
}
