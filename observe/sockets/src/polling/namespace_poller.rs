//! Polls one network namespace.
//!
//! A poll reads all sockets; then the owners of all namespaces are searched together; then the poll is finished with
//! the owners. Connections are read before listeners, so that the listener of a connection is known when it is
//! classified.

use super::connections::{Certainty, Connections, NewConnection, Ownership, Status};
use super::hash::IdMap;
use super::inet_diag::{self, Family, InetSocket, Transport, state};
use super::listeners::Listeners;
use super::missed_connections::MissedConnections;
use super::owners::OwnerSearch;
use super::unix_diag::{self, UnixSocket};
use crate::netlink::Channel;
use crate::{CollectedSockets, Owner};
use flows::{Attribution, Link, ListenAddress, ProcessId, Protocol, Side};
use rustix::net::netlink;
use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

/// States of open and opening connections that a process holds or is about to hold.
const TCP_STATES: u32 =
    state::mask(&[state::ESTABLISHED, state::SYN_SENT, state::FIN_WAIT1, state::FIN_WAIT2, state::CLOSE_WAIT]);

/// A connection that is new in this poll and whose direction is not determined yet.
struct UnclassifiedConnection {
    cookie: u64,
    inode: u32,
    cgroup: Option<u64>,
    protocol: Protocol,
    local: (IpAddr, u16),
    remote: (IpAddr, u16),
    established: bool,
}

pub struct NamespacePoller {
    pub netns: u64,
    channel: Channel,
    /// Port range from which the kernel assigns ports.
    ephemeral: RangeInclusive<u16>,
    connections: Connections,
    listeners: Listeners,
    missed: MissedConnections,
    unclassified: Vec<UnclassifiedConnection>,
    unix: Vec<UnixSocket>,
    /// Tracked connections and listeners without owner, with their inodes.
    ownerless: Vec<(u64, u32)>,
    ownerless_listeners: Vec<(u64, u32, Option<u64>)>,
}

impl NamespacePoller {
    /// Requires CAP_SYS_ADMIN unless it is the current namespace. `existed_before`: it may be older than the agent.
    pub fn enter(netns: u64, path: &Path, existed_before: bool) -> io::Result<NamespacePoller> {
        let (channel, ephemeral, missed) = crate::namespaces::within(netns, path, || {
            let missed = MissedConnections::of_current_namespace(existed_before);
            (Channel::open(Some(netlink::SOCK_DIAG)), ephemeral_ports(), missed)
        })?;
        Ok(NamespacePoller {
            netns,
            channel: channel?,
            ephemeral,
            connections: Connections::new(existed_before),
            listeners: Listeners::default(),
            missed,
            unclassified: Vec::new(),
            unix: Vec::new(),
            ownerless: Vec::new(),
            ownerless_listeners: Vec::new(),
        })
    }

    /// Reads every socket and adds those without owner to `search`. After an error, do not call `finish_poll`.
    pub fn read(&mut self, search: &mut OwnerSearch) -> io::Result<()> {
        self.connections.begin();
        self.listeners.begin();
        self.missed.begin();
        self.unclassified.clear();
        self.unix.clear();
        self.ownerless.clear();
        self.ownerless_listeners.clear();
        for family in [Family::V4, Family::V6] {
            self.read_connections(family, Transport::Tcp, TCP_STATES)?;
            self.read_connections(family, Transport::Udp, state::mask(&[state::ESTABLISHED]))?;
        }
        let unix = &mut self.unix;
        unix_diag::dump(&mut self.channel, |socket| unix.push(socket))?;
        for family in [Family::V4, Family::V6] {
            self.read_listeners(family, Transport::Tcp, state::mask(&[state::LISTEN]))?;
            self.read_listeners(family, Transport::Udp, state::mask(&[state::CLOSE]))?;
        }
        self.read_unix_listeners();
        self.listeners.index();
        let unclassified = self.unclassified.iter().map(|unclassified| (unclassified.inode, false));
        let ownerless = self.ownerless.iter().map(|(_, inode)| (*inode, true));
        let listeners = self.ownerless_listeners.iter().map(|(_, inode, _)| (*inode, true));
        unclassified.chain(ownerless).chain(listeners).for_each(|(inode, again)| search.add(inode, again));
        Ok(())
    }

    fn read_connections(&mut self, family: Family, transport: Transport, states: u32) -> io::Result<()> {
        let (connections, unclassified, ownerless, missed) =
            (&mut self.connections, &mut self.unclassified, &mut self.ownerless, &mut self.missed);
        inet_diag::dump(&mut self.channel, family, transport, states, |socket| {
            // closed by its process; the kernel keeps it until the other end closes too
            if socket.inode() == 0 && matches!(socket.state(), state::FIN_WAIT1 | state::FIN_WAIT2) {
                return;
            }
            let established = socket.state() != state::SYN_SENT;
            match connections.observe(socket.cookie(), socket.inode(), established) {
                Status::Unchanged => {}
                Status::OwnerMissing => ownerless.push((socket.cookie(), socket.inode())),
                Status::New => {
                    if transport == Transport::Tcp {
                        missed.found();
                    }
                    unclassified.push(UnclassifiedConnection::of(&socket, transport, established));
                }
            }
        })
    }

