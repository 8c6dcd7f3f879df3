//! Layers of a directed graph: each node is in a later layer than its predecessors. Shared by all drawings of graphs.

/// Whether each edge closes a cycle, in a depth-first walk from `roots` in their order.
pub(crate) fn backward(nodes: usize, edges: &[(usize, usize)], roots: impl IntoIterator<Item = usize>) -> Vec<bool> {
    let mut leaving = vec![Vec::new(); nodes];
    edges.iter().enumerate().for_each(|(i, edge)| leaving[edge.0].push(i));
    let mut backward = vec![false; edges.len()];
    let mut state = vec![0u8; nodes]; // 1: on the path, 2: done
    for root in roots {
        if state[root] != 0 {
            continue;
        }
        state[root] = 1;
        let mut path = vec![(root, 0)];
        while let Some((node, next)) = path.last_mut() {
            let Some(i) = leaving[*node].get(*next).copied() else {
                state[*node] = 2;
                path.pop();
                continue;
            };
            *next += 1;
            match state[edges[i].1] {
                0 => {
                    state[edges[i].1] = 1;
                    path.push((edges[i].1, 0));
                }
                1 => backward[i] = true,
                _ => {}
            }
        }
    }
    backward
}

/// Each node's layer: the length of the longest path from a root. Nodes that are not roots are at least in the second.
pub(crate) fn depths(
    nodes: usize,
    edges: &[(usize, usize)],
    backward: &[bool],
    is_root: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let mut depth: Vec<usize> = (0..nodes).map(|node| usize::from(!is_root(node))).collect();
    for _ in 0..nodes {
        let mut stable = true;
        for ((from, to), _) in edges.iter().zip(backward).filter(|(_, b)| !**b) {
            // an edge that no root reaches may be part of a cycle; the bound on the depth ends the loop
            if depth[*to] <= depth[*from] && depth[*from] + 1 < nodes {
                depth[*to] = depth[*from] + 1;
                stable = false;
            }
        }
        if stable {
            break;
        }
    }
    depth
}
