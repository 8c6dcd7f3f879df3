//! Compares recorded calls with the edges of the map and gives the reason for each difference.

use crate::graph::Map;
use flows::{Comparison, Edge, Graph, Node, ObservedBy, Protocol};
use std::collections::{BTreeMap, BTreeSet};

/// The recorded calls, and the data that maps their service names to nodes.
pub struct RecordedCalls {
    /// Name of each service in the target file, and its ports.
    pub services: Vec<(String, Vec<u16>)>,
    /// Services without an SDK, such as caches; their calls are not recorded.
    pub uninstrumented: BTreeSet<String>,
    /// Number of recorded calls by caller and callee. The name of the client is empty.
    pub calls: BTreeMap<(String, String), u64>,
    /// Calls that were never sent because of a fault.
    pub withheld: BTreeSet<(String, String)>,
    /// File name of the tool's own executable, which sends the requests and health checks.
    pub tool: String,
}

/// The result of a comparison.
pub struct Compared {
    /// The part of the map around the target's services, with the names of the target file.
    pub graph: Graph,
    /// Every dependency, sorted.
    pub rows: Vec<Comparison>,
}

/// Name of the tool, which sends the requests and health checks.
const CLIENT: &str = "client";

/// Compares a map by service with recorded calls.
pub fn compare(map: &Map, recorded: &RecordedCalls) -> Compared {
    let names = names(map, recorded);
    let target_services: BTreeSet<&str> = recorded.services.iter().map(|(name, _)| name.as_str()).collect();
    let is_service = |id: &str| names.get(id).is_some_and(|name| target_services.contains(name.as_str()));
    let ports: BTreeMap<&str, BTreeSet<String>> = recorded
        .services
        .iter()
        .map(|(name, ports)| (name.as_str(), ports.iter().map(|port| format!(":{port}")).collect()))
        .collect();
    // Another instance of the same program, on other ports, is the same node of the map but not part of the target.
    let other_port = |edge: &Edge| {
        let name = names.get(&edge.to).filter(|_| !edge.translated && edge.at.starts_with(':'))?;
        ports.get(name.as_str()).filter(|own| !own.contains(&edge.at)).map(|_| format!("{name}{}", edge.at))
    };
    let is_of_target = |edge: &Edge| (is_service(&edge.from) || is_service(&edge.to)) && other_port(edge).is_none();
    let mut graph = target_part(&map.graph, &names, is_of_target);
    let others: BTreeSet<String> = map.graph.edges.iter().filter_map(other_port).collect();
    if !others.is_empty() {
        let others = others.into_iter().collect::<Vec<_>>().join(", ");
        graph.remarks.push(format!(
            "connections to ports that the target file does not list are left out: {others}; they belong to another instance, \
             or to a port that is missing in the file"
        ));
    }
    let label = |id: &String| names.get(id).or_else(|| label(&graph, id)).unwrap_or(id).clone();
    let mut connections: BTreeMap<(String, String), u64> = BTreeMap::new();
    for edge in graph.edges.iter().filter(|e| e.from != e.to) {
        *connections.entry((label(&edge.from), label(&edge.to))).or_default() +=
            edge.counts.opened.max(edge.counts.open);
    }
    let client = |name: &String| if name.is_empty() { CLIENT.to_owned() } else { name.clone() };
    let calls: BTreeMap<(String, String), u64> =
        recorded.calls.iter().map(|((from, to), n)| ((client(from), to.clone()), *n)).collect();
    let pairs: BTreeSet<&(String, String)> = connections.keys().chain(calls.keys()).collect();
    let row = |pair: &(String, String)| {
        let (calls, connections) = (calls.get(pair).copied().unwrap_or(0), connections.get(pair).copied());
        let (observed_by, reason) = match (calls, connections) {
            (0, Some(_)) => (ObservedBy::Sockets, reason_sockets_only(recorded, &target_services, pair)),
            (_, None) => (ObservedBy::Messages, reason_messages_only(recorded, pair)),
            _ => (ObservedBy::Both, String::new()),
        };
        let (from, to) = pair.clone();
        Comparison { from, to, observed_by, calls, connections: connections.unwrap_or(0), reason }
    };
    let rows = pairs.into_iter().map(row).collect();
    Compared { graph, rows }
}

