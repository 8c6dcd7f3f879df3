//! Where connections really went, when this host translated their addresses.
//!
//! The kernel's connection tracking is asked for single connections, never for its whole table, which may hold millions.
//! One connection stands for all of a flow. It is looked for in the namespace of the flow, then in ours: containers'
//! packets are translated on their way through the host.
//!
//! ```text
//! request  kind u16 = 1 << 8 | 1 · family u8 · 0 u8 · 0 u16 · tuple of the original direction
//! answer   the same with both directions; the reply comes from where the connection really went
//! tuple    { addresses { source, destination } · ports { protocol u8, source u16, destination u16 } }
//! ```
//!
//! Needs CAP_NET_ADMIN in the namespace asked. Nothing is asked where connection tracking is not loaded, because asking
//! would load it, which costs every packet of the host something.

use crate::namespaces;
use crate::netlink::{ACKNOWLEDGE, Attributes, Channel, Message, Request};
use flows::{Link, Passive, Protocol};
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

const MOST_REMEMBERED: usize = 16_384;
/// New questions in one call; the others wait for the next.
const MOST_QUESTIONS: usize = 1000;
const REMEMBERED_FOR: Duration = Duration::from_secs(300);

/// A connection: its link, and the port at its active end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub netns: u64,
    pub link: Link,
    pub active_port: u16,
}

#[derive(Default)]
pub struct Translations {
    remembered: HashMap<(u64, Link), (Option<Passive>, Instant)>,
    trouble: Option<String>,
}

impl Translations {
    /// Asks for connections whose flows are not remembered.
    pub fn ask(&mut self, questions: &[Question]) {
        self.remembered.retain(|_, (_, when)| when.elapsed() < REMEMBERED_FOR);
        if self.remembered.len() >= MOST_REMEMBERED {
            self.remembered.clear();
        }
        let mut new: BTreeMap<u64, Vec<Question>> = BTreeMap::new();
        for question in questions {
            if !self.remembered.contains_key(&(question.netns, question.link.clone())) {
                new.entry(question.netns).or_default().push(question.clone());
            }
        }
        if new.is_empty() {
            return;
        }
        if !Path::new("/proc/sys/net/netfilter/nf_conntrack_max").exists() {
            self.trouble = Some("connection tracking is not loaded: address translation, if any, is not seen".into());
            return;
        }
        self.trouble = None;
        let doors = namespaces::all();
        let mut left = MOST_QUESTIONS;
        for (netns, mut questions) in new {
            questions.truncate(left);
            left -= questions.len();
            self.ask_in(netns, &questions, &doors);
        }
    }

    fn ask_in(&mut self, netns: u64, questions: &[Question], doors: &BTreeMap<u64, PathBuf>) {
        let Some(door) = doors.get(&netns) else { return };
        let ask_all = || -> io::Result<Vec<Option<Passive>>> {
            let mut channel = Channel::open(Some(netlink::NETFILTER))?;
            questions.iter().map(|question| translation(&mut channel, question)).collect()
        };
        let own = namespaces::own().ok();
        let there = namespaces::within(netns, door, ask_all).flatten();
        let here = if own == Some(netns) { Ok(vec![None; questions.len()]) } else { ask_all() };
        if let (Err(error), _) | (_, Err(error)) = (&there, &here) {
            self.trouble =
                Some(format!("connection tracking cannot be asked ({error}): address translation is not seen"));
        }
        let answers = [there, here].map(|answers| answers.unwrap_or_else(|_| vec![None; questions.len()]));
        for (at, question) in questions.iter().enumerate() {
            let answer = answers.iter().find_map(|answers| answers[at].clone());
            self.remembered.insert((question.netns, question.link.clone()), (answer, Instant::now()));
        }
    }

    /// Where connections of this link really go; none if nobody was asked, or nothing is translated.
    pub fn of(&self, netns: u64, link: &Link) -> Option<Passive> {
        self.remembered.get(&(netns, link.clone()))?.0.clone()
    }

