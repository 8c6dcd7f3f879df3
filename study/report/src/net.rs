//! Draws a map: dependencies found in the sockets. An arrow leads from a client to the server that it depends on.

use crate::escape::{put, text};
use crate::rows::{Arrow, Placed, place};
use crate::words::{count, counted};
use flows::{Attribution, Edge, Graph, Node, NodeKind, Protocol, Source};
use model::short_names::ShortNames;

const WIDTH: f64 = 168.0;
/// Larger maps are only tables.
const MOST_NODES: usize = 400;
/// Up to this number of arrows, each has a label.
const MOST_LABELS: usize = 48;
/// Rows of the table.
const MOST_ROWS: usize = 2000;

/// A drawing that is wider than the page shrinks to this share, and is scrolled beyond.
const LEAST_SCALE: f64 = 0.8;

/// Characters that fit above an arrow.
const AT_COLUMNS: usize = 16;

/// Sizes for small and large drawings.
struct Scale {
    pitch: f64,
    node: f64,
    gap: f64,
    large: bool,
}

pub(crate) fn svg(graph: &Graph) -> String {
    if graph.edges.is_empty() {
        return "<p class=none>No connections in this range.</p>".to_owned();
    }
    if graph.nodes.len() > MOST_NODES {
        return format!(
            "<p class=note>{} take part: too many to draw. Select a part (<code>faultloom map NAME --hops 2</code>) or group by host. The table lists every edge.</p>{}",
            counted(graph.nodes.len() as u64, "node"),
            table(graph)
        );
    }
    let placed = place(graph);
    let idle = graph.nodes.len() - placed.nodes.len();
    let mut out = draw(graph, &placed);
    out.push_str(&legend(graph));
    if idle > 0 {
        put!(
            out,
            "<p class=note>{} without connections, only with listeners: not drawn.</p>",
            counted(idle as u64, "node")
        );
    }
    out + &table(graph)
}

fn draw(graph: &Graph, placed: &Placed) -> String {
    let large = placed.nodes.len() > 40;
    let scale = if large {
        Scale { pitch: 25.0, node: 20.0, gap: 130.0, large }
    } else {
        Scale { pitch: 50.0, node: 38.0, gap: 96.0, large }
    };
    let (width, height) =
        (placed.columns as f64 * (WIDTH + scale.gap) - scale.gap + 60.0, placed.rows as f64 * scale.pitch + 16.0);
    let mut out = String::new();
    put!(
        out,
        "<div class=scroll><svg class=\"graph net{}\" role=img aria-label=\"Dependencies; the table below has the same content\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" style=\"min-width:{:.0}px\">",
        if large { " large" } else { "" },
        width * LEAST_SCALE
    );
    let labels = placed.nodes.keys().map(|index| graph.nodes[*index].label.as_str());
    let short = Short {
        labels: ShortNames::new(labels, if large { 22 } else { 17 }),
        places: ShortNames::new(graph.edges.iter().map(|edge| edge.at.as_str()), AT_COLUMNS),
    };
    let mut labels = String::new();
    for arrow in &placed.arrows {
        out.push_str(&path(graph, placed, arrow, &scale));
        if placed.arrows.len() <= MOST_LABELS {
            labels.push_str(&label(graph, placed, arrow, &scale, &short));
        }
    }
    for (index, at) in &placed.nodes {
        out.push_str(&node(&graph.nodes[*index], *at, &scale, &short));
    }
    out + &labels + "</svg></div>"
}

/// Names as they are drawn.
struct Short {
    labels: ShortNames,
    places: ShortNames,
}

fn x(column: usize, scale: &Scale) -> f64 {
    10.0 + column as f64 * (WIDTH + scale.gap)
}

fn y(row: usize, scale: &Scale) -> f64 {
    8.0 + (row as f64 + 0.5) * scale.pitch
}

