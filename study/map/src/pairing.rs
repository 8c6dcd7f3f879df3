//! Pairs the flows of both ends of connections to dependencies between nodes.
//!
//! Flows are grouped by destination (protocol, address and port or path, namespace) and then by the address of the
//! active side. Within a group, the flows of both ends are paired:
//!
//! | active nodes | passive nodes | result |
//! |---|---|---|
//! | any | 1 | from each active node to the passive node |
//! | 1 | several | to each passive node, with the counts of that node |
//! | several | several processes of one service | from each active node to the service |
//! | several | several services | to the one with the highest count, by listener; to the others without counts |
//! | any | none | to the listener of the address, else the host of the address, else the address |
//! | none | any | from the host of the active address, else the address |
//!
//! Every flow belongs to exactly one dependency. If both ends counted a connection, the counts of the active side are
//! used.

use crate::By;
use crate::address_index::{AddressIndex, Namespace};
use crate::names::{Endpoint, Names};
use flows::{Attribution, Counts, Flow, ListenAddress, Protocol, Side, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// A flow and the namespace in which it was observed.
#[derive(Clone, Copy)]
pub(crate) struct FlowRef<'a> {
    pub flow: &'a Flow,
    pub namespace: Namespace,
    /// Index among the flows of its host.
    pub index: usize,
}

impl<'a> FlowRef<'a> {
    fn end(&self, by: By) -> Endpoint<'a> {
        let process = if by == By::Process { self.flow.process } else { None };
        Endpoint::Service { host: self.namespace.host, key: &self.flow.service, process }
    }
}

pub(crate) struct Dependency<'a> {
    pub from: Endpoint<'a>,
    pub to: Endpoint<'a>,
    pub protocol: Protocol,
    pub at: &'a ListenAddress,
    pub counts: Counts,
    pub paired: bool,
    pub source: Source,
    pub attribution: Attribution,
    pub translated: bool,
    pub flows: Vec<FlowRef<'a>>,
}

/// Destination of connections. Without a namespace: an address without an agent.
type Destination<'a> = (Protocol, &'a ListenAddress, Option<Namespace>);

/// Destinations by the address before translation, valid in any namespace of the host.
type Aliases<'a> = BTreeMap<(Protocol, &'a ListenAddress, usize), Destination<'a>>;

#[derive(Default)]
struct FlowGroup<'a> {
    active: Vec<FlowRef<'a>>,
    passive: Vec<FlowRef<'a>>,
    /// The address of the active side was translated on the way.
    masqueraded: bool,
}

pub(crate) struct Pairing<'a> {
    pub dependencies: Vec<Dependency<'a>>,
    /// Addresses that belong to several hosts, so that the destination of flows is ambiguous.
    pub ambiguous: BTreeSet<IpAddr>,
}

pub(crate) fn pair_flows<'a>(addresses: &AddressIndex<'a>, names: &Names<'a>) -> Pairing<'a> {
    let mut ambiguous = BTreeSet::new();
    let mut all = Vec::new();
    for (destination, mut groups) in destinations(addresses, &mut ambiguous) {
        join_masqueraded(addresses, destination, &mut groups);
        let accepting: BTreeSet<Endpoint> =
            groups.values().flat_map(|group| &group.passive).map(|flow_ref| flow_ref.end(By::Service)).collect();
        for (active_ip, group) in &groups {
            let pairer = Pairer { addresses, names, destination, accepting: &accepting, all: &mut all };
            pairer.pair(*active_ip, group);
        }
    }
    Pairing { dependencies: all, ambiguous }
}

