//! Who listens in one network namespace, and whether an end of a connection is the side that listens.
//!
//! A listener on a specific address takes connections to that address; one on the unspecified address takes all of its
//! family, and an IPv6 one those by IPv4 too unless it says otherwise.

use super::quick::QuickMap;
use crate::{Listening, Owner};
use flows::{Passive, Protocol};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

/// So many listeners are kept per namespace; a program that binds more is not worth the memory.
const MOST_LISTENERS: usize = 65_536;

#[derive(Clone, Debug)]
pub struct Listener {
    pub protocol: Protocol,
    pub at: Passive,
    pub v6_only: bool,
    pub owner: Option<Arc<Owner>>,
    seen: u32,
    /// The poll at which the owner is looked for again; 0: it is known.
    again: u32,
    wait: u16,
}

#[derive(Debug, Default)]
pub struct Listeners {
    known: QuickMap<u64, Listener>,
    by_port: HashMap<(Protocol, u16), Vec<u64>>,
    by_path: HashMap<String, u64>,
    poll: u32,
    changed: bool,
}

impl Listeners {
    pub fn begin(&mut self) {
        self.poll += 1;
    }

    /// A listening socket of the current poll. Tells whether its owner should be looked for.
    pub fn see(&mut self, cookie: u64, what: impl FnOnce() -> (Protocol, Passive, bool)) -> bool {
        if let Some(listener) = self.known.get_mut(&cookie) {
            listener.seen = self.poll;
            return listener.again != 0 && self.poll >= listener.again;
        }
        if self.known.len() >= MOST_LISTENERS {
            return false;
        }
        let (protocol, at, v6_only) = what();
        let listener = Listener { protocol, at, v6_only, owner: None, seen: self.poll, again: self.poll, wait: 1 };
        self.known.insert(cookie, listener);
        self.changed = true;
        true
    }

    pub fn own(&mut self, cookie: u64, owner: Option<&Arc<Owner>>, everywhere: bool) {
        const LONGEST_WAIT: u16 = 600;
        let Some(listener) = self.known.get_mut(&cookie) else { return };
        listener.again = match owner {
            Some(_) => 0,
            None if everywhere => self.poll + u32::from(listener.wait),
            None => self.poll + 1,
        };
        if everywhere {
            listener.wait = (listener.wait * 4).min(LONGEST_WAIT);
        }
        listener.owner = owner.cloned();
    }

    /// After every listener of this poll was seen. Those of the poll before still count for the connections of this one.
    pub fn index(&mut self) {
        let (before, poll) = (self.known.len(), self.poll);
        self.known.retain(|_, listener| listener.seen + 1 >= poll);
        if self.known.len() == before && !std::mem::take(&mut self.changed) {
            return;
        }
        self.by_port.clear();
        self.by_path.clear();
        for (cookie, listener) in &self.known {
            match &listener.at {
                Passive::Inet { port, .. } => {
                    self.by_port.entry((listener.protocol, *port)).or_default().push(*cookie);
                }
                Passive::Path(path) => {
                    self.by_path.insert(path.clone(), *cookie);
                }
            }
        }
    }

    /// The cookie of who takes connections to this address, the most specific first.
    pub fn at(&self, protocol: Protocol, ip: IpAddr, port: u16) -> Option<u64> {
        let cookies = self.by_port.get(&(protocol, port))?;
        let specific = |cookie: &&u64| self.known[*cookie].at == Passive::Inet { ip, port };
        cookies.iter().find(specific).or_else(|| cookies.iter().find(|c| self.known[*c].takes(ip))).copied()
    }

    pub fn at_path(&self, path: &str) -> Option<u64> {
        self.by_path.get(path).copied()
    }

    pub fn owner(&self, cookie: u64) -> Option<&Arc<Owner>> {
        self.known.get(&cookie)?.owner.as_ref()
    }

    /// Everything that listens now; workers that share one address with their parent once.
    pub fn tell(&self, netns: u64, told: &mut Vec<Listening>) {
        let mut same = HashSet::new();
        for listener in self.known.values().filter(|listener| listener.seen == self.poll) {
            let owner = listener.owner.clone();
            if same.insert((listener.protocol, &listener.at, owner.as_ref().map(|o| (o.instance, o.cgroup)))) {
                told.push(Listening { netns, protocol: listener.protocol, at: listener.at.clone(), owner });
            }
        }
    }
}

impl Listener {
    fn takes(&self, ip: IpAddr) -> bool {
        match &self.at {
            Passive::Inet { ip: IpAddr::V4(at), .. } => at.is_unspecified() && ip.is_ipv4(),
            Passive::Inet { ip: IpAddr::V6(at), .. } => at.is_unspecified() && (ip.is_ipv6() || !self.v6_only),
            Passive::Path(_) => false,
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
            let at = Passive::Inet { ip: ip.parse().unwrap(), port: 80 };
            listeners.see(cookie as u64, || (Protocol::Tcp, at, *v6_only));
        }
        listeners.index();
        listeners
    }

    fn found(listeners: &Listeners, ip: &str) -> Option<u64> {
        listeners.at(Protocol::Tcp, ip.parse().unwrap(), 80)
    }

    #[test]
    fn the_most_specific_listener_takes_the_connection() {
        let listeners = listening(&[("0.0.0.0", false), ("10.0.0.1", false)]);
        assert_eq!(found(&listeners, "10.0.0.1"), Some(1));
        assert_eq!(found(&listeners, "10.0.0.2"), Some(0));
        assert_eq!(found(&listeners, "::1"), None);
        assert_eq!(listeners.at(Protocol::Udp, "10.0.0.1".parse().unwrap(), 80), None);
        assert_eq!(listeners.at(Protocol::Tcp, "10.0.0.1".parse().unwrap(), 81), None);
    }

    #[test]
    fn ipv6_listeners_take_ipv4_unless_they_say_otherwise() {
        assert_eq!(found(&listening(&[("::", false)]), "10.0.0.1"), Some(0));
        assert_eq!(found(&listening(&[("::", true)]), "10.0.0.1"), None);
        assert_eq!(found(&listening(&[("::", true)]), "fd00::1"), Some(0));
        assert_eq!(found(&listening(&[("10.0.0.9", false)]), "10.0.0.1"), None);
    }

    #[test]
    fn a_listener_that_has_closed_counts_for_one_more_poll() {
        let mut listeners = listening(&[("10.0.0.1", false)]);
        for expected in [Some(0), None] {
            listeners.begin();
            listeners.index();
            assert_eq!(found(&listeners, "10.0.0.1"), expected);
            let mut told = Vec::new();
            listeners.tell(1, &mut told);
            assert!(told.is_empty());
        }
    }
}
