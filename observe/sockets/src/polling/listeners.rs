//! The listeners of one network namespace, and which of them accepts connections to an address.
//!
//! A listener on a specific address accepts connections to that address. A listener on the unspecified address accepts
//! all connections of its family; an IPv6 listener also accepts IPv4 connections unless it is IPv6-only.

use super::hash::IdMap;
use crate::{ObservedListener, Owner};
use flows::{ListenAddress, Protocol};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

/// Maximum number of listeners per namespace, to bound memory.
const LISTENERS_MAX: usize = 65_536;

#[derive(Clone, Debug)]
pub struct Listener {
    pub protocol: Protocol,
    pub at: ListenAddress,
    pub v6_only: bool,
    pub owner: Option<Arc<Owner>>,
    last_poll: u32,
    /// The poll at which to search for the owner again; 0: the owner is known.
    retry_poll: u32,
    retry_delay: u16,
}

#[derive(Debug, Default)]
pub struct Listeners {
    tracked: IdMap<u64, Listener>,
    by_port: HashMap<(Protocol, u16), Vec<u64>>,
    by_path: HashMap<String, u64>,
    poll: u32,
    changed: bool,
}

impl Listeners {
    pub fn begin(&mut self) {
        self.poll += 1;
    }

    /// Records a listener found by the current poll. Returns whether to search for its owner.
    pub fn observe(&mut self, cookie: u64, describe: impl FnOnce() -> (Protocol, ListenAddress, bool)) -> bool {
        if let Some(listener) = self.tracked.get_mut(&cookie) {
            listener.last_poll = self.poll;
            return listener.retry_poll != 0 && self.poll >= listener.retry_poll;
        }
        if self.tracked.len() >= LISTENERS_MAX {
            return false;
        }
        let (protocol, at, v6_only) = describe();
        let listener = Listener {
            protocol,
            at,
            v6_only,
            owner: None,
            last_poll: self.poll,
            retry_poll: self.poll,
            retry_delay: 1,
        };
        self.tracked.insert(cookie, listener);
        self.changed = true;
        true
    }

    pub fn set_owner(&mut self, cookie: u64, owner: Option<&Arc<Owner>>, exhaustive: bool) {
        const OWNER_RETRY_MAX: u16 = 600;
        let Some(listener) = self.tracked.get_mut(&cookie) else { return };
        listener.retry_poll = match owner {
            Some(_) => 0,
            None if exhaustive => self.poll + u32::from(listener.retry_delay),
            None => self.poll + 1,
        };
        if exhaustive {
            listener.retry_delay = (listener.retry_delay * 4).min(OWNER_RETRY_MAX);
        }
        listener.owner = owner.cloned();
    }

    /// Rebuilds the index. Call it after all listeners of the poll were recorded. Listeners of the previous poll stay
    /// valid for the connections of this poll.
    pub fn index(&mut self) {
        let (before, poll) = (self.tracked.len(), self.poll);
        self.tracked.retain(|_, listener| listener.last_poll + 1 >= poll);
        if self.tracked.len() == before && !std::mem::take(&mut self.changed) {
            return;
        }
        self.by_port.clear();
        self.by_path.clear();
        for (cookie, listener) in &self.tracked {
            match &listener.at {
                ListenAddress::Inet { port, .. } => {
                    self.by_port.entry((listener.protocol, *port)).or_default().push(*cookie);
                }
                ListenAddress::Path(path) => {
                    self.by_path.insert(path.clone(), *cookie);
                }
            }
        }
    }

    /// Cookie of the listener that accepts connections to this address; the most specific one.
    pub fn at(&self, protocol: Protocol, ip: IpAddr, port: u16) -> Option<u64> {
        let cookies = self.by_port.get(&(protocol, port))?;
        let specific = |cookie: &&u64| self.tracked[*cookie].at == ListenAddress::Inet { ip, port };
        cookies.iter().find(specific).or_else(|| cookies.iter().find(|c| self.tracked[*c].accepts(ip))).copied()
    }

    pub fn at_path(&self, path: &str) -> Option<u64> {
        self.by_path.get(path).copied()
    }

