//! One network namespace, polled.
//!
//! A poll has two halves: everything is read, then owners are looked for in all namespaces at once, then what is new is
//! settled. Connections are read before listeners, so that whoever accepted a connection is known when it is judged.

use super::connections::{Arrival, Certainty, Connections, Known, Ownership};
use super::inet_diag::{self, Family, InetSocket, Transport, state};
use super::listeners::Listeners;
use super::owners::Wanted;
use super::quick::QuickMap;
use super::unix_diag::{self, UnixSocket};
use crate::netlink::Channel;
use crate::{Owner, Sightings};
use flows::{Attribution, Instance, Link, Passive, Protocol, Side};
use rustix::net::netlink;
use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

/// Open or opening, and held by a process or about to be.
const TCP_STATES: u32 =
    state::mask(&[state::ESTABLISHED, state::SYN_SENT, state::FIN_WAIT1, state::FIN_WAIT2, state::CLOSE_WAIT]);

/// A connection that is new in this poll.
struct Fresh {
    cookie: u64,
    inode: u32,
    cgroup: Option<u64>,
    protocol: Protocol,
    local: (IpAddr, u16),
    remote: (IpAddr, u16),
    established: bool,
}

pub struct Space {
    pub netns: u64,
    channel: Channel,
    /// Ports that the kernel gives to sockets that did not ask for one.
    ephemeral: RangeInclusive<u16>,
    connections: Connections,
    listeners: Listeners,
    fresh: Vec<Fresh>,
    unix: Vec<UnixSocket>,
    /// Known connections and listeners whose owners are being looked for, with their inodes.
    ownerless: Vec<(u64, u32)>,
    ownerless_listeners: Vec<(u64, u32, Option<u64>)>,
}

impl Space {
    /// Needs CAP_SYS_ADMIN if it is not our own namespace. `from_before`: it may be older than this agent.
    pub fn enter(netns: u64, path: &Path, from_before: bool) -> io::Result<Space> {
        let (channel, ephemeral) =
            crate::namespaces::within(netns, path, || (Channel::open(Some(netlink::SOCK_DIAG)), ephemeral_ports()))?;
        Ok(Space {
            netns,
            channel: channel?,
            ephemeral,
            connections: Connections::new(from_before),
            listeners: Listeners::default(),
            fresh: Vec::new(),
            unix: Vec::new(),
            ownerless: Vec::new(),
            ownerless_listeners: Vec::new(),
        })
    }

    /// The first half: reads every socket, and notes whose owners are wanted. After an error the poll must not be settled.
    pub fn read(&mut self, wanted: &mut Wanted) -> io::Result<()> {
        self.connections.begin();
        self.listeners.begin();
        self.fresh.clear();
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
        let fresh = self.fresh.iter().map(|fresh| (fresh.inode, false));
        let ownerless = self.ownerless.iter().map(|(_, inode)| (*inode, true));
        let listeners = self.ownerless_listeners.iter().map(|(_, inode, _)| (*inode, true));
        fresh.chain(ownerless).chain(listeners).for_each(|(inode, again)| wanted.add(inode, again));
        Ok(())
    }

    fn read_connections(&mut self, family: Family, transport: Transport, states: u32) -> io::Result<()> {
        let (connections, fresh, ownerless) = (&mut self.connections, &mut self.fresh, &mut self.ownerless);
        inet_diag::dump(&mut self.channel, family, transport, states, |socket| {
            // its process has closed it; the kernel keeps it until the other end has closed too
            if socket.inode() == 0 && matches!(socket.state(), state::FIN_WAIT1 | state::FIN_WAIT2) {
                return;
            }
            let established = socket.state() != state::SYN_SENT;
            match connections.see(socket.cookie(), socket.inode(), established) {
                Known::Settled => {}
                Known::Ownerless => ownerless.push((socket.cookie(), socket.inode())),
                Known::New => fresh.push(Fresh::of(&socket, transport, established)),
            }
        })
    }

