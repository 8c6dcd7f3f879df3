//! The view of a map: services and the connections between them. Also the sockets of a recorded request.

use super::{Content, Head, RunView};
use crate::{ComparedSockets, MapReport, map};
use flows::{Graph, NodeKind, ObservedBy, Protocol};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MapNode {
    /// The same in every map of the same node.
    pub id: String,
    /// `host`, `container`, `unit`, `program`, `process`, `external`.
    pub kind: String,
    pub label: String,
    pub hosts: Vec<String>,
    /// Ports and paths it listens on.
    pub listens: Vec<String>,
    pub processes: u64,
    /// Column and row of a layout that changes little when nodes come and go; none for nodes without edges.
    pub column: Option<u32>,
    pub row: Option<u32>,
}

/// `from` depends on `to`; both are indices of nodes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MapEdge {
    pub from: u32,
    pub to: u32,
    pub protocol: String,
    /// Listen address of `to`: `:8080` or a path.
    pub at: String,
    pub opened: u64,
    pub established: u64,
    /// Never established: refused, timed out, unreachable.
    pub failed: u64,
    pub closed: u64,
    pub open_at_end: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Both ends were observed.
    pub paired: bool,
    /// `ebpf`, `polling`, `tuples`.
    pub source: String,
    /// Passes an address translation or a proxy that is not shown.
    pub translated: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct MapView {
    pub nodes: Vec<MapNode>,
    pub edges: Vec<MapEdge>,
}

impl MapView {
    pub fn of(report: &MapReport, head: Head) -> RunView {
        let content = Content::Map(MapView::of_graph(report.graph));
        RunView::new(report.run, head, content, map::notes(report.graph))
    }

    pub(super) fn of_graph(graph: &Graph) -> MapView {
        let placed = crate::rows::place(graph);
        let index = |id: &str| graph.nodes.iter().position(|node| node.id == id).map(|at| at as u32);
        let nodes = graph.nodes.iter().enumerate().map(|(i, node)| {
            let place = placed.nodes.get(&i);
            MapNode {
                id: node.id.clone(),
                kind: kind(node.kind).to_owned(),
                label: node.label.clone(),
                hosts: node.hosts.clone(),
                listens: node.listens.clone(),
                processes: node.processes,
                column: place.map(|(column, _)| *column as u32),
                row: place.map(|(_, row)| *row as u32),
            }
        });
        let edges = graph.edges.iter().filter_map(|edge| {
            Some(MapEdge {
                from: index(&edge.from)?,
                to: index(&edge.to)?,
                protocol: protocol(edge.protocol).to_owned(),
                at: edge.at.clone(),
                opened: edge.counts.opened,
                established: edge.counts.established,
                failed: edge.counts.failed,
                closed: edge.counts.closed,
                open_at_end: edge.counts.open,
                sent_bytes: edge.counts.sent,
                received_bytes: edge.counts.received,
                paired: edge.paired,
                source: edge.source.as_str().to_owned(),
                translated: edge.translated,
            })
        });
        MapView { nodes: nodes.collect(), edges: edges.collect() }
    }
}

fn kind(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Host => "host",
        NodeKind::Container => "container",
        NodeKind::Unit => "unit",
        NodeKind::Program => "program",
        NodeKind::Process => "process",
        NodeKind::External => "external",
    }
}

fn protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Unix => "unix",
    }
}

/// One dependency as messages and sockets show it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SocketRow {
    pub from: String,
    pub to: String,
    /// `both`, `sockets`, `messages`.
    pub observed_by: String,
    pub calls: u64,
    pub connections: u64,
    /// Why only one of them contains it.
    pub reason: String,
}

/// Connections during a run, compared with its recorded calls.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SocketsView {
    pub map: MapView,
    pub rows: Vec<SocketRow>,
    pub remarks: Vec<String>,
}

impl SocketsView {
    pub(super) fn of(sockets: &ComparedSockets) -> SocketsView {
        let rows = sockets.rows.iter().map(|row| SocketRow {
            from: row.from.clone(),
            to: row.to.clone(),
            observed_by: match row.observed_by {
                ObservedBy::Both => "both",
                ObservedBy::Sockets => "sockets",
                ObservedBy::Messages => "messages",
            }
            .to_owned(),
            calls: row.calls,
            connections: row.connections,
            reason: row.reason.clone(),
        });
        SocketsView {
            map: MapView::of_graph(sockets.graph),
            rows: rows.collect(),
            remarks: sockets.graph.remarks.clone(),
        }
    }
}
