//! Tracks the connections of one network namespace across polls and adds them up as flows.
//!
//! A connection is identified by its cookie, which the kernel never reuses. For a tracked connection a poll only
//! records that it still exists, which costs one lookup; direction, owner and flow were determined when it was new. A
//! connection counts as closed if it is missing from two consecutive polls, because the kernel's dump may skip a socket
//! while others are opened and closed.

use super::hash::IdMap;
use crate::{Owner, SocketObservation};
use flows::{Attribution, Counts, Link, ProcessId, Side};
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum per namespace: about 60 MB. Further connections are counted as lost.
const CONNECTIONS_MAX: usize = 1_000_000;
/// Maximum number of polls between two attempts to find an owner.
const OWNER_RETRY_MAX: u16 = 600;

/// Connections with equal keys form one flow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct GroupKey {
    side: Side,
    owner: Option<(ProcessId, Option<u64>)>,
    link: Link,
    attribution: Attribution,
    any_worker: bool,
}

#[derive(Debug)]
struct Group {
    key: GroupKey,
    owner: Option<Arc<Owner>>,
    example_port: Option<u16>,
    counts: Counts,
    /// Number of open connections in the last report.
    reported_open: u64,
    /// Number of tracked connections; a flow without any is removed.
    connections: u32,
}

#[derive(Debug)]
struct Connection {
    inode: u32,
    group: u32,
    /// The last poll that found it.
    last_poll: u32,
    /// The poll at which to search for its owner again; 0: the owner is final.
    retry_poll: u32,
    retry_delay: u16,
    established: bool,
    /// Included in the counts of its flow. False until processes with many files were searched for its owner.
    counted: bool,
}

/// State of a connection found by the current poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Unchanged,
    /// Search for its owner.
    OwnerMissing,
    New,
}

/// A new connection without its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewConnection {
    pub cookie: u64,
    pub inode: u32,
    pub side: Side,
    pub link: Link,
    pub example_port: Option<u16>,
    pub established: bool,
}

/// The owner of a connection and how it was determined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownership {
    pub owner: Option<Arc<Owner>>,
    pub attribution: Attribution,
    /// The owner is one of several processes that listen at the address.
    pub any_worker: bool,
    pub certainty: Certainty,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    Final,
    /// All processes were searched without success; the owner may be found later.
    Tentative,
    /// Not all processes were searched yet; the connection is not counted until then.
    Pending,
}

#[derive(Debug, Default)]
pub struct Connections {
    tracked: IdMap<u64, Connection>,
    flows: Vec<Group>,
    by_key: HashMap<GroupKey, u32>,
    free: Vec<u32>,
    poll: u32,
    /// Connections found by the first poll were opened before it.
    existed_before: bool,
    lost: u64,
}

impl Connections {
    /// `existed_before`: connections may be older than the first poll, so it counts none as opened.
    pub fn new(existed_before: bool) -> Connections {
        Connections { existed_before, ..Connections::default() }
    }

    pub fn begin(&mut self) {
        self.poll += 1;
        self.lost = 0;
        for flow in &mut self.flows {
            flow.counts = Counts::default();
        }
    }

    /// Records a socket found by the current poll.
    pub fn observe(&mut self, cookie: u64, inode: u32, established: bool) -> Status {
        let Some(connection) = self.tracked.get_mut(&cookie) else { return Status::New };
        if connection.last_poll == self.poll {
            return Status::Unchanged;
        }
        connection.last_poll = self.poll;
        let counts = &mut self.flows[connection.group as usize].counts;
        if connection.counted {
            counts.open += u64::from(established);
            counts.established += u64::from(established && !connection.established);
        }
        connection.established |= established;
        let accepted = inode != 0 && connection.inode == 0;
        if accepted {
            connection.inode = inode;
        }
        if connection.retry_poll != 0 && inode != 0 && (accepted || self.poll >= connection.retry_poll) {
            return Status::OwnerMissing;
        }
        Status::Unchanged
    }

