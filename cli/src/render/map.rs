//! A map in a terminal: one line per dependency.

use app::text::{grouped, plural, printable};
use flows::{Edge, Graph, Protocol};
use map::Change;
use model::short_names::{ShortNames, padded};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Rows beyond this are counted instead of listed.
pub const ROWS_MAX: usize = 60;
const NAME: usize = 28;
const AT: usize = 18;

/// One line per dependency with its counts, then listeners without connections, then the remarks.
pub fn table(graph: &Graph, rows_max: usize) -> String {
    let names = names(graph);
    let mut out = String::new();
    if !graph.edges.is_empty() {
        let _ = writeln!(
            out,
            "{:<NAME$}   {:<NAME$} {:<AT$} {:>7} {:>7} {:>6}",
            "", "depends on", "at", "opened", "failed", "open"
        );
    }
    let shown = &graph.edges[..graph.edges.len().min(rows_max)];
    let labels: Vec<String> = shown.iter().flat_map(|e| [name(&names, &e.from), name(&names, &e.to)]).collect();
    let labels = ShortNames::new(labels.iter().map(String::as_str), NAME);
    let places: Vec<String> = shown.iter().map(|edge| printable(&at(edge))).collect();
    let places = ShortNames::new(places.iter().map(String::as_str), AT);
    let mut before = "";
    for edge in shown {
        let from = if edge.from == before { String::new() } else { labels.get(&name(&names, &edge.from)) };
        before = &edge.from;
        let c = &edge.counts;
        let line = format!(
            "{} → {} {} {:>7} {:>7} {:>6}  {}",
            padded(&from, NAME),
            padded(&labels.get(&name(&names, &edge.to)), NAME),
            padded(&places.get(&printable(&at(edge))), AT),
            grouped(c.opened),
            if c.failed == 0 { "·".to_owned() } else { grouped(c.failed) },
            grouped(c.open),
            marks(edge)
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
    if graph.edges.len() > rows_max {
        let more = graph.edges.len() - rows_max;
        let _ = writeln!(out, "… and {} (--all lists them)", plural(more as u64, "more edge"));
    }
    let idle: Vec<&str> = idle(graph);
    if !idle.is_empty() {
        let shown: Vec<String> = idle.iter().take(8).map(|label| printable(label)).collect();
        let more = if idle.len() > 8 { format!(" and {} more", idle.len() - 8) } else { String::new() };
        let _ = writeln!(out, "listening, without connections: {}{more}", shown.join(", "));
    }
    for remark in &graph.remarks {
        let _ = writeln!(out, "! {}", printable(remark));
    }
    out
}

/// Labels of nodes without edges.
fn idle(graph: &Graph) -> Vec<&str> {
    let connected: std::collections::BTreeSet<&str> =
        graph.edges.iter().flat_map(|e| [e.from.as_str(), e.to.as_str()]).collect();
    graph.nodes.iter().filter(|n| !connected.contains(n.id.as_str())).map(|n| n.label.as_str()).collect()
}

/// One line per difference, in the format of `faultloom diff`.
pub fn differences(before: &Graph, after: &Graph, changes: &[Change]) -> String {
    let mut names = names(before);
    names.extend(self::names(after));
    let edge = |e: &Edge| format!("{} → {} {}", name(&names, &e.from), name(&names, &e.to), printable(&at(e)));
    let mut out = String::new();
    for change in changes {
        let line = match change {
            Change::NewNode { node } => format!("+ {}", printable(&node.label)),
            Change::GoneNode { node } => format!("− {}", printable(&node.label)),
            Change::NewEdge { edge: e } => format!("+ {}", edge(e)),
            Change::GoneEdge { edge: e } => format!("− {}", edge(e)),
            Change::Failing { after, .. } => {
                format!("≠ {}   all {} connections failed", edge(after), grouped(after.counts.opened))
            }
            Change::Healed { after, .. } => format!("≠ {}   connections succeed again", edge(after)),
        };
        let _ = writeln!(out, "{line}");
    }
    out
}

fn names(graph: &Graph) -> BTreeMap<&str, &str> {
    graph.nodes.iter().map(|node| (node.id.as_str(), node.label.as_str())).collect()
}

fn name(names: &BTreeMap<&str, &str>, id: &str) -> String {
    printable(names.get(id).copied().unwrap_or(id))
}

/// The port or path, with the protocol unless it is TCP.
fn at(edge: &Edge) -> String {
    match edge.protocol {
        Protocol::Udp => format!("{} udp", edge.at),
        Protocol::Tcp | Protocol::Unix => edge.at.clone(),
    }
}

fn marks(edge: &Edge) -> String {
    let mut marks = Vec::new();
    if !edge.paired {
        marks.push("one end observed");
    }
    if edge.translated {
        marks.push("translated");
    }
    marks.join(", ")
}

/// `11 nodes, 14 edges`.
pub fn sizes(graph: &Graph) -> String {
    format!("{}, {}", plural(graph.nodes.len() as u64, "node"), plural(graph.edges.len() as u64, "edge"))
}
