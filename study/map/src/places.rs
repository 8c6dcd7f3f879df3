//! Where addresses live: which network namespace of which host holds an address, and who listens there.

use flows::{HostSlice, Passive, Protocol, ServiceKey, Side, Slice};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// A network namespace of a host, which is an index into [`Places::hosts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub host: usize,
    pub netns: u64,
}

/// Who listens on a port, each with the address it listens on.
type Listeners<'a> = BTreeSet<(IpAddr, &'a ServiceKey)>;

pub(crate) struct Places<'a> {
    /// Sorted by id, so that nothing depends on who answered first.
    pub hosts: Vec<&'a HostSlice>,
    holders: BTreeMap<IpAddr, BTreeSet<Place>>,
    ports: BTreeMap<(Place, Protocol, u16), Listeners<'a>>,
    paths: BTreeMap<(Place, &'a str), BTreeSet<&'a ServiceKey>>,
}

impl<'a> Places<'a> {
    pub fn of(slice: &'a Slice) -> Places<'a> {
        let mut hosts: Vec<&HostSlice> = slice.hosts.iter().collect();
        hosts.sort_by(|a, b| a.host.id.cmp(&b.host.id));
        let mut places = Places { hosts, holders: BTreeMap::new(), ports: BTreeMap::new(), paths: BTreeMap::new() };
        for (host, seen) in places.hosts.iter().enumerate() {
            for address in &seen.host.addresses {
                places.holders.entry(address.ip).or_default().insert(Place { host, netns: address.netns });
            }
            for flow in &seen.flows {
                // an address in use is held, also if the list of addresses is older than it
                let ip = match (flow.side, &flow.link.passive) {
                    (Side::Active, _) => flow.link.active,
                    (Side::Passive, Passive::Inet { ip, .. }) => Some(*ip),
                    (Side::Passive, Passive::Path(_)) => None,
                };
                if let Some(ip) = ip.filter(|ip| !ip.is_loopback()) {
                    places.holders.entry(ip).or_default().insert(Place { host, netns: flow.netns });
                }
            }
            for listener in &seen.listeners {
                let place = Place { host, netns: listener.netns };
                match &listener.at {
                    Passive::Inet { ip, port } => {
                        places
                            .ports
                            .entry((place, listener.protocol, *port))
                            .or_default()
                            .insert((*ip, &listener.service));
                    }
                    Passive::Path(path) => {
                        places.paths.entry((place, path)).or_default().insert(&listener.service);
                    }
                }
            }
        }
        places
    }

    /// Namespaces that `ip` can mean for somebody at `from`: its own for loopback, its host's before those of other hosts.
    pub fn holders(&self, from: Place, ip: IpAddr) -> Vec<Place> {
        if ip.is_loopback() || ip.is_unspecified() {
            return vec![from];
        }
        let all: Vec<Place> = self.holders.get(&ip).into_iter().flatten().copied().collect();
        if all.contains(&from) {
            return vec![from];
        }
        let near: Vec<Place> = all.iter().filter(|place| place.host == from.host).copied().collect();
        if near.is_empty() { all } else { near }
    }

    /// Every namespace that holds `ip`.
    pub fn all_holders(&self, ip: IpAddr) -> impl Iterator<Item = Place> {
        self.holders.get(&ip).into_iter().flatten().copied()
    }

    /// Who accepts what arrives for `at`. A listener on the address itself comes before one on all addresses.
    pub fn listener(&self, place: Place, protocol: Protocol, at: &Passive) -> Option<&'a ServiceKey> {
        match at {
            Passive::Path(path) => self.paths.get(&(place, path.as_str()))?.first().copied(),
            Passive::Inet { ip, port } => {
                let there = self.ports.get(&(place, protocol, *port))?;
                let exact = there.iter().find(|(listens, _)| listens == ip);
                // `::` accepts IPv4 as well, unless told otherwise, which sockets do not show
                let any = || there.iter().find(|(l, _)| l.is_unspecified() && (l.is_ipv6() || ip.is_ipv4()));
                exact.or_else(any).map(|(_, service)| *service)
            }
        }
    }

    /// Services that listen on a port anywhere, or, with an address, there.
    pub fn listening(&self, ip: Option<IpAddr>, port: u16) -> BTreeSet<(usize, &'a ServiceKey)> {
        let held: Option<BTreeSet<Place>> = ip.filter(|ip| !ip.is_loopback()).map(|ip| self.all_holders(ip).collect());
        let mut found = BTreeSet::new();
        for ((place, _, at), listeners) in &self.ports {
            if *at != port || held.as_ref().is_some_and(|held| !held.contains(place)) {
                continue;
            }
            for (listens, service) in listeners {
                if ip.is_none_or(|ip| *listens == ip || listens.is_unspecified()) {
                    found.insert((place.host, *service));
                }
            }
        }
        found
    }
}
