//! The layout of a service graph: layers from left to right, each service to the right of its callers.
//!
//! It depends only on the order of the calls, so the same request always has the same drawing.

use crate::graph::Graph;
use crate::layers;

pub(crate) const NODE_WIDTH: f64 = 172.0;
const NODE_HEIGHT: f64 = 38.0;
const COLUMN: f64 = NODE_WIDTH + 160.0;
/// Vertical distance between nodes of one layer.
const GAP: f64 = 18.0;
/// Up to this number of arrows into one service, each has a label.
pub(crate) const MOST_LABELS: f64 = 6.0;

/// Positions. Slots are the nodes, then one for every layer that a long edge crosses.
pub(crate) struct Layout {
    pub positions: Vec<(f64, f64)>,
    /// Slots that each edge crosses between its ends.
    pub through: Vec<Vec<usize>>,
    pub width: f64,
    pub height: f64,
}

pub(crate) fn node_height(graph: &Graph, node: usize) -> f64 {
    NODE_HEIGHT.max(incoming(graph, node) as f64 * port_pitch(graph, node) + 8.0)
}

pub(crate) fn incoming(graph: &Graph, node: usize) -> usize {
    graph.edges.iter().filter(|e| e.to == node).count().max(1)
}

/// Distance between the arrowheads at a node. Many arrowheads are closer together, and only failures have labels.
pub(crate) fn port_pitch(graph: &Graph, node: usize) -> f64 {
    let n = incoming(graph, node) as f64;
    if n <= MOST_LABELS { 20.0 } else { (20.0 * MOST_LABELS / n).max(2.0) }
}

pub(crate) fn lay_out(graph: &Graph) -> Layout {
    let ends: Vec<(usize, usize)> = graph.edges.iter().map(|e| (e.from, e.to)).collect();
    let backward = layers::backward(graph.names.len(), &ends, [0]);
    let mut depth = layers::depths(graph.names.len(), &ends, &backward, |node| node == 0);
    let mut through = vec![Vec::new(); graph.edges.len()];
    let mut links: Vec<(usize, usize)> = Vec::new();
    for (i, edge) in graph.edges.iter().enumerate() {
        let mut at = edge.from;
        for layer in depth[edge.from] + 1..depth[edge.to] {
            depth.push(layer);
            through[i].push(depth.len() - 1);
            links.push((at, depth.len() - 1));
            at = depth.len() - 1;
        }
        links.push((at, edge.to));
    }
    let mut layers: Vec<Vec<usize>> = vec![Vec::new(); depth.iter().max().map_or(1, |d| d + 1)];
    depth.iter().enumerate().for_each(|(slot, d)| layers[*d].push(slot));
    for at in 1..layers.len() {
        let (before, rest) = layers.split_at_mut(at);
        let above = before.last().expect("not the first layer");
        let mean = |slot: &usize| {
            let places: Vec<usize> =
                links.iter().filter(|l| l.1 == *slot).filter_map(|l| above.iter().position(|n| *n == l.0)).collect();
            if places.is_empty() { 0.0 } else { places.iter().sum::<usize>() as f64 / places.len() as f64 }
        };
        rest[0].sort_by(|a, b| mean(a).total_cmp(&mean(b)).then(a.cmp(b)));
    }
    let slot_height = |slot: usize| if slot < graph.names.len() { node_height(graph, slot) } else { 6.0 };
    let layer_height = |layer: &Vec<usize>| layer.iter().map(|n| slot_height(*n) + GAP).sum::<f64>();
    let height = layers.iter().map(layer_height).fold(60.0, f64::max) + 8.0;
    let mut positions = vec![(0.0, 0.0); depth.len()];
    for (column, layer) in layers.iter().enumerate() {
        let mut y = (height - layer_height(layer)) / 2.0 + GAP / 2.0;
        for slot in layer {
            positions[*slot] =
                (if column == 0 { 4.0 } else { column as f64 * COLUMN - 84.0 }, y + slot_height(*slot) / 2.0);
            y += slot_height(*slot) + GAP;
        }
    }
    Layout { positions, through, width: (layers.len() - 1) as f64 * COLUMN + NODE_WIDTH - 64.0, height }
}