    /// Why translations may be missing, in words.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

/// Asks in the channel's namespace. None: the connection is not tracked, or went where it was sent.
fn translation(channel: &mut Channel, question: &Question) -> io::Result<Option<Passive>> {
    let Some(request) = request(question) else { return Ok(None) };
    let mut really = None;
    match channel.ask(request, |message| really = source_of_reply(&message)) {
        // not tracked
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        asked => asked?,
    }
    Ok(really.filter(|really| *really != question.link.passive))
}

fn request(question: &Question) -> Option<Request> {
    const IPV4: u8 = 2;
    const IPV6: u8 = 10;
    let Passive::Inet { ip: passive, port } = question.link.passive else { return None };
    let family = if passive.is_ipv4() { IPV4 } else { IPV6 };
    let protocol = match question.link.protocol {
        Protocol::Tcp => 6u8,
        Protocol::Udp => 17,
        Protocol::Unix => return None,
    };
    let active = question.link.active?;
    let (source, destination) = if passive.is_ipv4() { (1, 2) } else { (3, 4) };
    Some(Request::new(GET, ACKNOWLEDGE).put(&[family, 0, 0, 0]).nested(ORIGINAL, |tuple| {
        tuple
            .nested(ADDRESSES, |part| part.attribute(source, &octets(active)).attribute(destination, &octets(passive)))
            .nested(PORTS, |part| {
                part.attribute(1, &[protocol])
                    .attribute(2, &question.active_port.to_be_bytes())
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

/// Who answers, in an answer's tuple of the reply direction.
fn source_of_reply(message: &Message<'_>) -> Option<Passive> {
    const HEADER_BYTES: usize = 4;
    let tuple = Attributes(message.body.get(HEADER_BYTES..)?).find_kind(REPLY)?;
    let addresses = Attributes(tuple).find_kind(ADDRESSES)?;
    let ports = Attributes(tuple).find_kind(PORTS)?;
    let v4 = || Some(IpAddr::from(<[u8; 4]>::try_from(Attributes(addresses).find_kind(1)?).ok()?));
    let v6 = || Some(IpAddr::from(<[u8; 16]>::try_from(Attributes(addresses).find_kind(3)?).ok()?));
    let port = Attributes(ports).find_kind(2)?.try_into().ok().map(u16::from_be_bytes)?;
    Some(Passive::Inet { ip: v4().or_else(v6)?, port })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::Messages;
    use proptest::prelude::*;

    fn question(active: IpAddr, ip: IpAddr, port: u16) -> Question {
        let link = Link { protocol: Protocol::Tcp, active: Some(active), passive: Passive::Inet { ip, port } };
        Question { netns: 1, link, active_port: 40_000 }
    }

    proptest! {
        #[test]
        fn the_reply_tells_where_it_went(ip: [u8; 4], port: u16, v6: [u8; 16]) {
            for (source, ip) in [(1, IpAddr::from(ip)), (3, IpAddr::from(v6))] {
                let bytes = Request::new(GET, 0)
                    .put(&[2, 0, 0, 0])
                    .nested(ORIGINAL, |tuple| tuple.attribute(9, &[1]))
                    .nested(REPLY, |tuple| tuple
                        .nested(ADDRESSES, |part| part.attribute(source, &octets(ip)))
                        .nested(PORTS, |part| part.attribute(1, &[6]).attribute(2, &port.to_be_bytes())))
                    .finish(1);
                let answer = source_of_reply(&Messages(&bytes).next().unwrap());
                prop_assert_eq!(answer, Some(Passive::Inet { ip, port }));
            }
        }

        #[test]
        fn any_bytes_are_read_without_harm(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = source_of_reply(&Message { kind: GET, sequence: 0, body: &body });
        }

        #[test]
        fn a_question_asks_for_its_own_connection(active: [u8; 4], passive: [u8; 4], port: u16) {
            let bytes = request(&question(active.into(), passive.into(), port)).unwrap().finish(1);
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