    fn read_listeners(&mut self, family: Family, transport: Transport, states: u32) -> io::Result<()> {
        let (listeners, ownerless, ephemeral) = (&mut self.listeners, &mut self.ownerless_listeners, &self.ephemeral);
        inet_diag::dump(&mut self.channel, family, transport, states, |socket| {
            let port = socket.local_port();
            // a client that sends without connecting is bound to a port that the kernel assigned
            if transport == Transport::Udp && (port == 0 || ephemeral.contains(&port)) {
                return;
            }
            let describe = || (transport.into(), ListenAddress::Inet { ip: socket.local(), port }, socket.v6_only());
            if listeners.observe(socket.cookie(), describe) {
                ownerless.push((socket.cookie(), socket.inode(), socket.cgroup()));
            }
        })
    }

    fn read_unix_listeners(&mut self) {
        for socket in &self.unix {
            let Some(name) = socket.name.as_ref().filter(|_| socket.listens || socket.is_bound_datagram()) else {
                continue;
            };
            let describe = || (Protocol::Unix, ListenAddress::Path(name.clone()), false);
            if self.listeners.observe(socket.cookie, describe) {
                self.ownerless_listeners.push((socket.cookie, socket.inode, None));
            }
        }
    }

    /// Inode and name of each Unix socket. Unix sockets connect across namespaces, so names of all namespaces are
    /// needed.
    pub fn unix_names<'a>(&'a self, names: &mut IdMap<u32, &'a str>) {
        names.extend(self.unix.iter().filter_map(|socket| Some((socket.inode, socket.name.as_deref()?))));
    }

    /// Unix connections with their side and name, determined from the names of all namespaces.
    pub fn classify_unix(&self, names: &IdMap<u32, &str>) -> Vec<(UnixSocket, Side, String)> {
        let classified = |socket: &UnixSocket| {
            let (side, name) = self.unix_side(socket, names)?;
            Some((socket.clone(), side, name))
        };
        self.unix.iter().filter(|socket| !socket.listens && socket.peer.is_some()).filter_map(classified).collect()
    }

    fn unix_side(&self, socket: &UnixSocket, names: &IdMap<u32, &str>) -> Option<(Side, String)> {
        let peer = names.get(&socket.peer?).copied();
        let own = socket.name.as_deref();
        let listens = |name: &&str| self.listeners.at_path(name).is_some();
        if !socket.datagram && own.is_some_and(|name| listens(&name)) {
            return Some((Side::Passive, own?.to_owned()));
        }
        match (peer, own) {
            (Some(peer), _) => Some((Side::Active, peer.to_owned())),
            (None, Some(own)) if !socket.datagram => Some((Side::Passive, own.to_owned())),
            // created by socketpair(2)
            _ => None,
        }
    }

    /// Records Unix connections and returns the new ones.
    pub fn observe_unix(
        &mut self,
        classified: Vec<(UnixSocket, Side, String)>,
        search: &mut OwnerSearch,
    ) -> Vec<NewConnection> {
        let mut new_connections = Vec::new();
        for (socket, side, name) in classified {
            let status = self.connections.observe(socket.cookie, socket.inode, true);
            match status {
                Status::Unchanged => continue,
                Status::OwnerMissing => self.ownerless.push((socket.cookie, socket.inode)),
                Status::New => new_connections.push(NewConnection {
                    cookie: socket.cookie,
                    inode: socket.inode,
                    side,
                    link: Link { protocol: Protocol::Unix, active: None, passive: ListenAddress::Path(name) },
                    example_port: None,
                    established: true,
                }),
            }
            search.add(socket.inode, status == Status::OwnerMissing);
        }
        new_connections
    }

    /// Finishes the poll after the owner search; `exhaustive`: all readable processes were searched.
    pub fn finish_poll(
        &mut self,
        search: &OwnerSearch,
        exhaustive: bool,
        unix: Vec<NewConnection>,
        collected: &mut CollectedSockets,
    ) {
        for (cookie, inode, cgroup) in self.ownerless_listeners.drain(..) {
            let by_cgroup = cgroup.map(cgroup_owner);
            self.listeners.set_owner(
                cookie,
                search.owner(inode).or(by_cgroup.as_ref().filter(|_| exhaustive)),
                exhaustive,
            );
        }
        for (cookie, inode) in self.ownerless.drain(..) {
            self.connections.set_owner(cookie, search.owner(inode), exhaustive);
        }
        for unclassified in std::mem::take(&mut self.unclassified) {
            let (side, listener) = self.side(&unclassified);
            let pending = !exhaustive && unclassified.inode != 0;
            let ownership =
                self.ownership(search.owner(unclassified.inode), pending, listener, side, unclassified.cgroup);
            self.connections.add(unclassified.new_connection(side), ownership);
        }
        for new_connection in unix {
            let listener = match &new_connection.link.passive {
                ListenAddress::Path(path) if new_connection.side == Side::Passive => self.listeners.at_path(path),
                _ => None,
            };
            let pending = !exhaustive && new_connection.inode != 0;
            let ownership =
                self.ownership(search.owner(new_connection.inode), pending, listener, new_connection.side, None);
            self.connections.add(new_connection, ownership);
        }
        collected.losses.between_polls += self.missed.end();
        collected.losses.table_full += self.connections.end(self.netns, &mut collected.flows);
        self.listeners.report(self.netns, &mut collected.listeners);
    }

    /// The namespace has ended: reports all its connections as closed.
    pub fn close(mut self, collected: &mut CollectedSockets) {
        // connections missing from two polls are closed
        self.connections.begin();
        self.connections.begin();
        self.connections.end(self.netns, &mut collected.flows);
        collected.losses.between_polls += self.missed.close();
    }

    /// The side of this end, and its listener if it is the passive side.
    fn side(&self, unclassified: &UnclassifiedConnection) -> (Side, Option<u64>) {
        let listener = |(ip, port)| self.listeners.at(unclassified.protocol, ip, port);
        if let Some(cookie) = listener(unclassified.local) {
            return (Side::Passive, Some(cookie));
        }
        let (local, remote) = (unclassified.local.1, unclassified.remote.1);
        let remote_listens = listener(unclassified.remote).is_some();
        // the listener is gone: the end with the port that a program chose is the passive one
        let by_port_passive = match (self.ephemeral.contains(&local), self.ephemeral.contains(&remote)) {
            (true, false) => false,
            (false, true) => true,
            _ => local < remote,
        };
        let passive = !remote_listens && by_port_passive && unclassified.established;
        (if passive { Side::Passive } else { Side::Active }, None)
    }

    fn ownership(
        &self,
        exact: Option<&Arc<Owner>>,
        pending: bool,
        listener: Option<u64>,
        side: Side,
        cgroup: Option<u64>,
    ) -> Ownership {
        if let Some(owner) = exact {
            return Ownership {
                owner: Some(owner.clone()),
                attribution: Attribution::Exact,
                any_worker: false,
                certainty: Certainty::Final,
            };
        }
        let by_listener = listener.and_then(|cookie| self.listeners.owner(cookie));
        let any_worker = by_listener.is_some_and(|(_, is_shared)| is_shared);
        let (owner, attribution) = match (by_listener, cgroup) {
            (Some((owner, _)), _) => (Some(owner.clone()), Attribution::Listener),
            // the socket is in the cgroup of its creator; for an accepted socket that is the listener
            (None, Some(cgroup)) if side == Side::Passive => (Some(cgroup_owner(cgroup)), Attribution::Listener),
            (None, Some(cgroup)) => (Some(cgroup_owner(cgroup)), Attribution::Exact),
            (None, None) => (None, Attribution::None),
        };
        let certainty = if pending { Certainty::Pending } else { Certainty::Tentative };
        Ownership { owner, attribution, any_worker, certainty }
    }
}

