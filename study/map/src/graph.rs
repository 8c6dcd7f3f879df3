//! Builds the graph of a map and records what its nodes consist of.

use crate::By;
use crate::address_index::AddressIndex;
use crate::names::{Endpoint, Names};
use crate::pairing::{Pairing, pair_flows};
use crate::warnings::warnings;
use flows::{Edge, Graph, ListenAddress, Node, ProcessId, Protocol, Slice};
use std::collections::{BTreeMap, BTreeSet};

/// The dependency graph of a slice.
pub struct Map<'a> {
    pub graph: Graph,
    pub(crate) addresses: AddressIndex<'a>,
    pub(crate) names: Names<'a>,
    /// Endpoints by the node to which they belong.
    pub(crate) members: BTreeMap<String, BTreeSet<Endpoint<'a>>>,
    /// For each flow, as (host, index among its flows), the index of its edge.
    flow_edges: Vec<((usize, usize), usize)>,
}

impl<'a> Map<'a> {
    pub fn of(slice: &'a Slice, by: By) -> Map<'a> {
        let addresses = AddressIndex::of(slice);
        let names = Names::of(&addresses, by);
        let Pairing { dependencies, ambiguous } = pair_flows(&addresses, &names);
        let remarks = warnings(slice, &addresses, &ambiguous);
        let graph = Graph { remarks, ..Graph::default() };
        let mut map = Map { graph, addresses, names, members: BTreeMap::new(), flow_edges: Vec::new() };
        map.add_listeners();
        let mut edges: BTreeMap<(String, String, Protocol, String), Edge> = BTreeMap::new();
        let mut flow_edges = Vec::new();
        for dependency in &dependencies {
            let [from, to] = [&dependency.from, &dependency.to].map(|end| map.add_member(end));
            let at = match dependency.at {
                ListenAddress::Inet { port, .. } => format!(":{port}"),
                ListenAddress::Path(path) => path.clone(),
            };
            let edge = Edge {
                from: from.clone(),
                to: to.clone(),
                protocol: dependency.protocol,
                at: at.clone(),
                counts: dependency.counts,
                paired: dependency.paired,
                source: dependency.source,
                attribution: dependency.attribution,
                translated: dependency.translated,
            };
            let key = (from, to, dependency.protocol, at);
            flow_edges.extend(dependency.flows.iter().map(|flow| ((flow.namespace.host, flow.index), key.clone())));
            edges.entry(key).and_modify(|existing| existing.add_concurrent(&edge)).or_insert(edge);
        }
        let indices: BTreeMap<_, usize> = edges.keys().enumerate().map(|(i, key)| (key, i)).collect();
        map.flow_edges = flow_edges.iter().map(|(flow, key)| (*flow, indices[key])).collect();
        map.graph.edges = edges.into_values().collect();
        map.graph.nodes = map.nodes();
        map
    }

    /// For each flow, as (host, index among the host's flows) with hosts sorted by id, the index of its edge.
    pub fn flows_on_edges(&self) -> impl Iterator<Item = ((usize, usize), usize)> {
        self.flow_edges.iter().copied()
    }

    fn add_member(&mut self, end: &Endpoint<'a>) -> String {
        let id = self.names.id(end);
        self.members.entry(id.clone()).or_default().insert(end.clone());
        id
    }

    /// Adds a node for every listener, even without connections.
    fn add_listeners(&mut self) {
        for host in 0..self.addresses.hosts.len() {
            let slice = self.addresses.hosts[host];
            let listening: BTreeSet<_> = slice.listeners.iter().map(|listener| &listener.service).collect();
            if self.names.by == By::Process {
                for process in slice.processes.iter().filter(|p| listening.contains(&p.service)) {
                    self.add_member(&Endpoint::Service { host, key: &process.service, process: Some(process.id) });
                }
            } else {
                for key in listening {
                    self.add_member(&Endpoint::Service { host, key, process: None });
                }
            }
        }
    }

    fn nodes(&self) -> Vec<Node> {
        let (listens, processes) = (self.listens(), self.processes());
        let node = |(id, members): (&String, &BTreeSet<Endpoint>)| {
            let end = members.first().expect("a node has members");
            let mut hosts = BTreeSet::new();
            let mut at = BTreeSet::new();
            let mut instances = BTreeSet::new();
            for member in members {
                match member {
                    Endpoint::External(_) => {}
                    Endpoint::Host(host) => {
                        hosts.insert(*host);
                    }
                    Endpoint::Service { host, key, process } => {
                        hosts.insert(*host);
                        at.extend(listens.get(&(*host, *key)).into_iter().flatten().cloned());
                        match process {
                            Some(process) => instances.extend([(*host, *process)]),
                            None => instances
                                .extend(processes.get(&(*host, *key)).into_iter().flatten().map(|p| (*host, *p))),
                        }
                    }
                }
            }
            Node {
                id: id.clone(),
                kind: self.names.kind(end),
                label: self.names.label(end),
                hosts: hosts.into_iter().map(|host| self.names.host_name(host).to_owned()).collect(),
                listens: at.into_iter().collect(),
                processes: instances.len() as u64,
            }
        };
        self.members.iter().map(node).collect()
    }

    fn listens(&self) -> BTreeMap<(usize, &'a flows::ServiceKey), BTreeSet<String>> {
        let mut listens: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
        for (host, slice) in self.addresses.hosts.iter().enumerate() {
            for listener in &slice.listeners {
                let at = match &listener.at {
                    ListenAddress::Inet { ip, port } if ip.is_unspecified() => format!(":{port}"),
                    at => at.to_string(),
                };
                listens.entry((host, &listener.service)).or_default().insert(at);
            }
        }
        listens
    }

    fn processes(&self) -> BTreeMap<(usize, &'a flows::ServiceKey), BTreeSet<ProcessId>> {
        let mut processes: BTreeMap<_, BTreeSet<ProcessId>> = BTreeMap::new();
        for (host, slice) in self.addresses.hosts.iter().enumerate() {
            let idle = slice.processes.iter().map(|p| (&p.service, p.id));
            let active = slice.flows.iter().filter_map(|f| f.process.map(|process| (&f.service, process)));
            for (service, process) in idle.chain(active) {
                processes.entry((host, service)).or_default().insert(process);
            }
        }
        processes
    }
}
