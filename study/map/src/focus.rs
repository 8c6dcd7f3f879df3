//! What a user means by X: a host, an address, a port, a pid, a unit, a container, a service.
//!
//! | written | meant |
//! |---|---|
//! | `host:NAME`, or NAME | all nodes of the host |
//! | `10.0.0.5`, `[::1]` | who lives at this address |
//! | `10.0.0.5:5432`, `:5432` | who listens there |
//! | `pid:4711`, `4711`, `pid:4711@HOST` | the process, or the service it is of |
//! | `unit:nginx`, `container:3f9a2c`, `service:NAME`, or just the name | the service |
//! | a node's id | this node |

use crate::atlas::Map;
use crate::names::End;
use flows::{Service, ServiceKind};
use model::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Why a text names no node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// Each candidate, as it can be typed, and what it is.
    Ambiguous {
        text: String,
        candidates: Vec<(String, String)>,
    },
    Unknown {
        text: String,
        near: Vec<String>,
    },
    /// It is known, and had no connections and no listeners in this range.
    Idle {
        text: String,
    },
}

/// Hex digits of a container's id that are enough to mean it.
const CONTAINER_DIGITS_MIN: usize = 6;
const NEAR_MAX: usize = 5;

/// What one reading of the text means: the services by host, each with the process that was named.
type Meant<'a> = BTreeSet<End<'a>>;

impl<'a> Map<'a> {
    /// Ids of the nodes that `text` means; at least one.
    pub fn find(&self, text: &str) -> Result<BTreeSet<String>, NotFound> {
        if self.members.contains_key(text) {
            return Ok([text.to_owned()].into());
        }
        let mut readings = self.readings(text);
        if readings.len() > 1 {
            // what has no node in this graph is not what is asked for, if something else has
            readings.retain(|_, meant| !self.nodes_of(meant).is_empty());
        }
        match readings.len() {
            0 => Err(NotFound::Unknown { text: text.to_owned(), near: self.near(text) }),
            1 => {
                let nodes = self.nodes_of(readings.values().next().expect("one"));
                if nodes.is_empty() { Err(NotFound::Idle { text: text.to_owned() }) } else { Ok(nodes) }
            }
            _ => {
                let candidates = readings.iter().map(|(typed, meant)| (typed.clone(), self.described(meant)));
                Err(NotFound::Ambiguous { text: text.to_owned(), candidates: candidates.collect() })
            }
        }
    }

    fn nodes_of(&self, meant: &Meant) -> BTreeSet<String> {
        let has = |end: &End| {
            meant.contains(end)
                || match end {
                    End::Service { host, key, process } => {
                        let whole = End::Service { host: *host, key, process: None };
                        meant.contains(&whole)
                            || (process.is_none()
                                && meant.iter().any(
                                    |m| matches!(m, End::Service { host: h, key: k, .. } if h == host && k == key),
                                ))
                    }
                    End::Host(_) | End::External(_) => false,
                }
        };
        self.members.iter().filter(|(_, ends)| ends.iter().any(has)).map(|(id, _)| id.clone()).collect()
    }

