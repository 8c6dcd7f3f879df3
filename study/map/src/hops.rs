//! What lies within so many hops of a node.

use flows::Graph;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Which way to go from the nodes that are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// What they depend on.
    DependsOn,
    /// What depends on them.
    DependedBy,
    #[default]
    Both,
}

/// The part of the graph that is reached from `focus` by at most `hops` edges, always in one direction: a neighbour's other neighbours are
/// not in it. The nodes of `focus` are. More hops never show less.
pub fn around(graph: &Graph, focus: &BTreeSet<String>, direction: Direction, hops: usize) -> Graph {
    let mut nodes: BTreeSet<&str> = focus.iter().map(String::as_str).collect();
    let mut edges: BTreeSet<usize> = BTreeSet::new();
    for forward in [true, false] {
        match direction {
            Direction::DependsOn if !forward => continue,
            Direction::DependedBy if forward => continue,
            _ => walk(graph, focus, forward, hops, &mut nodes, &mut edges),
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
    focus: &'g BTreeSet<String>,
    forward: bool,
    hops: usize,
    nodes: &mut BTreeSet<&'g str>,
    edges: &mut BTreeSet<usize>,
) {
    let mut leaving: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, edge) in graph.edges.iter().enumerate() {
        leaving.entry(if forward { &edge.from } else { &edge.to }).or_default().push(i);
    }
    let mut reached: BTreeSet<&str> = focus.iter().map(String::as_str).collect();
    let mut rim = reached.clone();
    for _ in 0..hops {
        let mut next = BTreeSet::new();
        for i in rim.iter().flat_map(|node| leaving.get(node)).flatten() {
            edges.insert(*i);
            let other: &str = if forward { &graph.edges[*i].to } else { &graph.edges[*i].from };
            if reached.insert(other) {
                next.insert(other);
            }
        }
        if next.is_empty() {
            break;
        }
        rim = next;
    }
    nodes.extend(reached);
}
