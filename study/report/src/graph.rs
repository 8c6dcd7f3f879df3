//! Calls between services, as an SVG and as a table.

use crate::escape::{put, text};
use crate::layout::{Layout, MOST_LABELS, NODE_WIDTH, incoming, lay_out, node_height, port_pitch};
use crate::services::Services;
use crate::words::{self, count, counted};
use model::short_names::ShortNames;
use model::trace::{Call, Trace};

/// With more services a drawing is not legible.
const MOST_NODES: usize = 120;
/// Characters that fit into a node.
const NAME_COLUMNS: usize = 17;
pub(crate) struct Edge {
    pub from: usize,
    pub to: usize,
    calls: u64,
    failed: u64,
    /// Numbers (from 1) of the bugs in which a call of this edge fails.
    bugs: Vec<usize>,
}

pub(crate) struct Graph {
    /// The first is the client, without a name.
    pub names: Vec<String>,
    pub edges: Vec<Edge>,
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
}

fn all_calls(trace: &Trace) -> impl Iterator<Item = &Call> {
    std::iter::once(&trace.entry).chain(trace.walk())
}

/// All calls of `traces` are counted. Of `failing`, the requests of the bugs, only failed calls and new edges are
/// drawn.
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

fn draw(graph: &Graph, services: &Services) -> String {
    let Layout { positions, through, width, height } = lay_out(graph);
    let mut out = String::new();
    put!(
        out,
        "<div class=scroll><svg class=graph role=img aria-label=\"Services and the calls between them; the table below has the same content\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\">"
    );
    let mut arrived = vec![0usize; graph.names.len()];
    let mut labels = String::new();
    for (edge, through) in graph.edges.iter().zip(&through) {
        let (mut x, mut y) =
            (positions[edge.from].0 + if edge.from == 0 { 66.0 } else { NODE_WIDTH }, positions[edge.from].1);
        let port = arrived[edge.to] as f64 - (incoming(graph, edge.to) as f64 - 1.0) / 2.0;
        arrived[edge.to] += 1;
        let (end_x, end_y) = (positions[edge.to].0, positions[edge.to].1 + port * port_pitch(graph, edge.to));
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
            let (to_x, to_y) = positions[*slot];
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
        // an edge to the left is a wide curve
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
    let short = ShortNames::new(graph.names.iter().map(String::as_str), NAME_COLUMNS);
    for (node, name) in graph.names.iter().enumerate() {
        let (x, y) = positions[node];
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
        let title = if bare { format!("{name}: returned no history (no SDK, or not reached)") } else { name.clone() };
        put!(out, "<g class=\"nd{}\"><title>{}</title>", if bare { " bare" } else { "" }, text(&title));
        put!(out, "<rect x=\"{x:.0}\" y=\"{top:.1}\" width=\"{NODE_WIDTH}\" height=\"{h:.0}\" rx=8 />");
        put!(
            out,
            "<rect class=\"f{}\" x=\"{:.0}\" y=\"{:.1}\" width=5 height=\"{:.0}\" rx=2.5 />",
            services.color(name),
            x + 9.0,
            top + 9.0,
            h - 18.0
        );
        put!(out, "<text x=\"{:.0}\" y=\"{:.1}\">{}</text></g>", x + 22.0, y + 4.5, text(&short.get(name)));
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
    let mut label = if edge.calls > 0 { format!("×{}", count(edge.calls)) } else { "only with faults".to_owned() };
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
        "<details class=twin><summary>As a table</summary><div class=scroll><table><thead><tr><th>Caller<th>Callee<th class=num>Calls<th class=num>Failed<th>Fails in</tr></thead><tbody>",
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
