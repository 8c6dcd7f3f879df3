//! A graph, and what its nodes consist of.

use crate::By;
use crate::names::{End, Names};
use crate::places::Places;
use crate::remarks::remarks;
use crate::ties::{Ties, ties};
use flows::{Edge, Graph, Instance, Node, Passive, Protocol, Slice};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that a slice tells about who depends on whom.
pub struct Map<'a> {
    pub graph: Graph,
    pub(crate) places: Places<'a>,
    pub(crate) names: Names<'a>,
    /// Ends by the node they belong to.
    pub(crate) members: BTreeMap<String, BTreeSet<End<'a>>>,
    /// Host, position among its flows, and the edge it is counted on.
    carried: Vec<((usize, usize), usize)>,
}

impl<'a> Map<'a> {
    pub fn of(slice: &'a Slice, by: By) -> Map<'a> {
        let places = Places::of(slice);
        let names = Names::of(&places, by);
        let Ties { ties, ambiguous } = ties(&places, &names);
        let remarks = remarks(slice, &places, &ambiguous);
        let graph = Graph { remarks, ..Graph::default() };
        let mut map = Map { graph, places, names, members: BTreeMap::new(), carried: Vec::new() };
        map.idle();
        let mut edges: BTreeMap<(String, String, Protocol, String), Edge> = BTreeMap::new();
        let mut carried = Vec::new();
        for tie in &ties {
            let [from, to] = [&tie.from, &tie.to].map(|end| map.enter(end));
            let at = match tie.at {
                Passive::Inet { port, .. } => format!(":{port}"),
                Passive::Path(path) => path.clone(),
            };
            let edge = Edge {
                from: from.clone(),
                to: to.clone(),
                protocol: tie.protocol,
                at: at.clone(),
                counts: tie.counts,
                paired: tie.paired,
                source: tie.source,
                attribution: tie.attribution,
                translated: tie.translated,
            };
            let key = (from, to, tie.protocol, at);
            carried.extend(tie.views.iter().map(|view| ((view.place.host, view.index), key.clone())));
            edges.entry(key).and_modify(|known| known.add_beside(&edge)).or_insert(edge);
        }
        let places: BTreeMap<_, usize> = edges.keys().enumerate().map(|(i, key)| (key, i)).collect();
        map.carried = carried.iter().map(|(flow, key)| (*flow, places[key])).collect();
        map.graph.edges = edges.into_values().collect();
        map.graph.nodes = map.nodes();
        map
    }

    /// Each flow, as (host, position among the host's flows) with hosts sorted by id, and the index of the edge it is part of.
    pub fn flows_on_edges(&self) -> impl Iterator<Item = ((usize, usize), usize)> {
        self.carried.iter().copied()
    }

    fn enter(&mut self, end: &End<'a>) -> String {
        let id = self.names.id(end);
        self.members.entry(id.clone()).or_default().insert(end.clone());
        id
    }

    /// Who listens is a node, also if nobody connects to it.
    fn idle(&mut self) {
        for host in 0..self.places.hosts.len() {
            let seen = self.places.hosts[host];
            let listening: BTreeSet<_> = seen.listeners.iter().map(|listener| &listener.service).collect();
            if self.names.by == By::Process {
                for process in seen.processes.iter().filter(|p| listening.contains(&p.service)) {
                    self.enter(&End::Service { host, key: &process.service, process: Some(process.instance) });
                }
            } else {
                for key in listening {
                    self.enter(&End::Service { host, key, process: None });
                }
            }
        }
    }

    fn nodes(&self) -> Vec<Node> {
        let (listens, processes) = (self.listens(), self.processes());
        let node = |(id, members): (&String, &BTreeSet<End>)| {
            let end = members.first().expect("a node has members");
            let mut hosts = BTreeSet::new();
            let mut at = BTreeSet::new();
            let mut instances = BTreeSet::new();
            for member in members {
                match member {
                    End::External(_) => {}
                    End::Host(host) => {
                        hosts.insert(*host);
                    }
                    End::Service { host, key, process } => {
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
        for (host, seen) in self.places.hosts.iter().enumerate() {
            for listener in &seen.listeners {
                let at = match &listener.at {
                    Passive::Inet { ip, port } if ip.is_unspecified() => format!(":{port}"),
                    at => at.to_string(),
                };
                listens.entry((host, &listener.service)).or_default().insert(at);
            }
        }
        listens
    }

    fn processes(&self) -> BTreeMap<(usize, &'a flows::ServiceKey), BTreeSet<Instance>> {
        let mut processes: BTreeMap<_, BTreeSet<Instance>> = BTreeMap::new();
        for (host, seen) in self.places.hosts.iter().enumerate() {
            let known = seen.processes.iter().map(|p| (&p.service, p.instance));
            let active = seen.flows.iter().filter_map(|f| f.process.map(|process| (&f.service, process)));
            for (service, process) in known.chain(active) {
                processes.entry((host, service)).or_default().insert(process);
            }
        }
        processes
    }
}