fn destinations<'a>(
    addresses: &AddressIndex<'a>,
    ambiguous: &mut BTreeSet<IpAddr>,
) -> BTreeMap<Destination<'a>, BTreeMap<Option<IpAddr>, FlowGroup<'a>>> {
    let mut flows: Vec<FlowRef> = Vec::new();
    for (host, slice) in addresses.hosts.iter().enumerate() {
        flows.extend(slice.flows.iter().enumerate().map(|(index, flow)| FlowRef {
            flow,
            namespace: Namespace { host, netns: flow.netns },
            index,
        }));
    }
    flows.sort_by_cached_key(|flow_ref| {
        let f = flow_ref.flow;
        let counts = [f.counts.opened, f.counts.established, f.counts.sent, f.counts.received, f.counts.open];
        (f.service.clone(), f.process, f.link.clone(), f.translated.clone(), f.source, f.attribution, counts)
    });
    let mut destinations: BTreeMap<Destination, BTreeMap<Option<IpAddr>, FlowGroup>> = BTreeMap::new();
    let mut aliases = Aliases::new();
    for flow_ref in flows.iter().filter(|flow_ref| flow_ref.flow.side == Side::Passive) {
        let link = &flow_ref.flow.link;
        let destination = (link.protocol, &link.passive, Some(flow_ref.namespace));
        destinations.entry(destination).or_default().entry(link.active).or_default().passive.push(*flow_ref);
        if let Some(other) = &flow_ref.flow.translated {
            aliases.insert((link.protocol, other, flow_ref.namespace.host), destination);
        }
    }
    let observed: BTreeSet<Destination> = destinations.keys().copied().collect();
    for flow_ref in flows.iter().filter(|flow_ref| flow_ref.flow.side == Side::Active) {
        let destination = destination_of(addresses, flow_ref, &observed, &aliases, ambiguous);
        destinations
            .entry(destination)
            .or_default()
            .entry(flow_ref.flow.link.active)
            .or_default()
            .active
            .push(*flow_ref);
    }
    destinations
}

/// The destination of an active flow.
fn destination_of<'a>(
    addresses: &AddressIndex<'a>,
    flow_ref: &FlowRef<'a>,
    observed: &BTreeSet<Destination<'a>>,
    aliases: &Aliases<'a>,
    ambiguous: &mut BTreeSet<IpAddr>,
) -> Destination<'a> {
    let (flow, protocol) = (flow_ref.flow, flow_ref.flow.link.protocol);
    let at = flow.translated.as_ref().unwrap_or(&flow.link.passive);
    let ListenAddress::Inet { ip, .. } = at else { return (protocol, at, Some(flow_ref.namespace)) };
    let candidates = addresses.holders(flow_ref.namespace, *ip);
    let resolved = |namespace: &Namespace| {
        let destination = (protocol, at, Some(*namespace));
        observed.get(&destination).or_else(|| aliases.get(&(protocol, at, namespace.host))).copied()
    };
    if let [namespace] = candidates[..] {
        return resolved(&namespace).unwrap_or((protocol, at, Some(namespace)));
    }
    let matching: Vec<Destination> = candidates.iter().filter_map(resolved).collect();
    match matching[..] {
        [destination] => destination,
        _ => {
            if !candidates.is_empty() {
                ambiguous.insert(*ip);
            }
            (protocol, at, None)
        }
    }
}

/// Pairs passive flows from an address without active flows: masquerading replaced the address of the active side by
/// one of a host. The active side is on that host.
fn join_masqueraded<'a>(
    addresses: &AddressIndex<'a>,
    destination: Destination<'a>,
    groups: &mut BTreeMap<Option<IpAddr>, FlowGroup<'a>>,
) {
    let is_passive_only = |group: &FlowGroup| group.active.is_empty() && !group.passive.is_empty();
    let passive_from: Vec<IpAddr> =
        groups.iter().filter(|(_, group)| is_passive_only(group)).filter_map(|(ip, _)| *ip).collect();
    if destination.2.is_none() {
        return;
    }
    for ip in passive_from {
        let hosts: BTreeSet<usize> = addresses.all_holders(ip).map(|namespace| namespace.host).collect();
        let is_active_only_here = |group: &FlowGroup| {
            let is_here = |flow_ref: &FlowRef| hosts.contains(&flow_ref.namespace.host);
            group.passive.is_empty() && group.active.iter().any(is_here)
        };
        let active_from = groups.iter().find(|(_, group)| is_active_only_here(group)).map(|(ip, _)| *ip);
        if let Some(active_from) = active_from
            && let Some(translated) = groups.remove(&Some(ip))
            && let Some(group) = groups.get_mut(&active_from)
        {
            group.passive = translated.passive;
            group.masqueraded = true;
        }
    }
}