    /// Everything the text can mean, by what would mean it unmistakably.
    fn readings(&self, text: &str) -> BTreeMap<String, Meant<'a>> {
        let mut readings = BTreeMap::new();
        if let Some((kind, name)) = text.split_once(':') {
            match kind {
                "host" => self.hosts(name, &mut readings),
                "pid" => self.pids(name, &mut readings),
                "unit" => self.services(|s| is_unit(s, name), &mut readings),
                "container" => self.services(|s| is_container(s, name), &mut readings),
                "service" => self.services(|s| s.name == name, &mut readings),
                _ => {}
            }
            if !readings.is_empty() {
                return readings;
            }
        }
        if let Some((ip, port)) = address(text) {
            self.address(text, ip, port, &mut readings);
            return readings;
        }
        if text.bytes().all(|b| b.is_ascii_digit()) {
            self.pids(text, &mut readings);
        }
        self.hosts(text, &mut readings);
        self.services(|s| s.name == text || is_unit(s, text) || is_container(s, text), &mut readings);
        if readings.is_empty() {
            self.services(|s| executable(s) == Some(text), &mut readings);
        }
        readings
    }

    fn hosts(&self, name: &str, readings: &mut BTreeMap<String, Meant<'a>>) {
        for (i, host) in self.places.hosts.iter().enumerate() {
            if host.host.name != name && host.host.id.0 != name {
                continue;
            }
            let mut meant = Meant::from([End::Host(i)]);
            meant.extend(host.services.iter().map(|s| End::Service { host: i, key: &s.key, process: None }));
            let twin = self.places.hosts.iter().filter(|h| h.host.name == host.host.name).count() > 1;
            let typed = if twin { &host.host.id.0 } else { &host.host.name };
            readings.insert(format!("host:{typed}"), meant);
        }
    }

    fn services(&self, is: impl Fn(&Service) -> bool, readings: &mut BTreeMap<String, Meant<'a>>) {
        for (i, host) in self.places.hosts.iter().enumerate() {
            for service in host.services.iter().filter(|s| s.kind != ServiceKind::Host && is(s)) {
                let typed = self.names.service_id(i, &service.key);
                let end = End::Service { host: i, key: &service.key, process: None };
                readings.entry(typed).or_default().insert(end);
            }
        }
    }

    /// `PID` or `PID@HOST`. A pid that was used by processes of several services is ambiguous.
    fn pids(&self, text: &str, readings: &mut BTreeMap<String, Meant<'a>>) {
        let (pid, on) = text.split_once('@').map_or((text, None), |(pid, host)| (pid, Some(host)));
        let Ok(pid) = pid.parse::<u32>() else { return };
        for (i, host) in self.places.hosts.iter().enumerate() {
            if on.is_some_and(|on| on != host.host.name && on != host.host.id.0) {
                continue;
            }
            let known = host.processes.iter().map(|p| (&p.service, p.instance));
            let seen = host.flows.iter().filter_map(|f| f.process.map(|process| (&f.service, process)));
            let mut services: BTreeMap<_, Meant> = BTreeMap::new();
            for (key, instance) in known.chain(seen).filter(|(_, instance)| instance.pid == pid) {
                let end = End::Service { host: i, key, process: Some(instance) };
                services.entry(key).or_default().insert(end);
            }
            let reused = services.len() > 1;
            for (key, meant) in services {
                let typed =
                    if reused { self.names.service_id(i, key) } else { format!("pid:{pid}@{}", host.host.name) };
                readings.insert(typed, meant);
            }
        }
    }

    /// One reading, whoever it is.
    fn address(&self, text: &str, ip: Option<IpAddr>, port: Option<u16>, readings: &mut BTreeMap<String, Meant<'a>>) {
        let mut meant = Meant::new();
        match port {
            Some(port) => meant.extend(self.places.listening(ip, port).into_iter().map(|(host, key)| End::Service {
                host,
                key,
                process: None,
            })),
            None => {
                let held: BTreeSet<_> = ip.into_iter().flat_map(|ip| self.places.all_holders(ip)).collect();
                for place in held {
                    let host = self.places.hosts[place.host];
                    let here = host.flows.iter().filter(|f| f.netns == place.netns).map(|f| &f.service);
                    let here = here.chain(host.listeners.iter().filter(|l| l.netns == place.netns).map(|l| &l.service));
                    meant.extend(here.map(|key| End::Service { host: place.host, key, process: None }));
                    meant.insert(End::Host(place.host));
                }
            }
        }
        if let Some(ip) = ip.filter(|_| meant.is_empty()) {
            // with a port: only if connections went to that port
            let id = format!("external:{ip}");
            let at = port.map(|port| format!(":{port}"));
            let reached = |at: &String| self.graph.edges.iter().any(|e| e.to == id && e.at == *at);
            if self.members.contains_key(&id) && at.as_ref().is_none_or(reached) {
                meant.insert(End::External(ip));
            }
        }
        if !meant.is_empty() {
            readings.insert(text.to_owned(), meant);
        }
    }

    fn described(&self, meant: &Meant) -> String {
        let labels: BTreeSet<String> = meant
            .iter()
            .map(|end| match end {
                End::Service { host, key, .. } => {
                    let name = self.names.services.get(&(*host, *key)).map_or(key.0.as_str(), |s| s.name.as_str());
                    format!("{name} on {}", self.names.host_name(*host))
                }
                End::Host(host) => format!("the host {}", self.names.host_name(*host)),
                End::External(ip) => ip.to_string(),
            })
            .collect();
        let mut labels: Vec<String> = labels.into_iter().collect();
        if labels.len() > 3 {
            let more = labels.len() - 2;
            labels.truncate(2);
            labels.push(format!("{more} more"));
        }
        labels.join(", ")
    }

    fn near(&self, text: &str) -> Vec<String> {
        let text = text.rsplit(':').next().unwrap_or(text).to_lowercase();
        let services = self.places.hosts.iter().flat_map(|h| &h.services).filter(|s| s.kind != ServiceKind::Host);
        let names: BTreeSet<&str> =
            services.map(|s| s.name.as_str()).chain(self.places.hosts.iter().map(|h| h.host.name.as_str())).collect();
        let mut near: Vec<(usize, &str)> = names
            .into_iter()
            .filter_map(|name| {
                let lower = name.to_lowercase();
                let distance = distance(&text, &lower);
                let close = distance <= 1 + text.chars().count() / 4;
                let part = text.chars().count() >= 3 && lower.contains(&text);
                (close || part).then_some((distance, name))
            })
            .collect();
        near.sort();
        near.into_iter().take(NEAR_MAX).map(|(_, name)| name.to_owned()).collect()
    }
}

