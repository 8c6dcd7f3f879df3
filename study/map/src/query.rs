//! Resolves a query to nodes: a host, an address, a port, a pid, a unit, a container or a service.
//!
//! | query | result |
//! |---|---|
//! | `host:NAME`, or NAME | all nodes of the host |
//! | `10.0.0.5`, `[::1]` | the services at this address |
//! | `10.0.0.5:5432`, `:5432` | the listener there |
//! | `pid:4711`, `4711`, `pid:4711@HOST` | the process, or its service |
//! | `unit:nginx`, `container:3f9a2c`, `service:NAME`, or just the name | the service |
//! | the id of a node | this node |

use crate::graph::Map;
use crate::names::Endpoint;
use flows::{Service, ServiceKind};
use model::{Failure, edit_distance};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Why a query has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// The candidates: an unambiguous query and a description of each.
    Ambiguous {
        text: String,
        candidates: Vec<(String, String)>,
    },
    Unknown {
        text: String,
        similar: Vec<String>,
    },
    /// It exists, but had no connections and no listeners in the interval.
    Idle {
        text: String,
    },
}

/// Minimum number of hex digits to identify a container.
const CONTAINER_DIGITS_MIN: usize = 6;
const SIMILAR_MAX: usize = 5;

/// One interpretation of a query: services by host, with the process if it was named.
type Endpoints<'a> = BTreeSet<Endpoint<'a>>;

impl<'a> Map<'a> {
    /// Ids of the nodes that match the query; at least one.
    pub fn find(&self, text: &str) -> Result<BTreeSet<String>, NotFound> {
        if self.members.contains_key(text) {
            return Ok([text.to_owned()].into());
        }
        let mut interpretations = self.interpretations(text);
        if interpretations.len() > 1 {
            // ignore interpretations without a node if another one has nodes
            interpretations.retain(|_, endpoints| !self.nodes_of(endpoints).is_empty());
        }
        match interpretations.len() {
            0 => Err(NotFound::Unknown { text: text.to_owned(), similar: self.similar(text) }),
            1 => {
                let nodes = self.nodes_of(interpretations.values().next().expect("one"));
                if nodes.is_empty() { Err(NotFound::Idle { text: text.to_owned() }) } else { Ok(nodes) }
            }
            _ => {
                let candidates =
                    interpretations.iter().map(|(query, endpoints)| (query.clone(), self.described(endpoints)));
                Err(NotFound::Ambiguous { text: text.to_owned(), candidates: candidates.collect() })
            }
        }
    }

    fn nodes_of(&self, endpoints: &Endpoints) -> BTreeSet<String> {
        let has = |end: &Endpoint| {
            endpoints.contains(end)
                || match end {
                    Endpoint::Service { host, key, process } => {
                        let whole = Endpoint::Service { host: *host, key, process: None };
                        endpoints.contains(&whole)
                            || (process.is_none()
                                && endpoints.iter().any(
                                    |m| matches!(m, Endpoint::Service { host: h, key: k, .. } if h == host && k == key),
                                ))
                    }
                    Endpoint::Host(_) | Endpoint::External(_) => false,
                }
        };
        self.members.iter().filter(|(_, ends)| ends.iter().any(has)).map(|(id, _)| id.clone()).collect()
    }

