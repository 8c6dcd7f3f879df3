//! Real destinations of connections whose addresses this host translated.
//!
//! Queries the kernel's connection tracking for single connections, never for its whole table, which may hold millions
//! of entries. One connection represents its flow. It is looked up in the namespace of the flow and then in the agent's
//! own, because packets of containers are translated on their way through the host.
//!
//! ```text
//! request  kind u16 = 1 << 8 | 1 · family u8 · 0 u8 · 0 u16 · tuple of the original direction
//! answer   the same with both directions; the source of the reply direction is the real destination
//! tuple    { addresses { source, destination } · ports { protocol u8, source u16, destination u16 } }
//! ```
//!
//! Requires CAP_NET_ADMIN in the queried namespace. There is no query if connection tracking is not loaded, because a
//! query would load it, which adds a cost to every packet of the host.

use crate::namespaces;
use crate::netlink::{ACKNOWLEDGE, Attributes, Channel, Message, Request};
use flows::{Link, ListenAddress, Protocol};
use rustix::net::netlink;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const GET: u16 = 1 << 8 | 1;
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const ADDRESSES: u16 = 1;
const PORTS: u16 = 2;

const CACHE_SIZE_MAX: usize = 16_384;
/// Maximum number of new lookups in one call; the others wait for the next call.
const LOOKUPS_MAX: usize = 1000;
const CACHE_TTL: Duration = Duration::from_secs(300);

/// A connection to look up: its link and the port of its active end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    pub netns: u64,
    pub link: Link,
    pub active_port: u16,
}

#[derive(Default)]
pub struct Translations {
    cache: HashMap<(u64, Link), (Option<ListenAddress>, Instant)>,
    unavailable: Option<String>,
}

impl Translations {
    /// Looks up connections whose flows are not cached.
    pub fn look_up(&mut self, lookups: &[Lookup]) {
        self.cache.retain(|_, (_, when)| when.elapsed() < CACHE_TTL);
        if self.cache.len() >= CACHE_SIZE_MAX {
            self.cache.clear();
        }
        let mut new: BTreeMap<u64, Vec<Lookup>> = BTreeMap::new();
        for lookup in lookups {
            if !self.cache.contains_key(&(lookup.netns, lookup.link.clone())) {
                new.entry(lookup.netns).or_default().push(lookup.clone());
            }
        }
        if new.is_empty() {
            return;
        }
        if !Path::new("/proc/sys/net/netfilter/nf_conntrack_max").exists() {
            self.unavailable = Some("connection tracking is not loaded, so address translation is not visible".into());
            return;
        }
        self.unavailable = None;
        let namespace_paths = namespaces::all();
        let mut left = LOOKUPS_MAX;
        for (netns, mut lookups) in new {
            lookups.truncate(left);
            left -= lookups.len();
            self.look_up_in(netns, &lookups, &namespace_paths);
        }
    }

    fn look_up_in(&mut self, netns: u64, lookups: &[Lookup], namespace_paths: &BTreeMap<u64, PathBuf>) {
        let Some(path) = namespace_paths.get(&netns) else { return };
        let query_all = || -> io::Result<Vec<Option<ListenAddress>>> {
            let mut channel = Channel::open(Some(netlink::NETFILTER))?;
            lookups.iter().map(|lookup| translation(&mut channel, lookup)).collect()
        };
        let own = namespaces::own().ok();
        let there = namespaces::within(netns, path, query_all).flatten();
        let here = if own == Some(netns) { Ok(vec![None; lookups.len()]) } else { query_all() };
        if let (Err(error), _) | (_, Err(error)) = (&there, &here) {
            self.unavailable =
                Some(format!("cannot query connection tracking ({error}), so address translation is not visible"));
        }
        let answers = [there, here].map(|answers| answers.unwrap_or_else(|_| vec![None; lookups.len()]));
        for (at, lookup) in lookups.iter().enumerate() {
            let answer = answers.iter().find_map(|answers| answers[at].clone());
            self.cache.insert((lookup.netns, lookup.link.clone()), (answer, Instant::now()));
        }
    }

    /// The real destination of connections of this link; none if it is unknown or not translated.
    pub fn of(&self, netns: u64, link: &Link) -> Option<ListenAddress> {
        self.cache.get(&(netns, link.clone()))?.0.clone()
    }

    /// Why translations may be missing, for the user.
    pub fn unavailable(&self) -> Option<&str> {
        self.unavailable.as_deref()
    }
}

