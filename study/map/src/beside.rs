//! Recorded calls beside the sockets' edges, each difference with its reason.

use crate::atlas::Map;
use flows::{Beside, Edge, Graph, Node, Protocol, SeenBy};
use std::collections::{BTreeMap, BTreeSet};

/// What the messages say, and how their names lead to nodes.
pub struct Asked {
    /// A service as the target file calls it, and the ports it listens on.
    pub services: Vec<(String, Vec<u16>)>,
    /// Services that carry no SDK, such as caches: their calls are not recorded.
    pub silent: BTreeSet<String>,
    /// Caller, callee and how many recorded calls there were between them. The client's name is empty.
    pub calls: BTreeMap<(String, String), u64>,
    /// Calls that were never sent because a fault stood in their way.
    pub withheld: BTreeSet<(String, String)>,
    /// Name of the tool's own executable: it asks for health and sends the requests.
    pub tool: String,
}

/// What both views show together.
pub struct Compared {
    /// The map's part that the services of the target take part in, with the names of the target file.
    pub graph: Graph,
    /// Every dependency between them, sorted.
    pub rows: Vec<Beside>,
}

/// Who sent the recorded requests and asked for health.
const CLIENT: &str = "client";

/// The map must be one by service.
pub fn beside(map: &Map, asked: &Asked) -> Compared {
    let names = names(map, asked);
    let known: BTreeSet<&str> = asked.services.iter().map(|(name, _)| name.as_str()).collect();
    let is_service = |id: &str| names.get(id).is_some_and(|name| known.contains(name.as_str()));
    let graph = part(&map.graph, &names, is_service);
    let label = |id: &String| names.get(id).or_else(|| label(&graph, id)).unwrap_or(id).clone();
    let mut connections: BTreeMap<(String, String), u64> = BTreeMap::new();
    for edge in graph.edges.iter().filter(|e| e.from != e.to) {
        *connections.entry((label(&edge.from), label(&edge.to))).or_default() +=
            edge.counts.opened.max(edge.counts.open);
    }
    let client = |name: &String| if name.is_empty() { CLIENT.to_owned() } else { name.clone() };
    let calls: BTreeMap<(String, String), u64> =
        asked.calls.iter().map(|((from, to), n)| ((client(from), to.clone()), *n)).collect();
    let pairs: BTreeSet<&(String, String)> = connections.keys().chain(calls.keys()).collect();
    let row = |pair: &(String, String)| {
        let (calls, connections) = (calls.get(pair).copied().unwrap_or(0), connections.get(pair).copied());
        let (seen, why) = match (calls, connections) {
            (0, Some(_)) => (SeenBy::Sockets, only_sockets(asked, &known, pair)),
            (_, None) => (SeenBy::Messages, only_messages(asked, pair)),
            _ => (SeenBy::Both, String::new()),
        };
        let (from, to) = pair.clone();
        Beside { from, to, seen, calls, connections: connections.unwrap_or(0), why }
    };
    let rows = pairs.into_iter().map(row).collect();
    Compared { graph, rows }
}

/// Edges that begin or end at a service of the target, and their nodes, labelled as the target file does. Nodes of one name are one:
/// each command of the tool is a program of its own, and a service of the target may be several.
fn part(graph: &Graph, names: &BTreeMap<String, String>, is_service: impl Fn(&str) -> bool) -> Graph {
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    for node in &graph.nodes {
        if let Some(name) = names.get(&node.id) {
            first.entry(name).or_insert(&node.id);
        }
    }
    let stands_for = |id: &str| names.get(id).map_or(id, |name| first[name.as_str()]).to_owned();
    let mut edges: BTreeMap<(String, String, Protocol, String), Edge> = BTreeMap::new();
    for edge in graph.edges.iter().filter(|e| is_service(&e.from) || is_service(&e.to)) {
        let (from, to) = (stands_for(&edge.from), stands_for(&edge.to));
        let key = (from.clone(), to.clone(), edge.protocol, edge.at.clone());
        edges.entry(key).and_modify(|one| one.add_beside(edge)).or_insert_with(|| Edge { from, to, ..edge.clone() });
    }
    let edges: Vec<Edge> = edges.into_values().collect();
    let ends: BTreeSet<&str> = edges.iter().flat_map(|e| [e.from.as_str(), e.to.as_str()]).collect();
    let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
    for node in &graph.nodes {
        let id = stands_for(&node.id);
        if !ends.contains(id.as_str()) {
            continue;
        }
        let label = names.get(&node.id).unwrap_or(&node.label).clone();
        let own = Node { id: id.clone(), label, ..node.clone() };
        nodes.entry(id).and_modify(|one| join(one, node)).or_insert(own);
    }
    Graph { nodes: nodes.into_values().collect(), edges, remarks: graph.remarks.clone() }
}

fn join(one: &mut Node, other: &Node) {
    one.processes += other.processes;
    one.hosts = one.hosts.iter().chain(&other.hosts).cloned().collect::<BTreeSet<_>>().into_iter().collect();
    one.listens = one.listens.iter().chain(&other.listens).cloned().collect::<BTreeSet<_>>().into_iter().collect();
}

fn label<'g>(graph: &'g Graph, id: &str) -> Option<&'g String> {
    graph.nodes.iter().find(|node| node.id == id).map(|node| &node.label)
}

/// The name of each node that is a service of the target, or the tool.
fn names(map: &Map, asked: &Asked) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for (name, ports) in &asked.services {
        for (host, key) in ports.iter().flat_map(|port| map.places.listening(None, *port)) {
            let end = crate::names::End::Service { host, key, process: None };
            names.insert(map.names.id(&end), name.clone());
        }
    }
    for ((host, key), service) in &map.names.services {
        // of a process that was gone at once only the name is known
        let file = service.executable.as_deref().and_then(|path| path.rsplit('/').next());
        if service.name == asked.tool || file == Some(asked.tool.as_str()) {
            let end = crate::names::End::Service { host: *host, key, process: None };
            names.entry(map.names.id(&end)).or_insert_with(|| CLIENT.to_owned());
        }
    }
    names
}

fn only_sockets(asked: &Asked, known: &BTreeSet<&str>, (from, to): &(String, String)) -> String {
    if from == CLIENT {
        return format!("faultloom asked {to} whether it is healthy; that is no call of a recorded request");
    }
    if asked.silent.contains(to) {
        return format!("{to} carries no SDK: what {from} says to it is not in any message that is recorded");
    }
    if asked.silent.contains(from) {
        return format!("{from} carries no SDK: its calls are not recorded");
    }
    if !known.contains(from.as_str()) {
        return format!("{from} is no service of the target");
    }
    if !known.contains(to.as_str()) {
        return format!("{to} is no service of the target, so nobody there records anything");
    }
    "a connection of another request, or one kept open: no recorded request used it".to_owned()
}

fn only_messages(asked: &Asked, pair: &(String, String)) -> String {
    let (from, to) = pair;
    if asked.withheld.contains(pair) {
        return format!("a fault stood in the way each time: {from} never sent it");
    }
    if from == CLIENT {
        return "the tool's connection was too short to be seen, or its process was gone before it could be named"
            .to_owned();
    }
    format!("no connection from {from} to {to} was seen: it was too short for the way the sockets are looked at")
}