fn is_unit(service: &Service, name: &str) -> bool {
    service.unit.as_deref().is_some_and(|unit| unit == name || unit.strip_suffix(".service") == Some(name))
}

fn is_container(service: &Service, text: &str) -> bool {
    let prefix = text.len() >= CONTAINER_DIGITS_MIN && text.bytes().all(|b| b.is_ascii_hexdigit());
    service.container.as_deref().is_some_and(|id| id == text || (prefix && id.starts_with(text)))
        || (service.kind == ServiceKind::Container && service.name == text)
}

fn executable(service: &Service) -> Option<&str> {
    service.executable.as_deref()?.rsplit('/').next()
}

/// `IP`, `IP:PORT`, `[IP]`, `[IP]:PORT`, `:PORT`.
fn address(text: &str) -> Option<(Option<IpAddr>, Option<u16>)> {
    if let Some(port) = text.strip_prefix(':').and_then(|port| port.parse().ok()) {
        return Some((None, Some(port)));
    }
    if let Ok(ip) = text.trim_start_matches('[').trim_end_matches(']').parse() {
        return Some((Some(ip), None));
    }
    text.parse::<std::net::SocketAddr>().ok().map(|at| (Some(at.ip()), Some(at.port())))
}

/// Edits that lead from one to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = before + usize::from(x != *y);
            before = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(before + 1);
        }
    }
    row[b.len()]
}

impl From<NotFound> for Failure {
    fn from(reason: NotFound) -> Failure {
        match reason {
            NotFound::Ambiguous { text, candidates } => {
                let lines: Vec<String> = candidates.iter().map(|(typed, what)| format!("{typed}   {what}")).collect();
                Failure::request(format!("'{text}' means several things"))
                    .why(lines.join("\n"))
                    .next("name one of them as it is written there")
            }
            NotFound::Unknown { text, near } if near.is_empty() => {
                Failure::request(format!("nothing here is called '{text}'"))
                    .next("`faultloom map` without a name shows everything; a longer range (--last 1d) may know more")
            }
            NotFound::Unknown { text, near } => Failure::request(format!("nothing here is called '{text}'"))
                .why(format!("near: {}", near.join(", ")))
                .next("name one of these, or an address, :port, pid, unit or container"),
            NotFound::Idle { text } => {
                Failure::unknown(format!("'{text}' had no connections and no listeners in this range"))
                    .next("a longer range may know more: --last 1d")
            }
        }
    }
}