struct Pairer<'a, 't> {
    addresses: &'t AddressIndex<'a>,
    names: &'t Names<'a>,
    destination: Destination<'a>,
    /// Services that accept connections at this destination from any address.
    accepting: &'t BTreeSet<Endpoint<'a>>,
    all: &'t mut Vec<Dependency<'a>>,
}

/// Nodes with their flows.
type Nodes<'a> = Vec<(Endpoint<'a>, Vec<FlowRef<'a>>)>;

impl<'a> Pairer<'a, '_> {
    fn pair(mut self, active_ip: Option<IpAddr>, group: &FlowGroup<'a>) {
        let (active, passive) = (self.nodes(&group.active), self.nodes(&group.passive));
        match (active.len(), passive.len()) {
            (_, 0) => self.active_only(active),
            (0, _) => self.passive_only(active_ip, passive),
            (_, 1) => {
                let (to, flows) = passive.into_iter().next().expect("one");
                self.pair_with_one(active, to, flows, group.masqueraded);
            }
            (1, _) => self.pair_with_each(active, passive, group.masqueraded),
            _ => self.pair_with_any(active, passive, group.masqueraded),
        }
    }

    /// Groups flows by node, sorted by node id.
    fn nodes(&self, flows: &[FlowRef<'a>]) -> Nodes<'a> {
        let mut nodes: BTreeMap<String, (Endpoint<'a>, Vec<FlowRef<'a>>)> = BTreeMap::new();
        for flow_ref in flows {
            let end = flow_ref.end(self.names.by);
            nodes.entry(self.names.id(&end)).or_insert_with(|| (end, Vec::new())).1.push(*flow_ref);
        }
        nodes.into_values().collect()
    }

    fn push(
        &mut self,
        from: Endpoint<'a>,
        to: Endpoint<'a>,
        flows: Vec<FlowRef<'a>>,
        counts: Counts,
        quality: Quality,
    ) {
        let weakest = flows.iter().map(|flow_ref| (flow_ref.flow.source, flow_ref.flow.attribution));
        let source = weakest.clone().map(|w| w.0).max().unwrap_or(quality.source);
        let attribution = weakest.map(|w| w.1).max().unwrap_or(Attribution::Exact);
        let translated = flows.iter().any(|flow_ref| flow_ref.flow.translated.is_some());
        self.all.push(Dependency {
            from,
            to,
            protocol: self.destination.0,
            at: self.destination.1,
            counts,
            paired: quality.paired,
            source: source.max(quality.source),
            attribution: attribution.max(quality.attribution),
            translated: translated || quality.translated,
            flows,
        });
    }

    fn active_only(mut self, active: Nodes<'a>) {
        let (to, by_listener) = self.target();
        for (from, flows) in active {
            let counts = sum(&flows);
            let attribution = if by_listener { Attribution::Listener } else { Attribution::Exact };
            self.push(from, to.clone(), flows, counts, Quality { attribution, ..Quality::ONE_SIDED });
        }
    }

    /// The node behind a destination without passive flows, and whether it follows from the listeners.
    fn target(&self) -> (Endpoint<'a>, bool) {
        let (protocol, at, namespace) = self.destination;
        let Some(namespace) = namespace else {
            return match at {
                ListenAddress::Inet { ip, .. } => (Endpoint::External(*ip), false),
                ListenAddress::Path(_) => unreachable!("a path has the namespace of its flow"),
            };
        };
        let listening = self.addresses.listener(namespace, protocol, at);
        let listening = listening.map(|key| Endpoint::Service { host: namespace.host, key, process: None });
        let accepting = || if self.accepting.len() == 1 { self.accepting.first().cloned() } else { None };
        match listening.or_else(accepting) {
            Some(end) => (end, true),
            None => (Endpoint::Host(namespace.host), false),
        }
    }

    fn passive_only(mut self, active_ip: Option<IpAddr>, passive: Nodes<'a>) {
        let namespace = self.destination.2.expect("a passive flow has a namespace");
        let from = match active_ip {
            None => Endpoint::Host(namespace.host),
            Some(ip) => {
                let holders: BTreeSet<usize> =
                    self.addresses.holders(namespace, ip).iter().map(|holder| holder.host).collect();
                match holders.first() {
                    Some(host) if holders.len() == 1 => Endpoint::Host(*host),
                    _ => Endpoint::External(ip),
                }
            }
        };
        for (to, flows) in passive {
            let counts = swap_direction(sum(&flows));
            self.push(from.clone(), to, flows, counts, Quality::ONE_SIDED);
        }
    }

    fn pair_with_one(&mut self, active: Nodes<'a>, to: Endpoint<'a>, mut passive: Vec<FlowRef<'a>>, masqueraded: bool) {
        let quality = Quality { translated: masqueraded, ..Quality::paired(&passive) };
        for (from, mut flows) in active {
            let counts = sum(&flows);
            flows.append(&mut passive);
            self.push(from, to.clone(), flows, counts, quality);
        }
    }

    fn pair_with_each(&mut self, active: Nodes<'a>, mut passive: Nodes<'a>, masqueraded: bool) {
        let (from, mut active) = active.into_iter().next().expect("one");
        // the node with the most connections gets the active flows and the failures before the accept
        passive.sort_by_key(|(_, flows)| std::cmp::Reverse(sum(flows).established));
        let failed = sum(&active).failed;
        let quality = Quality { translated: masqueraded, ..Quality::paired(&active) };
        for (i, (to, mut flows)) in passive.into_iter().enumerate() {
            let mut counts = swap_direction(sum(&flows));
            if i == 0 {
                counts.opened += failed;
                counts.failed += failed;
            }
            flows.append(&mut active);
            self.push(from.clone(), to, flows, counts, quality);
        }
    }

    fn pair_with_any(&mut self, active: Nodes<'a>, mut passive: Nodes<'a>, masqueraded: bool) {
        let owners: BTreeSet<Endpoint> =
            passive.iter().flat_map(|(_, flows)| flows).map(|flow_ref| flow_ref.end(By::Service)).collect();
        if let (Some(service), 1) = (owners.first(), owners.len()) {
            let flows = passive.into_iter().flat_map(|(_, flows)| flows).collect();
            return self.pair_with_one(active, service.clone(), flows, masqueraded);
        }
        passive.sort_by_key(|(_, flows)| std::cmp::Reverse(sum(flows).established));
        let first = active[0].0.clone();
        let mut rest = passive.into_iter();
        let (to, mut flows) = rest.next().expect("several");
        let quality =
            Quality { translated: masqueraded, attribution: Attribution::Listener, ..Quality::paired(&flows) };
        for (from, mut own) in active {
            let counts = sum(&own);
            own.append(&mut flows);
            self.push(from, to.clone(), own, counts, quality);
        }
        for (to, flows) in rest {
            self.push(first.clone(), to, flows, Counts::default(), quality);
        }
    }
}

/// Properties of a dependency besides those of its flows.
#[derive(Clone, Copy)]
struct Quality {
    paired: bool,
    source: Source,
    attribution: Attribution,
    translated: bool,
}

impl Quality {
    const ONE_SIDED: Quality =
        Quality { paired: false, source: Source::Ebpf, attribution: Attribution::Exact, translated: false };

    fn paired(other: &[FlowRef]) -> Quality {
        let source = other.iter().map(|flow_ref| flow_ref.flow.source).max().unwrap_or(Source::Ebpf);
        let attribution = other.iter().map(|flow_ref| flow_ref.flow.attribution).max().unwrap_or(Attribution::Exact);
        Quality { paired: true, source, attribution, translated: false }
    }
}

fn sum(flows: &[FlowRef]) -> Counts {
    let mut sum = Counts::default();
    flows.iter().for_each(|flow_ref| sum.add_concurrent(&flow_ref.flow.counts));
    sum
}

/// Counts from the view of the other end.
fn swap_direction(counts: Counts) -> Counts {
    Counts { sent: counts.received, received: counts.sent, ..counts }
}