    fn read_listeners(&mut self, family: Family, transport: Transport, states: u32) -> io::Result<()> {
        let (listeners, ownerless, ephemeral) = (&mut self.listeners, &mut self.ownerless_listeners, &self.ephemeral);
        inet_diag::dump(&mut self.channel, family, transport, states, |socket| {
            let port = socket.local_port();
            // a client that sends without connecting is bound too, to a port nobody asked for
            if transport == Transport::Udp && (port == 0 || ephemeral.contains(&port)) {
                return;
            }
            let what = || (transport.into(), Passive::Inet { ip: socket.local(), port }, socket.v6_only());
            if listeners.see(socket.cookie(), what) {
                ownerless.push((socket.cookie(), socket.inode(), socket.cgroup()));
            }
        })
    }

    fn read_unix_listeners(&mut self) {
        for socket in &self.unix {
            let Some(name) = socket.name.as_ref().filter(|_| socket.listens || socket.is_bound_datagram()) else {
                continue;
            };
            let what = || (Protocol::Unix, Passive::Path(name.clone()), false);
            if self.listeners.see(socket.cookie, what) {
                self.ownerless_listeners.push((socket.cookie, socket.inode, None));
            }
        }
    }

    /// Unix sockets may connect across namespaces, so names are needed from all of them: inode and name of each.
    pub fn unix_names<'a>(&'a self, names: &mut QuickMap<u32, &'a str>) {
        names.extend(self.unix.iter().filter_map(|socket| Some((socket.inode, socket.name.as_deref()?))));
    }

    /// Unix connections that are new or ownerless, judged with the names of all namespaces; notes whose owners are wanted.
    pub fn judge_unix(&self, names: &QuickMap<u32, &str>) -> Vec<(UnixSocket, Side, String)> {
        let judged = |socket: &UnixSocket| {
            let (side, name) = self.unix_side(socket, names)?;
            Some((socket.clone(), side, name))
        };
        self.unix.iter().filter(|socket| !socket.listens && socket.peer.is_some()).filter_map(judged).collect()
    }

    fn unix_side(&self, socket: &UnixSocket, names: &QuickMap<u32, &str>) -> Option<(Side, String)> {
        let peer = names.get(&socket.peer?).copied();
        let own = socket.name.as_deref();
        let listens = |name: &&str| self.listeners.at_path(name).is_some();
        if !socket.datagram && own.is_some_and(|name| listens(&name)) {
            return Some((Side::Passive, own?.to_owned()));
        }
        match (peer, own) {
            (Some(peer), _) => Some((Side::Active, peer.to_owned())),
            (None, Some(own)) if !socket.datagram => Some((Side::Passive, own.to_owned())),
            // a pair made by socketpair: both ends are of one making
            _ => None,
        }
    }

    /// Counts Unix connections; those that are new are returned to be settled.
    pub fn see_unix(&mut self, judged: Vec<(UnixSocket, Side, String)>, wanted: &mut Wanted) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for (socket, side, name) in judged {
            let known = self.connections.see(socket.cookie, socket.inode, true);
            match known {
                Known::Settled => continue,
                Known::Ownerless => self.ownerless.push((socket.cookie, socket.inode)),
                Known::New => arrivals.push(Arrival {
                    cookie: socket.cookie,
                    inode: socket.inode,
                    side,
                    link: Link { protocol: Protocol::Unix, active: None, passive: Passive::Path(name) },
                    example_port: None,
                    established: true,
                }),
            }
            wanted.add(socket.inode, known == Known::Ownerless);
        }
        arrivals
    }

    /// The second half, when owners have been looked for; `everywhere`: what was not found cannot be found now.
    pub fn settle(&mut self, wanted: &Wanted, everywhere: bool, unix: Vec<Arrival>, told: &mut Sightings) {
        for (cookie, inode, cgroup) in self.ownerless_listeners.drain(..) {
            let by_cgroup = cgroup.map(of_cgroup);
            self.listeners.own(cookie, wanted.owner(inode).or(by_cgroup.as_ref().filter(|_| everywhere)), everywhere);
        }
        for (cookie, inode) in self.ownerless.drain(..) {
            self.connections.own(cookie, wanted.owner(inode), everywhere);
        }
        for fresh in std::mem::take(&mut self.fresh) {
            let (side, listener) = self.side(&fresh);
            let pending = !everywhere && fresh.inode != 0;
            let ownership = self.ownership(wanted.owner(fresh.inode), pending, listener, side, fresh.cgroup);
            self.connections.add(fresh.arrival(side), ownership);
        }
        for arrival in unix {
            let listener = match &arrival.link.passive {
                Passive::Path(path) if arrival.side == Side::Passive => self.listeners.at_path(path),
                _ => None,
            };
            let pending = !everywhere && arrival.inode != 0;
            let ownership = self.ownership(wanted.owner(arrival.inode), pending, listener, arrival.side, None);
            self.connections.add(arrival, ownership);
        }
        told.losses.table_full += self.connections.end(self.netns, &mut told.flows);
        self.listeners.tell(self.netns, &mut told.listeners);
    }

    /// Which end it is, and who listens if it is the passive one.
    fn side(&self, fresh: &Fresh) -> (Side, Option<u64>) {
        let listener = |(ip, port)| self.listeners.at(fresh.protocol, ip, port);
        if let Some(cookie) = listener(fresh.local) {
            return (Side::Passive, Some(cookie));
        }
        let (local, remote) = (fresh.local.1, fresh.remote.1);
        let remote_listens = listener(fresh.remote).is_some();
        // who listened has stopped: the end with the port that somebody chose is the passive one
        let looks_passive = match (self.ephemeral.contains(&local), self.ephemeral.contains(&remote)) {
            (true, false) => false,
            (false, true) => true,
            _ => local < remote,
        };
        let passive = !remote_listens && looks_passive && fresh.established;
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
                certainty: Certainty::Settled,
            };
        }
        let (owner, attribution) = match (listener.and_then(|cookie| self.listeners.owner(cookie)), cgroup) {
            (Some(owner), _) => (Some(owner.clone()), Attribution::Listener),
            // the socket is in the cgroup of who made it: for an accepted one, that is who listens
            (None, Some(cgroup)) if side == Side::Passive => (Some(of_cgroup(cgroup)), Attribution::Listener),
            (None, Some(cgroup)) => (Some(of_cgroup(cgroup)), Attribution::Exact),
            (None, None) => (None, Attribution::None),
        };
        let certainty = if pending { Certainty::Pending } else { Certainty::Tentative };
        Ownership { owner, attribution, certainty }
    }
}

