//! Index of addresses: the network namespaces that hold an address, and the listeners there.

use flows::{HostSlice, ListenAddress, Protocol, ServiceKey, Side, Slice};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// A network namespace of a host, which is an index into [`AddressIndex::hosts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Namespace {
    pub host: usize,
    pub netns: u64,
}

/// The listeners of a port, with their addresses.
type Listeners<'a> = BTreeSet<(IpAddr, &'a ServiceKey)>;

pub(crate) struct AddressIndex<'a> {
    /// Sorted by id, so that the result does not depend on the order of the answers.
    pub hosts: Vec<&'a HostSlice>,
    holders: BTreeMap<IpAddr, BTreeSet<Namespace>>,
    ports: BTreeMap<(Namespace, Protocol, u16), Listeners<'a>>,
    paths: BTreeMap<(Namespace, &'a str), BTreeSet<&'a ServiceKey>>,
}

impl<'a> AddressIndex<'a> {
    pub fn of(slice: &'a Slice) -> AddressIndex<'a> {
        let mut hosts: Vec<&HostSlice> = slice.hosts.iter().collect();
        hosts.sort_by(|a, b| a.host.id.cmp(&b.host.id));
        let mut index =
            AddressIndex { hosts, holders: BTreeMap::new(), ports: BTreeMap::new(), paths: BTreeMap::new() };
        for (host, slice) in index.hosts.iter().enumerate() {
            for address in &slice.host.addresses {
                index.holders.entry(address.ip).or_default().insert(Namespace { host, netns: address.netns });
            }
            for flow in &slice.flows {
                // an address in use may be newer than the host's list of addresses
                let ip = match (flow.side, &flow.link.passive) {
                    (Side::Active, _) => flow.link.active,
                    (Side::Passive, ListenAddress::Inet { ip, .. }) => Some(*ip),
                    (Side::Passive, ListenAddress::Path(_)) => None,
                };
                if let Some(ip) = ip.filter(|ip| !ip.is_loopback()) {
                    index.holders.entry(ip).or_default().insert(Namespace { host, netns: flow.netns });
                }
            }
            for listener in &slice.listeners {
                let namespace = Namespace { host, netns: listener.netns };
                match &listener.at {
                    ListenAddress::Inet { ip, port } => {
                        index
                            .ports
                            .entry((namespace, listener.protocol, *port))
                            .or_default()
                            .insert((*ip, &listener.service));
                    }
                    ListenAddress::Path(path) => {
                        index.paths.entry((namespace, path)).or_default().insert(&listener.service);
                    }
                }
            }
        }
        index
    }

    /// Namespaces to which `ip` can refer in the namespace `from`: itself for loopback; those of its host before
    /// others.
    pub fn holders(&self, from: Namespace, ip: IpAddr) -> Vec<Namespace> {
        if ip.is_loopback() || ip.is_unspecified() {
            return vec![from];
        }
        let all: Vec<Namespace> = self.holders.get(&ip).into_iter().flatten().copied().collect();
        if all.contains(&from) {
            return vec![from];
        }
        let near: Vec<Namespace> = all.iter().filter(|namespace| namespace.host == from.host).copied().collect();
        if near.is_empty() { all } else { near }
    }

    /// Every namespace that holds `ip`.
    pub fn all_holders(&self, ip: IpAddr) -> impl Iterator<Item = Namespace> {
        self.holders.get(&ip).into_iter().flatten().copied()
    }

    /// The listener that accepts connections to `at`. A listener on the address takes precedence over one on all
    /// addresses.
    pub fn listener(&self, namespace: Namespace, protocol: Protocol, at: &ListenAddress) -> Option<&'a ServiceKey> {
        match at {
            ListenAddress::Path(path) => self.paths.get(&(namespace, path.as_str()))?.first().copied(),
            ListenAddress::Inet { ip, port } => {
                let listeners = self.ports.get(&(namespace, protocol, *port))?;
                let exact = listeners.iter().find(|(listens, _)| listens == ip);
                // `::` also accepts IPv4 unless it is IPv6-only, which is not part of the data
                let any = || listeners.iter().find(|(l, _)| l.is_unspecified() && (l.is_ipv6() || ip.is_ipv4()));
                exact.or_else(any).map(|(_, service)| *service)
            }
        }
    }

    /// Services that listen on a port, on any host or on that of an address.
    pub fn listening(&self, ip: Option<IpAddr>, port: u16) -> BTreeSet<(usize, &'a ServiceKey)> {
        let held: Option<BTreeSet<Namespace>> =
            ip.filter(|ip| !ip.is_loopback()).map(|ip| self.all_holders(ip).collect());
        let mut found = BTreeSet::new();
        for ((namespace, _, at), listeners) in &self.ports {
            if *at != port || held.as_ref().is_some_and(|held| !held.contains(namespace)) {
                continue;
            }
            for (listens, service) in listeners {
                if ip.is_none_or(|ip| *listens == ip || listens.is_unspecified()) {
                    found.insert((namespace.host, *service));
                }
            }
        }
        found
    }
}
