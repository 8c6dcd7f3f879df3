//! The layout of a map: a column by layer, a row by id and neighbors.
//!
//! Users compare maps of the same system, so nodes must keep their positions. Each node starts at a height that depends
//! only on its id, moves towards its neighbors a few times, and takes the nearest free row of a grid. So a change has
//! only local effects: a node that is added or removed moves the others of its column by at most a row.

use crate::layers;
use flows::Graph;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) struct Placed {
    /// Index into the graph's nodes, column, row; nodes without edges are left out.
    pub nodes: BTreeMap<usize, (usize, usize)>,
    /// Pairs of nodes with the edges between them, and the rows that each arrow crosses in the columns between.
    pub arrows: Vec<Arrow>,
    pub columns: usize,
    pub rows: usize,
}

pub(crate) struct Arrow {
    pub from: usize,
    pub to: usize,
    /// Indices into the graph's edges.
    pub edges: Vec<usize>,
    pub through: Vec<(usize, usize)>,
}

/// The weight of neighbors, and the number of rounds.
const PULL: f64 = 0.8;
const ROUNDS: usize = 5;
const STRETCH: f64 = 2.0;
/// One row in this number stays free, for new nodes.
const SPARE: usize = 6;
/// Free rows at the ends are removed in multiples of this number.
const CUT: usize = 4;
/// Crossing arrows get rows of their own up to this number.
const CROSSINGS_MAX: usize = 80;

/// An entry of a column: a node, or an arrow that crosses it.
struct Slot {
    node: Option<usize>,
    column: usize,
    height: f64,
    id: String,
}

pub(crate) fn place(graph: &Graph) -> Placed {
    let index: BTreeMap<&str, usize> = graph.nodes.iter().enumerate().map(|(i, n)| (n.id.as_str(), i)).collect();
    let mut pairs: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (i, edge) in graph.edges.iter().enumerate() {
        if let (Some(from), Some(to)) = (index.get(edge.from.as_str()), index.get(edge.to.as_str())) {
            pairs.entry((*from, *to)).or_default().push(i);
        }
    }
    let all: Vec<(usize, usize)> = pairs.keys().copied().collect();
    let ends: Vec<(usize, usize)> = all.iter().copied().filter(|(from, to)| from != to).collect();
    let reached: BTreeSet<usize> = ends.iter().map(|e| e.1).collect();
    let used: BTreeSet<usize> = all.iter().flat_map(|e| [e.0, e.1]).collect();
    let roots: Vec<usize> = used.iter().copied().filter(|n| !reached.contains(n)).collect();
    let n = graph.nodes.len();
    let backward = layers::backward(n, &ends, roots.iter().copied().chain(used.iter().copied()));
    let depth = layers::depths(n, &ends, &backward, |node| !ends.iter().zip(&backward).any(|(e, b)| e.1 == node && !b));
    let heights = heights(graph, &ends);

    let mut slots: Vec<Slot> = used
        .iter()
        .map(|&i| Slot { node: Some(i), column: depth[i], height: heights[i], id: graph.nodes[i].id.clone() })
        .collect();
    let long: Vec<(usize, usize)> = ends.iter().copied().filter(|(f, t)| depth[*t] > depth[*f] + 1).collect();
    let passing = long.iter().map(|(f, t)| depth[*t] - depth[*f] - 1).sum::<usize>() <= CROSSINGS_MAX;
    if passing {
        for (from, to) in &long {
            for column in depth[*from] + 1..depth[*to] {
                let share = (column - depth[*from]) as f64 / (depth[*to] - depth[*from]) as f64;
                let height = heights[*from] + (heights[*to] - heights[*from]) * share;
                let id = format!("{} {}", graph.nodes[*from].id, graph.nodes[*to].id);
                slots.push(Slot { node: None, column, height, id });
            }
        }
    }
    let (taken, rows) = take_rows(&slots);
    let columns = slots.iter().map(|s| s.column + 1).max().unwrap_or(0);
    let nodes = slots.iter().zip(&taken).filter_map(|(s, row)| s.node.map(|i| (i, (s.column, *row)))).collect();
    let passed: BTreeMap<(String, usize), usize> = slots
        .into_iter()
        .zip(taken)
        .filter(|(s, _)| s.node.is_none())
        .map(|(s, row)| ((s.id, s.column), row))
        .collect();
    let arrows = pairs
        .into_iter()
        .map(|((from, to), edges)| {
            let id = format!("{} {}", graph.nodes[from].id, graph.nodes[to].id);
            let between = (depth[from] + 1)..depth[to].max(depth[from] + 1);
            let through =
                between.filter_map(|column| passed.get(&(id.clone(), column)).map(|row| (column, *row))).collect();
            Arrow { from, to, edges, through }
        })
        .collect();
    Placed { nodes, arrows, columns, rows }
}

/// A height from 0 to 1 for each node.
fn heights(graph: &Graph, ends: &[(usize, usize)]) -> Vec<f64> {
    let own: Vec<f64> = graph.nodes.iter().map(|node| height_of(&node.id)).collect();
    let mut neighbors = vec![Vec::new(); own.len()];
    for (from, to) in ends {
        neighbors[*from].push(*to);
        neighbors[*to].push(*from);
    }
    let mut heights = own.clone();
    for _ in 0..ROUNDS {
        heights = (0..own.len())
            .map(|i| {
                if neighbors[i].is_empty() {
                    return own[i];
                }
                let mean = neighbors[i].iter().map(|n| heights[*n]).sum::<f64>() / neighbors[i].len() as f64;
                own[i] * (1.0 - PULL) + mean * PULL
            })
            .collect();
    }
    // averaging moves everything to the middle; a constant factor restores the height, independent of the graph
    heights.iter().map(|height| ((height - 0.5) * STRETCH + 0.5).clamp(0.0, 1.0)).collect()
}

fn height_of(id: &str) -> f64 {
    let digest = Sha256::digest(id);
    f64::from(u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])) / f64::from(u32::MAX)
}

/// The row of each slot, and the number of rows.
fn take_rows(slots: &[Slot]) -> (Vec<usize>, usize) {
    let mut columns: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    slots.iter().enumerate().for_each(|(i, slot)| columns.entry(slot.column).or_default().push(i));
    let fullest = columns.values().map(Vec::len).max().unwrap_or(0);
    let rows = if fullest < 4 { fullest } else { (fullest + fullest / SPARE).next_multiple_of(2) };
    let mut taken = vec![0; slots.len()];
    for column in columns.values_mut() {
        column.sort_by(|a, b| {
            slots[*a].height.total_cmp(&slots[*b].height).then_with(|| slots[*a].id.cmp(&slots[*b].id))
        });
        // rows follow the heights; each slot has its own row within the grid
        let n = column.len();
        let mut row = vec![0usize; n];
        for (k, slot) in column.iter().enumerate() {
            let target = (slots[*slot].height * rows as f64) as usize;
            row[k] = if k == 0 { target } else { target.max(row[k - 1] + 1) };
        }
        for k in (0..n).rev() {
            row[k] = row[k].min(if k + 1 == n { rows - 1 } else { row[k + 1] - 1 });
        }
        column.iter().zip(row).for_each(|(slot, row)| taken[*slot] = row);
    }
    // free rows at both ends are removed in multiples of CUT, so that this changes rarely
    let first = taken.iter().min().map_or(0, |row| row / CUT * CUT);
    let last = taken.iter().max().map_or(0, |row| (row + 1).next_multiple_of(CUT).min(rows));
    taken.iter_mut().for_each(|row| *row -= first);
    (taken, last - first)
}