/// Queries in the channel's namespace. None: the connection is not tracked or not translated.
fn translation(channel: &mut Channel, lookup: &Lookup) -> io::Result<Option<ListenAddress>> {
    let Some(request) = request(lookup) else { return Ok(None) };
    let mut destination = None;
    match channel.request(request, |message| destination = source_of_reply(&message)) {
        // not tracked
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result?,
    }
    Ok(destination.filter(|destination| *destination != lookup.link.passive))
}

fn request(lookup: &Lookup) -> Option<Request> {
    const IPV4: u8 = 2;
    const IPV6: u8 = 10;
    let ListenAddress::Inet { ip: passive, port } = lookup.link.passive else { return None };
    let family = if passive.is_ipv4() { IPV4 } else { IPV6 };
    let protocol = match lookup.link.protocol {
        Protocol::Tcp => 6u8,
        Protocol::Udp => 17,
        Protocol::Unix => return None,
    };
    let active = lookup.link.active?;
    let (source, destination) = if passive.is_ipv4() { (1, 2) } else { (3, 4) };
    Some(Request::new(GET, ACKNOWLEDGE).put(&[family, 0, 0, 0]).nested(ORIGINAL, |tuple| {
        tuple
            .nested(ADDRESSES, |part| part.attribute(source, &octets(active)).attribute(destination, &octets(passive)))
            .nested(PORTS, |part| {
                part.attribute(1, &[protocol])
                    .attribute(2, &lookup.active_port.to_be_bytes())
                    .attribute(3, &port.to_be_bytes())
            })
    }))
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// The source in the tuple of the reply direction.
fn source_of_reply(message: &Message<'_>) -> Option<ListenAddress> {
    const HEADER_BYTES: usize = 4;
    let tuple = Attributes(message.body.get(HEADER_BYTES..)?).find_kind(REPLY)?;
    let addresses = Attributes(tuple).find_kind(ADDRESSES)?;
    let ports = Attributes(tuple).find_kind(PORTS)?;
    let v4 = || Some(IpAddr::from(<[u8; 4]>::try_from(Attributes(addresses).find_kind(1)?).ok()?));
    let v6 = || Some(IpAddr::from(<[u8; 16]>::try_from(Attributes(addresses).find_kind(3)?).ok()?));
    let port = Attributes(ports).find_kind(2)?.try_into().ok().map(u16::from_be_bytes)?;
    Some(ListenAddress::Inet { ip: v4().or_else(v6)?, port })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::Messages;
    use proptest::prelude::*;

    fn lookup(active: IpAddr, ip: IpAddr, port: u16) -> Lookup {
        let link = Link { protocol: Protocol::Tcp, active: Some(active), passive: ListenAddress::Inet { ip, port } };
        Lookup { netns: 1, link, active_port: 40_000 }
    }

    proptest! {
        #[test]
        fn the_source_of_the_reply_is_the_destination(ip: [u8; 4], port: u16, v6: [u8; 16]) {
            for (source, ip) in [(1, IpAddr::from(ip)), (3, IpAddr::from(v6))] {
                let bytes = Request::new(GET, 0)
                    .put(&[2, 0, 0, 0])
                    .nested(ORIGINAL, |tuple| tuple.attribute(9, &[1]))
                    .nested(REPLY, |tuple| tuple
                        .nested(ADDRESSES, |part| part.attribute(source, &octets(ip)))
                        .nested(PORTS, |part| part.attribute(1, &[6]).attribute(2, &port.to_be_bytes())))
                    .finish(1);
                let answer = source_of_reply(&Messages(&bytes).next().unwrap());
                prop_assert_eq!(answer, Some(ListenAddress::Inet { ip, port }));
            }
        }

        #[test]
        fn any_bytes_are_parsed_without_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = source_of_reply(&Message { kind: GET, sequence: 0, body: &body });
        }

        #[test]
        fn a_request_contains_its_connection(active: [u8; 4], passive: [u8; 4], port: u16) {
            let bytes = request(&lookup(active.into(), passive.into(), port)).unwrap().finish(1);
            let message = Messages(&bytes).next().unwrap();
            let tuple = Attributes(&message.body[4..]).find_kind(ORIGINAL).unwrap();
            let addresses = Attributes(tuple).find_kind(ADDRESSES).unwrap();
            prop_assert_eq!(Attributes(addresses).find_kind(1), Some(&active[..]));
            prop_assert_eq!(Attributes(addresses).find_kind(2), Some(&passive[..]));
            let ports = Attributes(tuple).find_kind(PORTS).unwrap();
            prop_assert_eq!(Attributes(ports).find_kind(3), Some(&port.to_be_bytes()[..]));
        }
    }
}
