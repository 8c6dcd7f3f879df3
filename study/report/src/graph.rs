//! Who called whom: services in layers from left to right by their distance from the client, as one SVG.
//!
//! The layout depends on nothing but the order of the calls, so the same request always gives the same picture.

use crate::escape::{put, shorten, text};
use crate::services::Services;
use crate::words::{count, counted};
use model::trace::{Call, Trace};

const NODE_WIDTH: f64 = 158.0;
const NODE_HEIGHT: f64 = 38.0;
const COLUMN: f64 = NODE_WIDTH + 170.0;
/// More services than this are a hairball, not a picture.
const MOST_NODES: usize = 120;

struct Edge {
    from: usize,
    to: usize,
    calls: u64,
    failed: u64,
    /// Numbers of the bugs whose request fails here, from 1.
    bugs: Vec<usize>,
}

struct Graph {
    names: Vec<String>,
    edges: Vec<Edge>,
}

impl Graph {
    fn node(&mut self, name: &str) -> usize {
        self.names.iter().position(|n| n == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }

    fn edge(&mut self, from: &str, to: &str) -> &mut Edge {
        let (from, to) = (self.node(from), self.node(to));
        let at = self.edges.iter().position(|e| (e.from, e.to) == (from, to)).unwrap_or_else(|| {
            self.edges.push(Edge { from, to, calls: 0, failed: 0, bugs: Vec::new() });
            self.edges.len() - 1
        });
        &mut self.edges[at]
    }

    fn layers(&self) -> Vec<Vec<usize>> {
        let mut depth = vec![usize::MAX; self.names.len()];
        depth[0] = 0;
        let mut queue = std::collections::VecDeque::from([0]);
        while let Some(at) = queue.pop_front() {
            for edge in self.edges.iter().filter(|e| e.from == at) {
                if depth[edge.to] == usize::MAX {
                    depth[edge.to] = depth[at] + 1;
                    queue.push_back(edge.to);
                }
            }
        }
        let deepest = depth.iter().filter(|d| **d != usize::MAX).max().copied().unwrap_or(0);
        let mut layers: Vec<Vec<usize>> = vec![Vec::new(); deepest + 1];
        for (node, d) in depth.iter().enumerate() {
            layers[if *d == usize::MAX { deepest } else { *d }].push(node);
        }
        for at in 1..layers.len() {
            let (before, rest) = layers.split_at_mut(at);
            let above = before.last().expect("not the first layer");
            let mean = |node: &usize| {
                let places: Vec<usize> = self.edges.iter().filter(|e| e.to == *node).filter_map(|e| above.iter().position(|n| *n == e.from)).collect();
                if places.is_empty() { 0.0 } else { places.iter().sum::<usize>() as f64 / places.len() as f64 }
            };
            rest[0].sort_by(|a, b| mean(a).total_cmp(&mean(b)).then(a.cmp(b)));
        }
        layers
    }
}

fn all_calls(trace: &Trace) -> impl Iterator<Item = &Call> {
    std::iter::once(&trace.entry).chain(trace.walk())
}

/// `traces` are counted; of `failing` (the requests of the bugs) only the failed calls and the calls made by nobody else are shown.
pub(crate) fn svg(traces: &[&Trace], failing: &[&Trace], services: &Services) -> String {
    let mut graph = Graph { names: vec![String::new()], edges: Vec::new() };
    let caller = |call: &Call| if call.number == 0 { String::new() } else { call.caller.clone() };
    for call in traces.iter().flat_map(|t| all_calls(t)) {
        let edge = graph.edge(&caller(call), services.name(call));
        edge.calls += 1;
        edge.failed += u64::from(!call.is_ok());
    }
    for (bug, trace) in failing.iter().enumerate() {
        for call in all_calls(trace) {
            let edge = graph.edge(&caller(call), services.name(call));
            if !call.is_ok() && !edge.bugs.contains(&(bug + 1)) {
                edge.bugs.push(bug + 1);
            }
        }
    }
    if graph.names.len() > MOST_NODES {
        return format!("<p class=note>{} take part: too many to draw. The table below lists every edge.</p>{}", counted(graph.names.len() as u64 - 1, "service"), table(&graph));
    }
    draw(&graph, services) + &table(&graph)
}

fn draw(graph: &Graph, services: &Services) -> String {
    let layers = graph.layers();
    let incoming = |node: usize| graph.edges.iter().filter(|e| e.to == node).count().max(1);
    let height_of = |node: usize| NODE_HEIGHT.max(incoming(node) as f64 * 20.0 + 8.0);
    let layer_height = |layer: &Vec<usize>| layer.iter().map(|n| height_of(*n) + 18.0).sum::<f64>();
    let height = layers.iter().map(layer_height).fold(60.0, f64::max) + 8.0;
    let width = (layers.len() - 1) as f64 * COLUMN + NODE_WIDTH - 84.0 + 60.0;
    let mut place = vec![(0.0, 0.0); graph.names.len()];
    for (column, layer) in layers.iter().enumerate() {
        let mut y = (height - layer_height(layer)) / 2.0 + 9.0;
        for node in layer {
            place[*node] = (if column == 0 { 4.0 } else { column as f64 * COLUMN - 84.0 }, y + height_of(*node) / 2.0);
            y += height_of(*node) + 18.0;
        }
    }
    let mut out = String::new();
    put!(out, "<div class=scroll><svg class=graph role=img aria-label=\"Services and the calls between them; the table below says the same\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\">");
    let mut arrived = vec![0usize; graph.names.len()];
    for edge in &graph.edges {
        let from_width = if edge.from == 0 { 66.0 } else { NODE_WIDTH };
        let (x1, y1) = (place[edge.from].0 + from_width, place[edge.from].1);
        let ports = incoming(edge.to) as f64;
        let port = arrived[edge.to] as f64;
        arrived[edge.to] += 1;
        let (x2, y2) = (place[edge.to].0, place[edge.to].1 + (port - (ports - 1.0) / 2.0) * 20.0);
        let failed = edge.failed > 0 || !edge.bugs.is_empty();
        let class = match (failed, edge.calls) {
            (true, _) => "e ko",
            (false, 0) => "e only",
            _ => "e",
        };
        let stroke = 1.2 + (edge.calls.max(1) as f64).ln().min(5.0) * 0.5;
        // an edge back to the left, or within a layer, leaves and arrives in a wide bow
        let bend = if x2 > x1 { (x2 - x1) * 0.45 } else { 90.0 };
        put!(out, "<path class=\"{class}\" stroke-width=\"{stroke:.1}\" d=\"M{x1:.0} {y1:.0}C{:.0} {y1:.0} {:.0} {y2:.0} {:.0} {y2:.0}\"><title>{}</title></path>", x1 + bend, x2 - bend, x2 - 7.0, text(&sentence(graph, edge)));
        put!(out, "<path class=\"{}\" d=\"M{x2:.0} {y2:.0}l-8 -4v8z\"/>", if failed { "a ko" } else { "a" });
        put!(out, "<text class=\"{}\" x=\"{:.0}\" y=\"{:.0}\" text-anchor=end>{}</text>", if failed { "lb ko" } else { "lb" }, x2 - 14.0, y2 - 5.0, label(edge));
    }
    for (node, name) in graph.names.iter().enumerate() {
        let (x, y) = place[node];
        if node == 0 {
            put!(out, "<text class=client x=\"{x:.0}\" y=\"{:.0}\">client</text><circle class=cl cx=\"{:.0}\" cy=\"{y:.0}\" r=5 />", y + 4.0, x + 56.0);
            continue;
        }
        let h = height_of(node);
        let bare = !services.is_recorded(name);
        put!(out, "<g class=\"nd{}\"><title>{}</title><rect x=\"{x:.0}\" y=\"{:.1}\" width=\"{NODE_WIDTH}\" height=\"{h:.0}\" rx=8 /><rect class=\"f{}\" x=\"{:.0}\" y=\"{:.1}\" width=5 height=\"{:.0}\" rx=2.5 /><text x=\"{:.0}\" y=\"{:.1}\">{}</text></g>",
            if bare { " bare" } else { "" },
            text(&if bare { format!("{name}: sends no history of its own (no SDK, or never reached)") } else { name.clone() }),
            y - h / 2.0, services.colour(name), x + 9.0, y - h / 2.0 + 9.0, h - 18.0, x + 22.0, y + 4.5, text(&shorten(name, 18)));
    }
    out.push_str("</svg></div>");
    out
}

fn bugs_named(bugs: &[usize]) -> String {
    let numbers: Vec<String> = bugs.iter().map(usize::to_string).collect();
    format!("bug{} {}", if bugs.len() == 1 { "" } else { "s" }, numbers.join(", "))
}

fn label(edge: &Edge) -> String {
    let mut label = if edge.calls > 0 { format!("×{}", count(edge.calls)) } else { "only under faults".to_owned() };
    if edge.failed > 0 {
        label += &format!(" ✗ {}", count(edge.failed));
    }
    if !edge.bugs.is_empty() {
        label += &format!(" ✗ {}", bugs_named(&edge.bugs));
    }
    label
}

fn sentence(graph: &Graph, edge: &Edge) -> String {
    let from = if edge.from == 0 { "client" } else { &graph.names[edge.from] };
    let bugs = if edge.bugs.is_empty() { String::new() } else { format!("; fails in {}", bugs_named(&edge.bugs)) };
    format!("{from} → {}: {}, {} failed{bugs}", graph.names[edge.to], counted(edge.calls, "call"), count(edge.failed))
}

fn table(graph: &Graph) -> String {
    let mut out = String::from("<details class=twin><summary>The same as a table</summary><div class=scroll><table><thead><tr><th>Caller<th>Callee<th class=num>Calls<th class=num>Failed<th>Fails in</tr></thead><tbody>");
    for edge in graph.edges.iter().take(500) {
        let from = if edge.from == 0 { "client" } else { &graph.names[edge.from] };
        let bugs = if edge.bugs.is_empty() { "–".to_owned() } else { bugs_named(&edge.bugs) };
        put!(out, "<tr><td>{}<td>{}<td class=num>{}<td class=num>{}<td>{bugs}</tr>", text(from), text(&graph.names[edge.to]), count(edge.calls), count(edge.failed));
    }
    out.push_str("</tbody></table></div></details>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shop;

    #[test]
    fn unreached_callees_are_the_services_they_would_have_been() {
        let (sweep, _) = shop::sweep();
        let failing: Vec<&Trace> = sweep.bugs.iter().map(|b| &b.trace).collect();
        let services = Services::of(std::iter::once(&sweep.good).chain(failing.iter().copied()));
        let svg = svg(&[&sweep.good], &failing, &services);
        assert!(!svg.contains("currency:7000"), "{svg}");
        assert!(svg.contains("×11 ✗ bugs 1, 2"), "{svg}");
        assert!(svg.contains("×1 ✗ bug 2"));
    }

    #[test]
    fn callees_without_sdk_are_dashed() {
        let trace = shop::checkout();
        let svg = svg(&[&trace], &[], &Services::of([&trace].into_iter()));
        assert!(svg.contains("nd bare\"><title>bank.example:443"));
    }

    #[test]
    fn the_same_request_gives_the_same_picture() {
        let trace = shop::checkout();
        let draw = || svg(&[&trace], &[], &Services::of([&trace].into_iter()));
        assert_eq!(draw(), draw());
    }

    #[test]
    fn services_calling_each_other_end() {
        let mut trace = shop::checkout();
        let calls = &mut trace.entry.scope.as_mut().unwrap().calls;
        calls[1].scope.as_mut().unwrap().calls[0].callee = "frontend".into();
        assert!(svg(&[&trace], &[], &Services::of([&trace].into_iter())).contains("</svg>"));
    }
}
