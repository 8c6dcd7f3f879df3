//! The connections of one network namespace from poll to poll, added up as flows.
//!
//! A connection is known by its cookie, which the kernel never gives to another one. Of a known connection a poll only
//! needs to hear that it is still there, so at 20,000 of them it costs one look-up each: direction, owner and flow were
//! settled when it was new. A connection is taken to be closed after two polls without it, because the kernel's dump may
//! pass over one while others come and go.

use super::quick::QuickMap;
use crate::{Owner, Sighting};
use flows::{Attribution, Counts, Instance, Link, Side};
use std::collections::HashMap;
use std::sync::Arc;

/// So many are kept per namespace: about 60 MB. More are counted as lost.
const MOST_CONNECTIONS: usize = 1_000_000;
/// The longest time between two attempts to find an owner, in polls.
const LONGEST_WAIT: u16 = 600;

/// What makes connections one flow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FlowKey {
    side: Side,
    owner: Option<(Instance, Option<u64>)>,
    link: Link,
    attribution: Attribution,
}

#[derive(Debug)]
struct FlowState {
    key: FlowKey,
    owner: Option<Arc<Owner>>,
    example_port: Option<u16>,
    counts: Counts,
    /// Known connections; without any, the flow is forgotten.
    connections: u32,
}

#[derive(Debug)]
struct Connection {
    inode: u32,
    flow: u32,
    /// The poll that saw it last.
    seen: u32,
    /// The poll at which its owner is looked for again; 0: never, it is settled.
    again: u32,
    wait: u16,
    established: bool,
    /// It is in the counts of its flow. Until processes with many files were looked through, it is in none.
    counted: bool,
}

/// What is known of a connection that was just seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Settled,
    /// Its owner should be looked for.
    Ownerless,
    New,
}

/// A connection with everything but its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub cookie: u64,
    pub inode: u32,
    pub side: Side,
    pub link: Link,
    pub example_port: Option<u16>,
    pub established: bool,
}

/// Whose it is, and how that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownership {
    pub owner: Option<Arc<Owner>>,
    pub attribution: Attribution,
    pub certainty: Certainty,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// Nothing better will be learnt.
    Settled,
    /// Its owner was looked for everywhere, and may be found later.
    Tentative,
    /// Its owner was not looked for everywhere yet: it is not counted until then.
    Pending,
}

#[derive(Debug, Default)]
pub struct Connections {
    known: QuickMap<u64, Connection>,
    flows: Vec<FlowState>,
    by_key: HashMap<FlowKey, u32>,
    free: Vec<u32>,
    poll: u32,
    /// What the first poll finds was opened before anybody looked.
    from_before: bool,
    lost: u64,
}

impl Connections {
    /// `from_before`: connections may be older than the first poll, so that one counts none as opened.
    pub fn new(from_before: bool) -> Connections {
        Connections { from_before, ..Connections::default() }
    }

    pub fn begin(&mut self) {
        self.poll += 1;
        self.lost = 0;
        for flow in &mut self.flows {
            flow.counts = Counts::default();
        }
    }

    /// A socket of the current poll.
    pub fn see(&mut self, cookie: u64, inode: u32, established: bool) -> Known {
        let Some(connection) = self.known.get_mut(&cookie) else { return Known::New };
        if connection.seen == self.poll {
            return Known::Settled;
        }
        connection.seen = self.poll;
        let counts = &mut self.flows[connection.flow as usize].counts;
        if connection.counted {
            counts.open += u64::from(established);
            counts.established += u64::from(established && !connection.established);
        }
        connection.established |= established;
        let accepted = inode != 0 && connection.inode == 0;
        if accepted {
            connection.inode = inode;
        }
        if connection.again != 0 && inode != 0 && (accepted || self.poll >= connection.again) {
            return Known::Ownerless;
        }
        Known::Settled
    }

    /// A connection that [`Connections::see`] called new.
    pub fn add(&mut self, arrival: Arrival, ownership: Ownership) {
        if self.known.len() >= MOST_CONNECTIONS {
            self.lost += 1;
            return;
        }
        let key = FlowKey {
            side: arrival.side,
            owner: ownership.owner.as_deref().map(identity),
            link: arrival.link,
            attribution: ownership.attribution,
        };
        let flow = self.flow(key, ownership.owner);
        let state = &mut self.flows[flow as usize];
        state.connections += 1;
        state.example_port = arrival.example_port;
        let connection = Connection {
            inode: arrival.inode,
            flow,
            seen: self.poll,
            again: if ownership.certainty == Certainty::Settled { 0 } else { self.poll + 1 },
            wait: 1,
            established: arrival.established,
            counted: ownership.certainty != Certainty::Pending,
        };
        if connection.counted {
            state.counts.add_new(connection.established, !(self.from_before && self.poll == 1));
        }
        self.known.insert(arrival.cookie, connection);
    }