impl Fresh {
    fn of(socket: &InetSocket<'_>, transport: Transport, established: bool) -> Fresh {
        Fresh {
            cookie: socket.cookie(),
            inode: socket.inode(),
            cgroup: socket.cgroup(),
            protocol: transport.into(),
            local: (socket.local(), socket.local_port()),
            remote: (socket.remote(), socket.remote_port()),
            established,
        }
    }

    fn arrival(self, side: Side) -> Arrival {
        let (active, (ip, port)) = match side {
            Side::Active => (self.local, self.remote),
            Side::Passive => (self.remote, self.local),
        };
        Arrival {
            cookie: self.cookie,
            inode: self.inode,
            side,
            link: Link { protocol: self.protocol, active: Some(active.0), passive: Passive::Inet { ip, port } },
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

/// An owner of whom only the cgroup is known.
fn of_cgroup(cgroup: u64) -> Arc<Owner> {
    let instance = Instance { pid: 0, start_ticks: 0 };
    Arc::new(Owner { instance, comm: String::new(), cgroup: Some(cgroup), executable: None, arguments: None })
}

/// Of the namespace this thread is in.
fn ephemeral_ports() -> RangeInclusive<u16> {
    const KERNELS_DEFAULT: RangeInclusive<u16> = 32768..=60999;
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut bounds = text.split_ascii_whitespace().map(str::parse);
    match (bounds.next(), bounds.next()) {
        (Some(Ok(first)), Some(Ok(last))) => first..=last,
        _ => KERNELS_DEFAULT,
    }
}