    /// The owner of a listener, and whether it is one of several: workers may share an address (`SO_REUSEPORT`), and
    /// the kernel then chooses one for each connection. Of several, the same one is returned for all their listeners.
    pub fn owner(&self, cookie: u64) -> Option<(&Arc<Owner>, bool)> {
        let listener = self.tracked.get(&cookie)?;
        let own = listener.owner.as_ref()?;
        let ListenAddress::Inet { port, .. } = listener.at else { return Some((own, false)) };
        let at_port = self.by_port.get(&(listener.protocol, port)).into_iter().flatten();
        let workers = at_port.filter_map(|cookie| self.tracked.get(cookie)).filter(|other| other.at == listener.at);
        let owners: Vec<&Arc<Owner>> = workers.filter_map(|worker| worker.owner.as_ref()).collect();
        let first = owners.iter().copied().min_by_key(|owner| owner.process).unwrap_or(own);
        let is_shared = owners.iter().any(|owner| owner.process != first.process);
        Some((first, is_shared))
    }

    /// Appends all current listeners. Workers that share an address with their parent are reported once.
    pub fn report(&self, netns: u64, reported: &mut Vec<ObservedListener>) {
        let mut unique = HashSet::new();
        for listener in self.tracked.values().filter(|listener| listener.last_poll == self.poll) {
            let owner = listener.owner.clone();
            if unique.insert((listener.protocol, &listener.at, owner.as_ref().map(|o| (o.process, o.cgroup)))) {
                reported.push(ObservedListener { netns, protocol: listener.protocol, at: listener.at.clone(), owner });
            }
        }
    }
}

impl Listener {
    fn accepts(&self, ip: IpAddr) -> bool {
        match &self.at {
            ListenAddress::Inet { ip: IpAddr::V4(at), .. } => at.is_unspecified() && ip.is_ipv4(),
            ListenAddress::Inet { ip: IpAddr::V6(at), .. } => at.is_unspecified() && (ip.is_ipv6() || !self.v6_only),
            ListenAddress::Path(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listening(addresses: &[(&str, bool)]) -> Listeners {
        let mut listeners = Listeners::default();
        listeners.begin();
        for (cookie, (ip, v6_only)) in addresses.iter().enumerate() {
            let at = ListenAddress::Inet { ip: ip.parse().unwrap(), port: 80 };
            listeners.observe(cookie as u64, || (Protocol::Tcp, at, *v6_only));
        }
        listeners.index();
        listeners
    }

    fn found(listeners: &Listeners, ip: &str) -> Option<u64> {
        listeners.at(Protocol::Tcp, ip.parse().unwrap(), 80)
    }

    #[test]
    fn the_most_specific_listener_accepts() {
        let listeners = listening(&[("0.0.0.0", false), ("10.0.0.1", false)]);
        assert_eq!(found(&listeners, "10.0.0.1"), Some(1));
        assert_eq!(found(&listeners, "10.0.0.2"), Some(0));
        assert_eq!(found(&listeners, "::1"), None);
        assert_eq!(listeners.at(Protocol::Udp, "10.0.0.1".parse().unwrap(), 80), None);
        assert_eq!(listeners.at(Protocol::Tcp, "10.0.0.1".parse().unwrap(), 81), None);
    }

    #[test]
    fn ipv6_listeners_accept_ipv4_unless_v6_only() {
        assert_eq!(found(&listening(&[("::", false)]), "10.0.0.1"), Some(0));
        assert_eq!(found(&listening(&[("::", true)]), "10.0.0.1"), None);
        assert_eq!(found(&listening(&[("::", true)]), "fd00::1"), Some(0));
        assert_eq!(found(&listening(&[("10.0.0.9", false)]), "10.0.0.1"), None);
    }

    #[test]
    fn workers_that_share_an_address_are_one_owner() {
        let mut listeners = listening(&[("10.0.0.1", false), ("10.0.0.1", false), ("10.0.0.2", false)]);
        let owner = |pid| {
            let process = flows::ProcessId { pid, start_ticks: 1 };
            Arc::new(Owner { process, comm: "w".into(), cgroup: None, executable: None, arguments: None })
        };
        for (cookie, pid) in [(0, 9), (1, 8), (2, 7)] {
            listeners.set_owner(cookie, Some(&owner(pid)), true);
        }
        let found = |cookie| listeners.owner(cookie).map(|(owner, shared)| (owner.process.pid, shared));
        assert_eq!([found(0), found(1), found(2)], [Some((8, true)), Some((8, true)), Some((7, false))]);
    }

    #[test]
    fn a_closed_listener_stays_for_one_more_poll() {
        let mut listeners = listening(&[("10.0.0.1", false)]);
        for expected in [Some(0), None] {
            listeners.begin();
            listeners.index();
            assert_eq!(found(&listeners, "10.0.0.1"), expected);
            let mut reported = Vec::new();
            listeners.report(1, &mut reported);
            assert!(reported.is_empty());
        }
    }
}
