//! Renders a graph for Graphviz.

use flows::{Graph, NodeKind};
use std::fmt::Write;

pub fn dot(graph: &Graph) -> String {
    let mut out =
        String::from("digraph map {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n");
    for node in &graph.nodes {
        let shape = match node.kind {
            NodeKind::External => ", shape=ellipse, style=dashed",
            NodeKind::Host => ", shape=box3d",
            _ => "",
        };
        let _ = writeln!(out, "  {} [label={}{shape}];", quoted(&node.id), quoted(&node.label));
    }
    for edge in &graph.edges {
        let style = if edge.paired { "" } else { ", style=dashed" };
        let _ = writeln!(out, "  {} -> {} [label={}{style}];", quoted(&edge.from), quoted(&edge.to), quoted(&edge.at));
    }
    out + "}\n"
}

/// A double-quoted string; control characters become spaces.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out + "\""
}