/// Positions of arrowheads at a node: one below the other, in the order of the arrows' starts.
fn port(placed: &Placed, arrow: &Arrow, scale: &Scale) -> f64 {
    let before = |other: &Arrow| other.through.last().copied().unwrap_or_else(|| placed.nodes[&other.from]).1;
    let mut arriving: Vec<(usize, usize)> =
        placed.arrows.iter().filter(|a| a.to == arrow.to).map(|a| (before(a), a.from)).collect();
    arriving.sort_unstable();
    let place = arriving.iter().position(|a| *a == (before(arrow), arrow.from)).unwrap_or(0);
    let room = scale.node - 8.0;
    let step = (room / arriving.len().max(1) as f64).min(12.0);
    (place as f64 - (arriving.len() as f64 - 1.0) / 2.0) * step
}

fn end_of(placed: &Placed, arrow: &Arrow, scale: &Scale) -> (f64, f64) {
    let (column, row) = placed.nodes[&arrow.to];
    (x(column, scale), y(row, scale) + port(placed, arrow, scale))
}

fn path(graph: &Graph, placed: &Placed, arrow: &Arrow, scale: &Scale) -> String {
    let edges = || arrow.edges.iter().map(|i| &graph.edges[*i]);
    let (from, (end_x, end_y)) = (placed.nodes[&arrow.from], end_of(placed, arrow, scale));
    let (mut at_x, mut at_y) = (x(from.0, scale) + WIDTH, y(from.1, scale));
    let failing = edges().all(fails);
    let mut class = String::from("e");
    if failing {
        class.push_str(" ko");
    } else if edges().all(|e| !e.paired) {
        class.push_str(" one");
    }
    let connections: u64 = edges().map(|e| e.counts.opened.max(e.counts.open)).sum();
    let stroke = 1.1 + (connections.max(1) as f64).ln().min(9.0) * 0.22;
    let mut out = String::new();
    put!(out, "<g><path class=\"{class}\" stroke-width=\"{stroke:.1}\" d=\"M{at_x:.0} {at_y:.0}");
    for (column, row) in &arrow.through {
        let (to_x, to_y) = (x(*column, scale), y(*row, scale));
        let bend = (to_x - at_x) * 0.5;
        put!(out, "C{:.0} {at_y:.0} {:.0} {to_y:.0} {to_x:.0} {to_y:.0}H{:.0}", at_x + bend, to_x - bend, to_x + WIDTH);
        (at_x, at_y) = (to_x + WIDTH, to_y);
    }
    if arrow.from == arrow.to {
        // an arrow to its own node: a loop above the right end
        let top = at_y - scale.node / 2.0;
        put!(out, "c26 0 26 {0:.0} -6 {0:.0}\"", -(scale.node * 0.75));
        put!(
            out,
            "><title>{}</title></path><path class=a d=\"M{:.0} {:.1}l-4 -8h8z\"/></g>",
            sentences(graph, arrow),
            at_x - 8.0,
            top
        );
        return out;
    }
    // an arrow to the left is a wide curve
    let bend = if end_x > at_x { (end_x - at_x) * 0.45 } else { 70.0 };
    put!(
        out,
        "C{:.0} {at_y:.0} {:.0} {end_y:.0} {:.0} {end_y:.0}\"><title>{}</title></path>",
        at_x + bend,
        end_x - bend,
        end_x - 6.0,
        sentences(graph, arrow)
    );
    let head = if scale.large { "l-6 -3v6z" } else { "l-8 -4v8z" };
    put!(out, "<path class=\"a{}\" d=\"M{end_x:.0} {end_y:.1}{head}\"/></g>", if failing { " ko" } else { "" });
    out
}