    /// What the look for the owner of an ownerless connection brought. None: it will be looked for again, the later the
    /// more often it was looked for everywhere.
    pub fn own(&mut self, cookie: u64, owner: Option<&Arc<Owner>>, everywhere: bool) {
        let Some(connection) = self.known.get_mut(&cookie) else { return };
        let (from, is_new) = (connection.flow, !connection.counted);
        if owner.is_none() && !everywhere {
            connection.again = self.poll + 1;
            return;
        }
        connection.counted = true;
        let established = connection.established;
        let Some(owner) = owner else {
            connection.again = self.poll + u32::from(connection.wait);
            connection.wait = (connection.wait * 4).min(LONGEST_WAIT);
            if is_new {
                self.flows[from as usize].counts.add_new(established, true);
            }
            return;
        };
        connection.again = 0;
        let key = FlowKey {
            owner: Some(identity(owner)),
            attribution: Attribution::Exact,
            ..self.flows[from as usize].key.clone()
        };
        let to = self.flow(key, Some(owner.clone()));
        if let Some(connection) = self.known.get_mut(&cookie) {
            connection.flow = to;
        }
        self.flows[to as usize].example_port = self.flows[from as usize].example_port;
        self.flows[from as usize].connections -= 1;
        self.flows[to as usize].connections += 1;
        if is_new {
            self.flows[to as usize].counts.add_new(established, true);
        } else {
            self.flows[from as usize].counts.open -= u64::from(established);
            self.flows[to as usize].counts.open += u64::from(established);
        }
    }

    fn flow(&mut self, key: FlowKey, owner: Option<Arc<Owner>>) -> u32 {
        if let Some(at) = self.by_key.get(&key) {
            return *at;
        }
        let state =
            FlowState { key: key.clone(), owner, example_port: None, counts: Counts::default(), connections: 0 };
        let at = match self.free.pop() {
            Some(at) => {
                self.flows[at as usize] = state;
                at
            }
            None => {
                self.flows.push(state);
                (self.flows.len() - 1) as u32
            }
        };
        self.by_key.insert(key, at);
        at
    }

    /// Ends the poll: what was not seen twice is closed. Tells every flow with something to tell, and how many
    /// connections found no room.
    pub fn end(&mut self, netns: u64, told: &mut Vec<Sighting>) -> u64 {
        let (flows, poll) = (&mut self.flows, self.poll);
        self.known.retain(|_, connection| {
            if connection.seen + 1 >= poll {
                return true;
            }
            let flow = &mut flows[connection.flow as usize];
            flow.connections -= 1;
            if !connection.counted {
                flow.counts.add_new(connection.established, true);
                flow.counts.open -= u64::from(connection.established);
            }
            flow.counts.closed += u64::from(connection.established);
            flow.counts.failed += u64::from(!connection.established);
            false
        });
        self.known.shrink_to(self.known.len() * 4);
        for at in 0..self.flows.len() {
            let flow = &mut self.flows[at];
            if flow.counts != Counts::default() {
                told.push(Sighting {
                    side: flow.key.side,
                    netns,
                    owner: flow.owner.clone(),
                    link: flow.key.link.clone(),
                    example_port: flow.example_port,
                    attribution: flow.key.attribution,
                    counts: flow.counts,
                });
            }
            // a place that is free already still has its last key, which may be another's by now
            if flow.connections == 0 && self.by_key.get(&flow.key) == Some(&(at as u32)) {
                self.by_key.remove(&flow.key);
                self.free.push(at as u32);
            }
        }
        self.lost
    }
}

trait AddNew {
    /// A connection more; `opened`: since the poll before.
    fn add_new(&mut self, established: bool, opened: bool);
}

impl AddNew for Counts {
    fn add_new(&mut self, established: bool, opened: bool) {
        self.opened += u64::from(opened);
        self.established += u64::from(opened && established);
        self.open += u64::from(established);
    }
}

