//! Who called whom: services in layers from left to right, each behind all that call it, as one SVG.
//!
//! The layout depends on nothing but the order of the calls, so the same request always gives the same picture.

use crate::escape::{put, shorten, text};
use crate::services::Services;
use crate::words::{self, count, counted};
use model::trace::{Call, Trace};

const NODE_WIDTH: f64 = 172.0;
const NODE_HEIGHT: f64 = 38.0;
const COLUMN: f64 = NODE_WIDTH + 160.0;
/// More services than this are a hairball, not a picture.
const MOST_NODES: usize = 120;
/// Arrows into one service that all carry a label.
const MOST_LABELS: f64 = 6.0;

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

    /// Edges that close a cycle, seen from the client.
    fn backward(&self) -> Vec<bool> {
        let mut backward = vec![false; self.edges.len()];
        let mut state = vec![0u8; self.names.len()]; // 1: on the path, 2: done
        let mut path = vec![(0, 0)];
        state[0] = 1;
        while let Some((node, next)) = path.last_mut() {
            match self.edges.iter().enumerate().skip(*next).find(|(_, e)| e.from == *node) {
                Some((i, edge)) => {
                    *next = i + 1;
                    match state[edge.to] {
                        0 => {
                            state[edge.to] = 1;
                            path.push((edge.to, 0));
                        }
                        1 => backward[i] = true,
                        _ => {}
                    }
                }
                None => {
                    state[*node] = 2;
                    path.pop();
                }
            }
        }
        backward
    }

    /// Each node's layer: the longest way to it from the client.
    fn depths(&self, backward: &[bool]) -> Vec<usize> {
        let mut depth = vec![0; self.names.len()];
        depth.iter_mut().skip(1).for_each(|d| *d = 1);
        for _ in 0..self.names.len() {
            let mut settled = true;
            for (edge, _) in self.edges.iter().zip(backward).filter(|(_, b)| !**b) {
                // an edge that no way from the client leads to may be part of a cycle: the bound ends that
                if depth[edge.to] <= depth[edge.from] && depth[edge.from] + 1 < self.names.len() {
                    depth[edge.to] = depth[edge.from] + 1;
                    settled = false;
                }
            }
            if settled {
                break;
            }
        }
        depth
    }
}

fn all_calls(trace: &Trace) -> impl Iterator<Item = &Call> {
    std::iter::once(&trace.entry).chain(trace.walk())
}

/// `traces` are counted; of `failing` (the requests of the bugs) only the failed calls and the calls made by nobody else are shown.
pub(crate) fn svg(traces: &[&Trace], failing: &[&Trace], services: &Services) -> String {
    let mut graph = Graph { names: vec![String::new()], edges: Vec::new() };
    let caller = |call: &Call| {
        if call.number == 0 { String::new() } else { call.caller.clone() }
    };
    for call in traces.iter().flat_map(|t| all_calls(t)) {
        let edge = graph.edge(&caller(call), services.name(call));
        edge.calls += 1;
        edge.failed += u64::from(words::failed(call));
    }
    for (bug, trace) in failing.iter().enumerate() {
        for call in all_calls(trace) {
            let edge = graph.edge(&caller(call), services.name(call));
            if words::failed(call) && !edge.bugs.contains(&(bug + 1)) {
                edge.bugs.push(bug + 1);
            }
        }
    }
    if graph.names.len() > MOST_NODES {
        return format!(
            "<p class=note>{} take part: too many to draw. The table below lists every edge.</p>{}",
            counted(graph.names.len() as u64 - 1, "service"),
            table(&graph)
        );
    }
    draw(&graph, services) + &table(&graph)
}

/// Where things go. Slots are the nodes, then one for every layer that a long edge passes.
struct Layout {
    place: Vec<(f64, f64)>,
    /// Slots that each edge passes between its ends.
    through: Vec<Vec<usize>>,
    width: f64,
    height: f64,
}

const GAP: f64 = 18.0;

fn node_height(graph: &Graph, node: usize) -> f64 {
    NODE_HEIGHT.max(incoming(graph, node) as f64 * port_pitch(graph, node) + 8.0)
}

fn incoming(graph: &Graph, node: usize) -> usize {
    graph.edges.iter().filter(|e| e.to == node).count().max(1)
}

/// Distance between the arrowheads at a node; where many arrive they move together and only failures are labelled.
fn port_pitch(graph: &Graph, node: usize) -> f64 {
    let n = incoming(graph, node) as f64;
    if n <= MOST_LABELS { 20.0 } else { (20.0 * MOST_LABELS / n).max(2.0) }
}

fn lay_out(graph: &Graph) -> Layout {
    let backward = graph.backward();
    let mut depth = graph.depths(&backward);
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
    let mut place = vec![(0.0, 0.0); depth.len()];
    for (column, layer) in layers.iter().enumerate() {
        let mut y = (height - layer_height(layer)) / 2.0 + GAP / 2.0;
        for slot in layer {
            place[*slot] =
                (if column == 0 { 4.0 } else { column as f64 * COLUMN - 84.0 }, y + slot_height(*slot) / 2.0);
            y += slot_height(*slot) + GAP;
        }
    }
    Layout { place, through, width: (layers.len() - 1) as f64 * COLUMN + NODE_WIDTH - 64.0, height }
}