    /// Adds a connection for which [`Connections::observe`] returned [`Status::New`].
    pub fn add(&mut self, new_connection: NewConnection, ownership: Ownership) {
        if self.tracked.len() >= CONNECTIONS_MAX {
            self.lost += 1;
            return;
        }
        let key = GroupKey {
            side: new_connection.side,
            owner: ownership.owner.as_deref().map(identity),
            link: new_connection.link,
            attribution: ownership.attribution,
            any_worker: ownership.any_worker,
        };
        let flow = self.flow(key, ownership.owner);
        let state = &mut self.flows[flow as usize];
        state.connections += 1;
        state.example_port = new_connection.example_port;
        let connection = Connection {
            inode: new_connection.inode,
            group: flow,
            last_poll: self.poll,
            retry_poll: if ownership.certainty == Certainty::Final { 0 } else { self.poll + 1 },
            retry_delay: 1,
            established: new_connection.established,
            counted: ownership.certainty != Certainty::Pending,
        };
        if connection.counted {
            state.counts.add_new(connection.established, !(self.existed_before && self.poll == 1));
        }
        self.tracked.insert(new_connection.cookie, connection);
    }

    /// Records the result of an owner search. Without an owner, the search is repeated later, with growing intervals if
    /// all processes were searched (`exhaustive`).
    pub fn set_owner(&mut self, cookie: u64, owner: Option<&Arc<Owner>>, exhaustive: bool) {
        let Some(connection) = self.tracked.get_mut(&cookie) else { return };
        let (from, is_new) = (connection.group, !connection.counted);
        if owner.is_none() && !exhaustive {
            connection.retry_poll = self.poll + 1;
            return;
        }
        connection.counted = true;
        let established = connection.established;
        let Some(owner) = owner else {
            connection.retry_poll = self.poll + u32::from(connection.retry_delay);
            connection.retry_delay = (connection.retry_delay * 4).min(OWNER_RETRY_MAX);
            if is_new {
                self.flows[from as usize].counts.add_new(established, true);
            }
            return;
        };
        connection.retry_poll = 0;
        let key = GroupKey {
            owner: Some(identity(owner)),
            attribution: Attribution::Exact,
            any_worker: false,
            ..self.flows[from as usize].key.clone()
        };
        let to = self.flow(key, Some(owner.clone()));
        if let Some(connection) = self.tracked.get_mut(&cookie) {
            connection.group = to;
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

    fn flow(&mut self, key: GroupKey, owner: Option<Arc<Owner>>) -> u32 {
        if let Some(at) = self.by_key.get(&key) {
            return *at;
        }
        let state = Group {
            key: key.clone(),
            owner,
            example_port: None,
            counts: Counts::default(),
            reported_open: 0,
            connections: 0,
        };
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

    /// Ends the poll: connections missing from two polls are closed. Appends every active flow to `reported` and
    /// returns the number of connections that were not tracked for lack of room.
    pub fn end(&mut self, netns: u64, reported: &mut Vec<SocketObservation>) -> u64 {
        let (flows, poll) = (&mut self.flows, self.poll);
        self.tracked.retain(|_, connection| {
            if connection.last_poll + 1 >= poll {
                return true;
            }
            let flow = &mut flows[connection.group as usize];
            flow.connections -= 1;
            if !connection.counted {
                flow.counts.add_new(connection.established, true);
                flow.counts.open -= u64::from(connection.established);
            }
            flow.counts.closed += u64::from(connection.established);
            flow.counts.failed += u64::from(!connection.established);
            false
        });
        self.tracked.shrink_to(self.tracked.len() * 4);
        for at in 0..self.flows.len() {
            let flow = &mut self.flows[at];
            // the last one may have moved to the flow of the owner that was found
            let has_left = flow.connections == 0 && flow.reported_open > 0;
            if flow.counts != Counts::default() || has_left {
                flow.reported_open = flow.counts.open;
                reported.push(SocketObservation {
                    side: flow.key.side,
                    netns,
                    owner: flow.owner.clone(),
                    any_worker: flow.key.any_worker,
                    link: flow.key.link.clone(),
                    example_port: flow.example_port,
                    attribution: flow.key.attribution,
                    counts: flow.counts,
                });
            }
            // a free slot still holds its last key, which another slot may use now
            if flow.connections == 0 && self.by_key.get(&flow.key) == Some(&(at as u32)) {
                self.by_key.remove(&flow.key);
                self.free.push(at as u32);
            }
        }
        self.lost
    }
}

trait AddNew {
    /// Adds a connection; `opened`: since the previous poll.
    fn add_new(&mut self, established: bool, opened: bool);
}

impl AddNew for Counts {
    fn add_new(&mut self, established: bool, opened: bool) {
        self.opened += u64::from(opened);
        self.established += u64::from(opened && established);
        self.open += u64::from(established);
    }
}

fn identity(owner: &Owner) -> (ProcessId, Option<u64>) {
    // if the process is unknown, only the cgroup distinguishes owners
    (owner.process, owner.cgroup.filter(|_| owner.process.pid == 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flows::{ListenAddress, Protocol};

    fn new_connection(cookie: u64, inode: u32) -> NewConnection {
        let local = "127.0.0.1".parse().unwrap();
        let link =
            Link { protocol: Protocol::Tcp, active: Some(local), passive: ListenAddress::Inet { ip: local, port: 80 } };
        NewConnection { cookie, inode, side: Side::Active, link, example_port: Some(4000), established: true }
    }

    fn owner(pid: u32) -> Arc<Owner> {
        let process = ProcessId { pid, start_ticks: 9 };
        Arc::new(Owner { process, comm: "a b\nc".into(), cgroup: Some(5), executable: None, arguments: None })
    }

    fn exact(pid: u32) -> Ownership {
        Ownership {
            owner: Some(owner(pid)),
            attribution: Attribution::Exact,
            any_worker: false,
            certainty: Certainty::Final,
        }
    }

    fn unknown() -> Ownership {
        Ownership { owner: None, attribution: Attribution::None, any_worker: false, certainty: Certainty::Tentative }
    }

    /// One poll that finds these cookies; new ones belong to `ownership`.
    fn poll(
        connections: &mut Connections,
        cookies: std::ops::Range<u64>,
        ownership: Ownership,
    ) -> Vec<SocketObservation> {
        connections.begin();
        for cookie in cookies {
            if connections.observe(cookie, cookie as u32, true) == Status::New {
                connections.add(new_connection(cookie, cookie as u32), ownership.clone());
            }
        }
        let mut reported = Vec::new();
        assert_eq!(connections.end(1, &mut reported), 0);
        reported
    }

    #[test]
    fn many_connections_form_one_flow_and_counts_are_differences() {
        let mut connections = Connections::new(true);
        let counts = |reported: Vec<SocketObservation>| {
            assert_eq!(reported.len(), 1);
            reported[0].counts
        };
        let first = counts(poll(&mut connections, 0..5000, exact(7)));
        assert_eq!(first, Counts { open: 5000, ..Counts::default() });
        let second = counts(poll(&mut connections, 1000..6000, exact(7)));
        assert_eq!(second, Counts { opened: 1000, established: 1000, open: 5000, ..Counts::default() });
        let third = counts(poll(&mut connections, 1000..6000, exact(7)));
        assert_eq!(third, Counts { closed: 1000, open: 5000, ..Counts::default() });
        assert_eq!(connections.tracked.len(), 5000);
    }

    #[test]
    fn a_connection_skipped_by_one_dump_is_not_opened_twice() {
        let mut connections = Connections::new(true);
        poll(&mut connections, 0..10, exact(7));
        let without_one = poll(&mut connections, 1..10, exact(7));
        assert_eq!(without_one[0].counts, Counts { open: 9, ..Counts::default() });
        let all_again = poll(&mut connections, 0..10, exact(7));
        assert_eq!(all_again[0].counts, Counts { open: 10, ..Counts::default() });
    }

    /// As for a network namespace that has ended.
    #[test]
    fn after_two_polls_without_sockets_all_connections_are_closed() {
        let mut connections = Connections::new(false);
        poll(&mut connections, 0..5, exact(1));
        connections.begin();
        connections.begin();
        let mut reported = Vec::new();
        connections.end(1, &mut reported);
        let closed: Vec<Counts> = reported.into_iter().map(|it| it.counts).collect();
        assert_eq!(closed, [Counts { closed: 5, ..Counts::default() }]);
    }

    #[test]
    fn a_connection_moves_to_the_owner_found_later() {
        let mut connections = Connections::new(true);
        poll(&mut connections, 0..0, unknown());
        let opened = poll(&mut connections, 5..6, unknown());
        assert_eq!((opened[0].owner.as_ref(), opened[0].counts.opened), (None, 1));
        connections.begin();
        assert_eq!(connections.observe(5, 5, true), Status::OwnerMissing);
        connections.set_owner(5, Some(&owner(7)), true);
        let mut reported = Vec::new();
        connections.end(1, &mut reported);
        assert_eq!(reported.len(), 2, "{reported:?}");
        let (with_owner, without): (Vec<_>, Vec<_>) = reported.iter().partition(|flow| flow.owner.is_some());
        assert_eq!((with_owner[0].owner.as_ref(), with_owner[0].attribution), (Some(&owner(7)), Attribution::Exact));
        assert_eq!(with_owner[0].counts, Counts { open: 1, ..Counts::default() });
        assert_eq!(without[0].counts, Counts::default(), "the flow without owner was reported open before");
        let next = poll(&mut connections, 5..6, unknown());
        assert_eq!(next.len(), 1, "and is not reported again: {next:?}");
        assert_eq!(connections.flows.len() - connections.free.len(), 1);
    }

    #[test]
    fn a_connection_is_counted_after_an_exhaustive_owner_search() {
        let pending = Ownership { certainty: Certainty::Pending, ..unknown() };
        for found in [Some(owner(7)), None] {
            let mut connections = Connections::new(true);
            poll(&mut connections, 0..0, unknown());
            assert_eq!(poll(&mut connections, 5..6, pending.clone()), []);
            let mut reported = Vec::new();
            for exhaustive in [false, true] {
                assert_eq!(reported, []);
                connections.begin();
                assert_eq!(connections.observe(5, 5, true), Status::OwnerMissing);
                connections.set_owner(5, found.as_ref().filter(|_| exhaustive), exhaustive);
                connections.end(1, &mut reported);
            }
            assert_eq!((reported.len(), &reported[0].owner), (1, &found));
            assert_eq!(reported[0].counts, Counts { opened: 1, established: 1, open: 1, ..Counts::default() });
        }
        let mut connections = Connections::new(true);
        poll(&mut connections, 0..0, unknown());
        poll(&mut connections, 5..6, pending.clone());
        poll(&mut connections, 0..0, unknown());
        let ended = poll(&mut connections, 0..0, unknown());
        assert_eq!(ended[0].counts, Counts { opened: 1, established: 1, closed: 1, ..Counts::default() });
    }

    #[test]
    fn owner_searches_without_result_become_rarer() {
        let mut connections = Connections::new(true);
        poll(&mut connections, 5..6, unknown());
        let mut searches = 0;
        for _ in 0..3000 {
            connections.begin();
            if connections.observe(5, 5, true) == Status::OwnerMissing {
                searches += 1;
                connections.set_owner(5, None, true);
            }
            connections.end(1, &mut Vec::new());
        }
        assert!((5..=12).contains(&searches), "{searches}");
    }

    #[test]
    fn memory_is_bounded_by_open_connections() {
        let mut connections = Connections::new(true);
        for round in 0..20u64 {
            poll(&mut connections, round * 100_000..(round + 1) * 100_000, exact(round as u32 + 1));
        }
        poll(&mut connections, 0..0, exact(1));
        poll(&mut connections, 0..0, exact(1));
        assert_eq!(connections.tracked.len(), 0);
        assert!(connections.tracked.capacity() < 1000, "{}", connections.tracked.capacity());
        assert!(connections.flows.len() <= 4, "{}", connections.flows.len());
    }
}