    /// All interpretations of the query, each by an unambiguous query.
    fn interpretations(&self, text: &str) -> BTreeMap<String, Endpoints<'a>> {
        let mut interpretations = BTreeMap::new();
        if let Some((kind, name)) = text.split_once(':') {
            match kind {
                "host" => self.hosts(name, &mut interpretations),
                "pid" => self.pids(name, &mut interpretations),
                "unit" => self.services(|s| is_unit(s, name), &mut interpretations),
                "container" => self.services(|s| is_container(s, name), &mut interpretations),
                "service" => self.services(|s| s.name == name, &mut interpretations),
                _ => {}
            }
            if !interpretations.is_empty() {
                return interpretations;
            }
        }
        if let Some((ip, port)) = address(text) {
            self.address(text, ip, port, &mut interpretations);
            return interpretations;
        }
        if text.bytes().all(|b| b.is_ascii_digit()) {
            self.pids(text, &mut interpretations);
        }
        self.hosts(text, &mut interpretations);
        self.services(|s| s.name == text || is_unit(s, text) || is_container(s, text), &mut interpretations);
        if interpretations.is_empty() {
            self.services(|s| executable(s) == Some(text), &mut interpretations);
        }
        interpretations
    }

    fn hosts(&self, name: &str, interpretations: &mut BTreeMap<String, Endpoints<'a>>) {
        for (i, host) in self.addresses.hosts.iter().enumerate() {
            if host.host.name != name && host.host.id.0 != name {
                continue;
            }
            let mut endpoints = Endpoints::from([Endpoint::Host(i)]);
            endpoints.extend(host.services.iter().map(|s| Endpoint::Service { host: i, key: &s.key, process: None }));
            let is_duplicate = self.addresses.hosts.iter().filter(|h| h.host.name == host.host.name).count() > 1;
            let query = if is_duplicate { &host.host.id.0 } else { &host.host.name };
            interpretations.insert(format!("host:{query}"), endpoints);
        }
    }

    fn services(&self, is: impl Fn(&Service) -> bool, interpretations: &mut BTreeMap<String, Endpoints<'a>>) {
        for (i, host) in self.addresses.hosts.iter().enumerate() {
            for service in host.services.iter().filter(|s| s.kind != ServiceKind::Host && is(s)) {
                let query = self.names.service_id(i, &service.key);
                let end = Endpoint::Service { host: i, key: &service.key, process: None };
                interpretations.entry(query).or_default().insert(end);
            }
        }
    }

    /// `PID` or `PID@HOST`. A pid that processes of several services used is ambiguous.
    fn pids(&self, text: &str, interpretations: &mut BTreeMap<String, Endpoints<'a>>) {
        let (pid, on) = text.split_once('@').map_or((text, None), |(pid, host)| (pid, Some(host)));
        let Ok(pid) = pid.parse::<u32>() else { return };
        for (i, host) in self.addresses.hosts.iter().enumerate() {
            if on.is_some_and(|on| on != host.host.name && on != host.host.id.0) {
                continue;
            }
            let listed = host.processes.iter().map(|p| (&p.service, p.id));
            let active = host.flows.iter().filter_map(|f| f.process.map(|process| (&f.service, process)));
            let mut services: BTreeMap<_, Endpoints> = BTreeMap::new();
            for (key, instance) in listed.chain(active).filter(|(_, instance)| instance.pid == pid) {
                let end = Endpoint::Service { host: i, key, process: Some(instance) };
                services.entry(key).or_default().insert(end);
            }
            let reused = services.len() > 1;
            for (key, endpoints) in services {
                let query =
                    if reused { self.names.service_id(i, key) } else { format!("pid:{pid}@{}", host.host.name) };
                interpretations.insert(query, endpoints);
            }
        }
    }

    /// An address has only one interpretation.
    fn address(
        &self,
        text: &str,
        ip: Option<IpAddr>,
        port: Option<u16>,
        interpretations: &mut BTreeMap<String, Endpoints<'a>>,
    ) {
        let mut endpoints = Endpoints::new();
        match port {
            Some(port) => {
                endpoints.extend(self.addresses.listening(ip, port).into_iter().map(|(host, key)| Endpoint::Service {
                    host,
                    key,
                    process: None,
                }))
            }
            None => {
                let held: BTreeSet<_> = ip.into_iter().flat_map(|ip| self.addresses.all_holders(ip)).collect();
                for namespace in held {
                    let host = self.addresses.hosts[namespace.host];
                    let here = host.flows.iter().filter(|f| f.netns == namespace.netns).map(|f| &f.service);
                    let here =
                        here.chain(host.listeners.iter().filter(|l| l.netns == namespace.netns).map(|l| &l.service));
                    endpoints.extend(here.map(|key| Endpoint::Service { host: namespace.host, key, process: None }));
                    endpoints.insert(Endpoint::Host(namespace.host));
                }
            }
        }
        if let Some(ip) = ip.filter(|_| endpoints.is_empty()) {
            // with a port, only if there are connections to that port
            let id = format!("external:{ip}");
            let at = port.map(|port| format!(":{port}"));
            let reached = |at: &String| self.graph.edges.iter().any(|e| e.to == id && e.at == *at);
            if self.members.contains_key(&id) && at.as_ref().is_none_or(reached) {
                endpoints.insert(Endpoint::External(ip));
            }
        }
        if !endpoints.is_empty() {
            interpretations.insert(text.to_owned(), endpoints);
        }
    }

    fn described(&self, endpoints: &Endpoints) -> String {
        let labels: BTreeSet<String> = endpoints
            .iter()
            .map(|end| match end {
                Endpoint::Service { host, key, .. } => {
                    let name = self.names.services.get(&(*host, *key)).map_or(key.0.as_str(), |s| s.name.as_str());
                    format!("{name} on {}", self.names.host_name(*host))
                }
                Endpoint::Host(host) => format!("the host {}", self.names.host_name(*host)),
                Endpoint::External(ip) => ip.to_string(),
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

    fn similar(&self, text: &str) -> Vec<String> {
        let text = text.rsplit(':').next().unwrap_or(text).to_lowercase();
        let services = self.addresses.hosts.iter().flat_map(|h| &h.services).filter(|s| s.kind != ServiceKind::Host);
        let names: BTreeSet<&str> = services
            .map(|s| s.name.as_str())
            .chain(self.addresses.hosts.iter().map(|h| h.host.name.as_str()))
            .collect();
        let mut similar: Vec<(usize, &str)> = names
            .into_iter()
            .filter_map(|name| {
                let lower = name.to_lowercase();
                let distance = edit_distance(&text, &lower);
                let close = distance <= 1 + text.chars().count() / 4;
                let part = text.chars().count() >= 3 && lower.contains(&text);
                (close || part).then_some((distance, name))
            })
            .collect();
        similar.sort();
        similar.into_iter().take(SIMILAR_MAX).map(|(_, name)| name.to_owned()).collect()
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

impl From<NotFound> for Failure {
    fn from(reason: NotFound) -> Failure {
        match reason {
            NotFound::Ambiguous { text, candidates } => {
                let lines: Vec<String> = candidates.iter().map(|(query, what)| format!("{query}   {what}")).collect();
                Failure::request(format!("'{text}' is ambiguous")).why(lines.join("\n")).next("use one of these names")
            }
            NotFound::Unknown { text, similar } if similar.is_empty() => {
                Failure::request(format!("no host, service or address matches '{text}'"))
                    .next("run `faultloom map` without a name to list everything, or use a longer range (--last 1d)")
            }
            NotFound::Unknown { text, similar } => {
                Failure::request(format!("no host, service or address matches '{text}'"))
                    .why(format!("similar: {}", similar.join(", ")))
                    .next("use one of these, or an address, :port, pid, unit or container")
            }
            NotFound::Idle { text } => {
                Failure::unknown(format!("'{text}' had no connections and no listeners in this range"))
                    .next("use a longer range: --last 1d")
            }
        }
    }
}