fn draw(graph: &Graph, services: &Services) -> String {
    let Layout { place, through, width, height } = lay_out(graph);
    let mut out = String::new();
    put!(
        out,
        "<div class=scroll><svg class=graph role=img aria-label=\"Services and the calls between them; the table below says the same\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\">"
    );
    let mut arrived = vec![0usize; graph.names.len()];
    let mut labels = String::new();
    for (edge, through) in graph.edges.iter().zip(&through) {
        let (mut x, mut y) = (place[edge.from].0 + if edge.from == 0 { 66.0 } else { NODE_WIDTH }, place[edge.from].1);
        let port = arrived[edge.to] as f64 - (incoming(graph, edge.to) as f64 - 1.0) / 2.0;
        arrived[edge.to] += 1;
        let (end_x, end_y) = (place[edge.to].0, place[edge.to].1 + port * port_pitch(graph, edge.to));
        let failed = edge.failed > 0 || !edge.bugs.is_empty();
        let class = match (failed, edge.calls) {
            (true, _) => "e ko",
            (false, 0) => "e only",
            _ => "e",
        };
        let stroke = 1.2 + (edge.calls.max(1) as f64).ln().min(5.0) * 0.5;
        put!(out, "<path class=\"{class}\" stroke-width=\"{stroke:.1}\" d=\"M{x:.0} {y:.0}");
        let mut before = y;
        for slot in through {
            let (to_x, to_y) = place[*slot];
            let bend = (to_x - x) * 0.5;
            put!(
                out,
                "C{:.0} {y:.0} {:.0} {to_y:.0} {to_x:.0} {to_y:.0}H{:.0}",
                x + bend,
                to_x - bend,
                to_x + NODE_WIDTH
            );
            (before, x, y) = (to_y, to_x + NODE_WIDTH, to_y);
        }
        // an edge back to the left leaves and arrives in a wide bow
        let bend = if end_x > x { (end_x - x) * 0.45 } else { 90.0 };
        put!(
            out,
            "C{:.0} {y:.0} {:.0} {end_y:.0} {:.0} {end_y:.0}\"><title>{}</title></path>",
            x + bend,
            end_x - bend,
            end_x - 7.0,
            text(&sentence(graph, edge))
        );
        put!(out, "<path class=\"{}\" d=\"M{end_x:.0} {end_y:.0}l-8 -4v8z\"/>", if failed { "a ko" } else { "a" });
        if !failed && incoming(graph, edge.to) as f64 > MOST_LABELS {
            continue;
        }
        let side = if before < end_y - 20.0 { 15.0 } else { -6.0 };
        put!(
            labels,
            "<text class=\"{}\" x=\"{:.0}\" y=\"{:.0}\" text-anchor=end>{}</text>",
            if failed { "lb ko" } else { "lb" },
            end_x - 14.0,
            end_y + side,
            label(edge)
        );
    }
    for (node, name) in graph.names.iter().enumerate() {
        let (x, y) = place[node];
        if node == 0 {
            put!(
                out,
                "<text class=client x=\"{x:.0}\" y=\"{:.0}\">client</text><circle class=cl cx=\"{:.0}\" cy=\"{y:.0}\" r=5 />",
                y + 4.0,
                x + 56.0
            );
            continue;
        }
        let h = node_height(graph, node);
        let (top, bare) = (y - h / 2.0, !services.is_recorded(name));
        let title =
            if bare { format!("{name}: sent no history of its own (no SDK, or not reached)") } else { name.clone() };
        put!(out, "<g class=\"nd{}\"><title>{}</title>", if bare { " bare" } else { "" }, text(&title));
        put!(out, "<rect x=\"{x:.0}\" y=\"{top:.1}\" width=\"{NODE_WIDTH}\" height=\"{h:.0}\" rx=8 />");
        put!(
            out,
            "<rect class=\"f{}\" x=\"{:.0}\" y=\"{:.1}\" width=5 height=\"{:.0}\" rx=2.5 />",
            services.colour(name),
            x + 9.0,
            top + 9.0,
            h - 18.0
        );
        put!(out, "<text x=\"{:.0}\" y=\"{:.1}\">{}</text></g>", x + 22.0, y + 4.5, text(&shorten(name, 17)));
    }
    put!(out, "{labels}</svg></div>");
    out
}

fn bugs_named(bugs: &[usize]) -> String {
    if bugs.len() > 4 {
        return counted(bugs.len() as u64, "bug");
    }
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
    let mut out = String::from(
        "<details class=twin><summary>The same as a table</summary><div class=scroll><table><thead><tr><th>Caller<th>Callee<th class=num>Calls<th class=num>Failed<th>Fails in</tr></thead><tbody>",
    );
    for edge in graph.edges.iter().take(500) {
        let from = if edge.from == 0 { "client" } else { &graph.names[edge.from] };
        let bugs = if edge.bugs.is_empty() { "–".to_owned() } else { bugs_named(&edge.bugs) };
        put!(
            out,
            "<tr><td>{}<td>{}<td class=num>{}<td class=num>{}<td>{bugs}</tr>",
            text(from),
            text(&graph.names[edge.to]),
            count(edge.calls),
            count(edge.failed)
        );
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