/// Edges of the target, and their nodes with the names of the target file. Nodes of equal name are merged, because each
/// command of the tool is a separate program and a service may consist of several.
fn target_part(graph: &Graph, names: &BTreeMap<String, String>, is_of_target: impl Fn(&Edge) -> bool) -> Graph {
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    for node in &graph.nodes {
        if let Some(name) = names.get(&node.id) {
            first.entry(name).or_insert(&node.id);
        }
    }
    let representative = |id: &str| names.get(id).map_or(id, |name| first[name.as_str()]).to_owned();
    let mut edges: BTreeMap<(String, String, Protocol, String), Edge> = BTreeMap::new();
    for edge in graph.edges.iter().filter(|edge| is_of_target(edge)) {
        let (from, to) = (representative(&edge.from), representative(&edge.to));
        let key = (from.clone(), to.clone(), edge.protocol, edge.at.clone());
        edges.entry(key).and_modify(|merged| merged.add_concurrent(edge)).or_insert_with(|| Edge {
            from,
            to,
            ..edge.clone()
        });
    }
    let edges: Vec<Edge> = edges.into_values().collect();
    let ends: BTreeSet<&str> = edges.iter().flat_map(|e| [e.from.as_str(), e.to.as_str()]).collect();
    let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
    for node in &graph.nodes {
        let id = representative(&node.id);
        if !ends.contains(id.as_str()) {
            continue;
        }
        let label = names.get(&node.id).unwrap_or(&node.label).clone();
        let own = Node { id: id.clone(), label, ..node.clone() };
        nodes.entry(id).and_modify(|merged| merge_nodes(merged, node)).or_insert(own);
    }
    Graph { nodes: nodes.into_values().collect(), edges, remarks: graph.remarks.clone() }
}

fn merge_nodes(merged: &mut Node, other: &Node) {
    merged.processes += other.processes;
    merged.hosts = merged.hosts.iter().chain(&other.hosts).cloned().collect::<BTreeSet<_>>().into_iter().collect();
    merged.listens =
        merged.listens.iter().chain(&other.listens).cloned().collect::<BTreeSet<_>>().into_iter().collect();
}

fn label<'g>(graph: &'g Graph, id: &str) -> Option<&'g String> {
    graph.nodes.iter().find(|node| node.id == id).map(|node| &node.label)
}

/// Names of the nodes that are services of the target or the tool.
fn names(map: &Map, recorded: &RecordedCalls) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for (name, ports) in &recorded.services {
        for (host, key) in ports.iter().flat_map(|port| map.addresses.listening(None, *port)) {
            let end = crate::names::Endpoint::Service { host, key, process: None };
            names.insert(map.names.id(&end), name.clone());
        }
    }
    for ((host, key), service) in &map.names.services {
        // a process that ended before it was read has only a name
        let file = service.executable.as_deref().and_then(|path| path.rsplit('/').next());
        if service.name == recorded.tool || file == Some(recorded.tool.as_str()) {
            let end = crate::names::Endpoint::Service { host: *host, key, process: None };
            names.entry(map.names.id(&end)).or_insert_with(|| CLIENT.to_owned());
        }
    }
    names
}

fn reason_sockets_only(
    recorded: &RecordedCalls,
    target_services: &BTreeSet<&str>,
    (from, to): &(String, String),
) -> String {
    if from == CLIENT {
        return format!("a health check of {to} by faultloom, which is not part of a recorded request");
    }
    if recorded.uninstrumented.contains(to) {
        return format!("{to} carries no SDK, so the calls from {from} are not recorded");
    }
    if recorded.uninstrumented.contains(from) {
        return format!("{from} carries no SDK, so its calls are not recorded");
    }
    if !target_services.contains(from.as_str()) {
        return format!("{from} is not a service of the target");
    }
    if !target_services.contains(to.as_str()) {
        return format!("{to} is not a service of the target, so it records nothing");
    }
    "a connection of another request, or one that stays open without use by a recorded request".to_owned()
}

fn reason_messages_only(recorded: &RecordedCalls, pair: &(String, String)) -> String {
    let (from, to) = pair;
    if recorded.withheld.contains(pair) {
        return format!("{from} never sent this call, because a fault prevented it each time");
    }
    if from == CLIENT {
        return "the tool's connection was too short to be observed, or its process ended before it was identified"
            .to_owned();
    }
    format!("no connection from {from} to {to} was observed; it may have been too short to be found by polling")
}