fn label(graph: &Graph, placed: &Placed, arrow: &Arrow, scale: &Scale, short: &Short) -> String {
    let crowd = placed.arrows.iter().filter(|a| a.to == arrow.to).count();
    let first = &graph.edges[arrow.edges[0]];
    if arrow.from == arrow.to {
        return String::new();
    }
    let (end_x, end_y) = end_of(placed, arrow, scale);
    let all_failing = arrow.edges.iter().all(|i| fails(&graph.edges[*i]));
    // several arrows to one port need one label
    if crowd > 1 && !all_failing {
        let same = |a: &&Arrow| a.to == arrow.to && graph.edges[a.edges[0]].at == first.at;
        let topmost = placed.arrows.iter().filter(same).map(|a| port(placed, a, scale)).fold(f64::MAX, f64::min);
        if port(placed, arrow, scale) > topmost {
            return String::new();
        }
    }
    let more = if arrow.edges.len() > 1 { format!(" +{}", arrow.edges.len() - 1) } else { String::new() };
    format!(
        "<text class=\"lb{}\" x=\"{:.0}\" y=\"{:.1}\" text-anchor=end>{}{more}</text>",
        if all_failing { " ko" } else { "" },
        end_x - 12.0,
        end_y - 6.0,
        text(&short.places.get(&first.at))
    )
}

fn fails(edge: &Edge) -> bool {
    edge.counts.failed > 0 && edge.counts.established == 0 && edge.counts.open == 0
}

fn color(kind: NodeKind) -> usize {
    match kind {
        NodeKind::Program | NodeKind::Process => 1,
        NodeKind::Container => 2,
        NodeKind::Unit => 3,
        NodeKind::Host => 4,
        NodeKind::External => 0,
    }
}

fn kind(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Host => "host",
        NodeKind::Container => "container",
        NodeKind::Unit => "systemd unit",
        NodeKind::Program => "program",
        NodeKind::Process => "process",
        NodeKind::External => "external address",
    }
}

fn node(node: &Node, (column, row): (usize, usize), scale: &Scale, short: &Short) -> String {
    let (left, middle) = (x(column, scale), y(row, scale));
    let top = middle - scale.node / 2.0;
    let class = if node.kind == NodeKind::External { "nd bare" } else { "nd" };
    let mut title = vec![format!("{} ({})", node.label, kind(node.kind))];
    if !node.hosts.is_empty() {
        title.push(format!("on {}", node.hosts.join(", ")));
    }
    if !node.listens.is_empty() {
        let more = node.listens.len().saturating_sub(8);
        let shown = node.listens[..node.listens.len() - more].join(", ");
        title.push(format!("listens on {shown}{}", if more > 0 { format!(" and {more} more") } else { String::new() }));
    }
    if node.processes > 1 {
        title.push(format!("{} processes", count(node.processes)));
    }
    let mut out = String::new();
    put!(out, "<g class=\"{class}\"><title>{}</title>", text(&title.join("; ")));
    put!(
        out,
        "<rect x=\"{left:.0}\" y=\"{top:.1}\" width=\"{WIDTH}\" height=\"{:.0}\" rx=\"{}\" />",
        scale.node,
        if scale.large { 5 } else { 8 }
    );
    let inset = if scale.large { 4.0 } else { 9.0 };
    put!(
        out,
        "<rect class=\"f{}\" x=\"{:.0}\" y=\"{:.1}\" width=5 height=\"{:.0}\" rx=2.5 />",
        color(node.kind),
        left + 8.0,
        top + inset,
        scale.node - 2.0 * inset
    );
    let size = if scale.large { 4.0 } else { 4.5 };
    put!(
        out,
        "<text x=\"{:.0}\" y=\"{:.1}\">{}</text></g>",
        left + 20.0,
        middle + size,
        text(&short.labels.get(&node.label))
    );
    out
}

fn protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
        Protocol::Unix => "Unix socket",
    }
}

/// How the owners of an edge's ends were determined.
fn owner(attribution: Attribution) -> &'static str {
    match attribution {
        Attribution::Exact => "owner known",
        Attribution::Listener => "owner by its listener",
        Attribution::None => "owner unknown",
    }
}

fn source(source: Source) -> &'static str {
    match source {
        Source::Ebpf => "counted in the kernel",
        Source::Polling => "polled",
        Source::Tuples => "polled without owners",
    }
}