fn identity(owner: &Owner) -> (Instance, Option<u64>) {
    // where no process is known, the cgroup is all there is to tell owners apart
    (owner.instance, owner.cgroup.filter(|_| owner.instance.pid == 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flows::{Passive, Protocol};

    fn arrival(cookie: u64, inode: u32) -> Arrival {
        let local = "127.0.0.1".parse().unwrap();
        let link =
            Link { protocol: Protocol::Tcp, active: Some(local), passive: Passive::Inet { ip: local, port: 80 } };
        Arrival { cookie, inode, side: Side::Active, link, example_port: Some(4000), established: true }
    }

    fn owner(pid: u32) -> Arc<Owner> {
        let instance = Instance { pid, start_ticks: 9 };
        Arc::new(Owner { instance, comm: "a b\nc".into(), cgroup: Some(5), executable: None, arguments: None })
    }

    fn exact(pid: u32) -> Ownership {
        Ownership { owner: Some(owner(pid)), attribution: Attribution::Exact, certainty: Certainty::Settled }
    }

    fn unknown() -> Ownership {
        Ownership { owner: None, attribution: Attribution::None, certainty: Certainty::Tentative }
    }

    /// One poll in which these cookies are seen; new ones are somebody's.
    fn poll(connections: &mut Connections, cookies: std::ops::Range<u64>, whose: Ownership) -> Vec<Sighting> {
        connections.begin();
        for cookie in cookies {
            if connections.see(cookie, cookie as u32, true) == Known::New {
                connections.add(arrival(cookie, cookie as u32), whose.clone());
            }
        }
        let mut told = Vec::new();
        assert_eq!(connections.end(1, &mut told), 0);
        told
    }

    #[test]
    fn thousands_of_connections_are_one_flow_and_counts_are_differences() {
        let mut connections = Connections::new(true);
        let counts = |told: Vec<Sighting>| {
            assert_eq!(told.len(), 1);
            told[0].counts
        };
        let first = counts(poll(&mut connections, 0..5000, exact(7)));
        assert_eq!(first, Counts { open: 5000, ..Counts::default() });
        let second = counts(poll(&mut connections, 1000..6000, exact(7)));
        assert_eq!(second, Counts { opened: 1000, established: 1000, open: 5000, ..Counts::default() });
        let third = counts(poll(&mut connections, 1000..6000, exact(7)));
        assert_eq!(third, Counts { closed: 1000, open: 5000, ..Counts::default() });
        assert_eq!(connections.known.len(), 5000);
    }

    #[test]
    fn a_connection_that_one_dump_passed_over_is_not_opened_twice() {
        let mut connections = Connections::new(true);
        poll(&mut connections, 0..10, exact(7));
        let without_one = poll(&mut connections, 1..10, exact(7));
        assert_eq!(without_one[0].counts, Counts { open: 9, ..Counts::default() });
        let again = poll(&mut connections, 0..10, exact(7));
        assert_eq!(again[0].counts, Counts { open: 10, ..Counts::default() });
    }

    #[test]
    fn an_owner_found_later_takes_the_connection_over() {
        let mut connections = Connections::new(true);
        poll(&mut connections, 0..0, unknown());
        let opened = poll(&mut connections, 5..6, unknown());
        assert_eq!((opened[0].owner.as_ref(), opened[0].counts.opened), (None, 1));
        connections.begin();
        assert_eq!(connections.see(5, 5, true), Known::Ownerless);
        connections.own(5, Some(&owner(7)), true);
        let mut told = Vec::new();
        connections.end(1, &mut told);
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!((told[0].owner.as_ref(), told[0].attribution), (Some(&owner(7)), Attribution::Exact));
        assert_eq!(told[0].counts, Counts { open: 1, ..Counts::default() });
        assert_eq!(connections.flows.len() - connections.free.len(), 1);
    }

    #[test]
    fn a_connection_is_counted_when_its_owner_was_looked_for_everywhere() {
        let pending = Ownership { certainty: Certainty::Pending, ..unknown() };
        for found in [Some(owner(7)), None] {
            let mut connections = Connections::new(true);
            poll(&mut connections, 0..0, unknown());
            assert_eq!(poll(&mut connections, 5..6, pending.clone()), []);
            let mut told = Vec::new();
            for everywhere in [false, true] {
                assert_eq!(told, []);
                connections.begin();
                assert_eq!(connections.see(5, 5, true), Known::Ownerless);
                connections.own(5, found.as_ref().filter(|_| everywhere), everywhere);
                connections.end(1, &mut told);
            }
            assert_eq!((told.len(), &told[0].owner), (1, &found));
            assert_eq!(told[0].counts, Counts { opened: 1, established: 1, open: 1, ..Counts::default() });
        }
        let mut connections = Connections::new(true);
        poll(&mut connections, 0..0, unknown());
        poll(&mut connections, 5..6, pending.clone());
        poll(&mut connections, 0..0, unknown());
        let ended = poll(&mut connections, 0..0, unknown());
        assert_eq!(ended[0].counts, Counts { opened: 1, established: 1, closed: 1, ..Counts::default() });
    }

    #[test]
    fn an_owner_that_is_never_found_is_asked_for_less_and_less() {
        let mut connections = Connections::new(true);
        poll(&mut connections, 5..6, unknown());
        let mut asked = 0;
        for _ in 0..3000 {
            connections.begin();
            if connections.see(5, 5, true) == Known::Ownerless {
                asked += 1;
                connections.own(5, None, true);
            }
            connections.end(1, &mut Vec::new());
        }
        assert!((5..=12).contains(&asked), "{asked}");
    }

    #[test]
    fn memory_follows_what_is_open() {
        let mut connections = Connections::new(true);
        for round in 0..20u64 {
            poll(&mut connections, round * 100_000..(round + 1) * 100_000, exact(round as u32 + 1));
        }
        poll(&mut connections, 0..0, exact(1));
        poll(&mut connections, 0..0, exact(1));
        assert_eq!(connections.known.len(), 0);
        assert!(connections.known.capacity() < 1000, "{}", connections.known.capacity());
        assert!(connections.flows.len() <= 4, "{}", connections.flows.len());
    }
}
