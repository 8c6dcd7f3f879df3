//! Renders a graph for Mermaid, which Markdown viewers display.

use flows::{Graph, NodeKind};
use std::collections::BTreeMap;
use std::fmt::Write;

pub fn mermaid(graph: &Graph) -> String {
    let mut out = String::from("flowchart LR\n");
    // Mermaid restricts the characters of ids
    let numbers: BTreeMap<&str, usize> = graph.nodes.iter().enumerate().map(|(i, n)| (n.id.as_str(), i)).collect();
    for (i, node) in graph.nodes.iter().enumerate() {
        let (open, close) = match node.kind {
            NodeKind::External => ("([", "])"),
            NodeKind::Host => ("[[", "]]"),
            _ => ("[", "]"),
        };
        let _ = writeln!(out, "  n{i}{open}\"{}\"{close}", text(&node.label));
    }
    for edge in &graph.edges {
        if let (Some(from), Some(to)) = (numbers.get(edge.from.as_str()), numbers.get(edge.to.as_str())) {
            let arrow = if edge.paired { "-->" } else { "-.->" };
            let _ = writeln!(out, "  n{from} {arrow}|\"{}\"| n{to}", text(&edge.at));
        }
    }
    out
}

/// Escapes the characters that are special in Mermaid.
fn text(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            c if c.is_control() => out.push(' '),
            '"' | '#' | '<' | '>' | '&' | ';' | '|' | '`' | '[' | ']' | '{' | '}' => {
                let _ = write!(out, "#{};", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}