impl UnclassifiedConnection {
    fn of(socket: &InetSocket<'_>, transport: Transport, established: bool) -> UnclassifiedConnection {
        UnclassifiedConnection {
            cookie: socket.cookie(),
            inode: socket.inode(),
            cgroup: socket.cgroup(),
            protocol: transport.into(),
            local: (socket.local(), socket.local_port()),
            remote: (socket.remote(), socket.remote_port()),
            established,
        }
    }

    fn new_connection(self, side: Side) -> NewConnection {
        let (active, (ip, port)) = match side {
            Side::Active => (self.local, self.remote),
            Side::Passive => (self.remote, self.local),
        };
        NewConnection {
            cookie: self.cookie,
            inode: self.inode,
            side,
            link: Link { protocol: self.protocol, active: Some(active.0), passive: ListenAddress::Inet { ip, port } },
            example_port: Some(active.1),
            established: self.established,
        }
    }
}

impl From<Transport> for Protocol {
    fn from(transport: Transport) -> Protocol {
        match transport {
            Transport::Tcp => Protocol::Tcp,
            Transport::Udp => Protocol::Udp,
        }
    }
}

impl UnixSocket {
    fn is_bound_datagram(&self) -> bool {
        self.datagram && self.peer.is_none()
    }
}

/// An owner of which only the cgroup is known.
fn cgroup_owner(cgroup: u64) -> Arc<Owner> {
    let process = ProcessId { pid: 0, start_ticks: 0 };
    Arc::new(Owner { process, comm: String::new(), cgroup: Some(cgroup), executable: None, arguments: None })
}

/// The ephemeral port range of the current namespace.
fn ephemeral_ports() -> RangeInclusive<u16> {
    const KERNEL_DEFAULT: RangeInclusive<u16> = 32768..=60999;
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut bounds = text.split_ascii_whitespace().map(str::parse);
    match (bounds.next(), bounds.next()) {
        (Some(Ok(first)), Some(Ok(last))) => first..=last,
        _ => KERNEL_DEFAULT,
    }
}