fn bytes(n: u64) -> String {
    match n {
        0..10_000 => format!("{} B", count(n)),
        10_000..10_000_000 => format!("{} kB", count(n / 1_000)),
        10_000_000..10_000_000_000 => format!("{} MB", count(n / 1_000_000)),
        _ => format!("{} GB", count(n / 1_000_000_000)),
    }
}

fn sentences(graph: &Graph, arrow: &Arrow) -> String {
    let lines: Vec<String> = arrow.edges.iter().take(8).map(|i| sentence(graph, &graph.edges[*i])).collect();
    let more = arrow.edges.len().saturating_sub(8);
    let more = if more > 0 { format!("\nand {more} more") } else { String::new() };
    text(&(lines.join("\n") + &more)).to_string()
}

fn sentence(graph: &Graph, edge: &Edge) -> String {
    let c = &edge.counts;
    let mut parts = vec![format!("{} opened", count(c.opened))];
    if c.failed > 0 {
        parts.push(format!("{} failed", count(c.failed)));
    }
    parts.push(format!("{} open", count(c.open)));
    parts.push(format!("{} sent, {} received", bytes(c.sent), bytes(c.received)));
    parts.push(if edge.paired { "both ends observed" } else { "one end observed" }.to_owned());
    parts.push(format!("{}, {}", owner(edge.attribution), source(edge.source)));
    if edge.translated {
        parts.push("through address translation".to_owned());
    }
    format!(
        "{} → {} {} {}: {}",
        name(graph, &edge.from),
        name(graph, &edge.to),
        protocol(edge.protocol),
        edge.at,
        parts.join("; ")
    )
}

fn name<'g>(graph: &'g Graph, id: &'g str) -> &'g str {
    graph.nodes.iter().find(|node| node.id == id).map_or(id, |node| &node.label)
}

fn legend(graph: &Graph) -> String {
    let mut out = String::from("<ul class=\"legend net-legend\">");
    let mut kinds: Vec<NodeKind> = graph.nodes.iter().map(|n| n.kind).collect();
    kinds.sort();
    kinds.dedup();
    for k in kinds {
        put!(out, "<li><span class=\"k s{}\"></span>{}", color(k), kind(k));
    }
    let line = |class: &str| {
        format!(
            "<svg class=\"graph net key\" width=34 height=10 aria-hidden=true><path class=\"{class}\" stroke-width=1.8 d=\"M1 5H33\"/></svg>"
        )
    };
    put!(out, "<li>{}both ends observed", line("e"));
    if graph.edges.iter().any(|e| !e.paired) {
        put!(out, "<li>{}one end observed: no agent at the other end, or its records are missing", line("e one"));
    }
    if graph.edges.iter().any(fails) {
        put!(out, "<li>{}every connection failed", line("e ko"));
    }
    out + "<li>an arrow leads from a client to its server</ul>"
}

fn table(graph: &Graph) -> String {
    let mut out = String::from(
        "<details class=twin><summary>As a table</summary><div class=scroll><table><thead><tr><th>Client<th>depends on<th>at<th class=num>Opened<th class=num>Failed<th class=num>Open<th class=num>Sent<th class=num>Received<th>Observed</tr></thead><tbody>",
    );
    for edge in graph.edges.iter().take(MOST_ROWS) {
        let c = &edge.counts;
        put!(
            out,
            "<tr><td>{}<td>{}<td>{} {}<td class=num>{}<td class=num>{}<td class=num>{}<td class=num>{}<td class=num>{}<td>{}, {}</tr>",
            text(name(graph, &edge.from)),
            text(name(graph, &edge.to)),
            protocol(edge.protocol),
            text(&edge.at),
            count(c.opened),
            count(c.failed),
            count(c.open),
            bytes(c.sent),
            bytes(c.received),
            if edge.paired { "both ends" } else { "one end" },
            owner(edge.attribution)
        );
    }
    if graph.edges.len() > MOST_ROWS {
        put!(out, "<tr><td colspan=9>and {} more</tr>", count((graph.edges.len() - MOST_ROWS) as u64));
    }
    out + "</tbody></table></div></details>"
}
