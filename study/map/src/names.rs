//! What nodes are called: ids that are the same in every map of the same thing, and labels.
//!
//! A service's id is its kind and name, so replicas on several hosts are one node and a restart changes nothing. Two services of one
//! host that share kind and name are told apart by what else identifies them, if they are programs. A process's id has boot, pid and start time, so a pid
//! that is used again is another node.

use crate::By;
use crate::places::Places;
use flows::{Instance, NodeKind, Service, ServiceKey, ServiceKind};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// One end of a connection, as far as it is known. Hosts are indices into [`Places::hosts`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End<'a> {
    /// Without a process: one that was gone, or any of several.
    Service {
        host: usize,
        key: &'a ServiceKey,
        process: Option<Instance>,
    },
    /// Somebody on this host.
    Host(usize),
    External(IpAddr),
}

pub(crate) struct Names<'a> {
    pub by: By,
    pub services: BTreeMap<(usize, &'a ServiceKey), &'a Service>,
    hosts: Vec<(String, String, String)>, // id, name, boot
    /// Kinds and names that mean more than one service on some host.
    shared: BTreeSet<(ServiceKind, &'a str)>,
}

impl<'a> Names<'a> {
    pub fn of(places: &Places<'a>, by: By) -> Names<'a> {
        let mut services = BTreeMap::new();
        let mut shared = BTreeSet::new();
        for (host, seen) in places.hosts.iter().enumerate() {
            let mut first: BTreeMap<(ServiceKind, &str), &ServiceKey> = BTreeMap::new();
            for service in &seen.services {
                services.insert((host, &service.key), service);
                let name = (service.kind, service.name.as_str());
                // a host has one container, pod or unit of a name at a time: another key is its next incarnation
                if service.kind == ServiceKind::Program && *first.entry(name).or_insert(&service.key) != &service.key {
                    shared.insert(name);
                }
            }
        }
        let hosts =
            places.hosts.iter().map(|h| (h.host.id.0.clone(), h.host.name.clone(), h.host.boot.clone())).collect();
        Names { by, services, hosts, shared }
    }

    pub fn host_name(&self, host: usize) -> &str {
        &self.hosts[host].1
    }

    pub fn id(&self, end: &End) -> String {
        match (end, self.by) {
            (End::External(ip), _) => format!("external:{ip}"),
            (End::Host(host), _) | (End::Service { host, .. }, By::Host) => self.host_id(*host),
            (End::Service { host, process: Some(process), .. }, By::Process) if !self.is_host(end) => {
                let (id, _, boot) = &self.hosts[*host];
                let boot: String = boot.chars().take(8).collect();
                format!("process:{id}/{boot}/{}@{}", process.pid, process.start_ticks)
            }
            (End::Service { host, key, .. }, _) => self.service_id(*host, key),
        }
    }

    fn host_id(&self, host: usize) -> String {
        format!("host:{}", self.hosts[host].0)
    }

    fn is_host(&self, end: &End) -> bool {
        let End::Service { host, key, .. } = end else { return matches!(end, End::Host(_)) };
        self.services.get(&(*host, *key)).is_some_and(|s| s.kind == ServiceKind::Host)
    }

    pub fn service_id(&self, host: usize, key: &ServiceKey) -> String {
        let Some(service) = self.services.get(&(host, key)) else { return format!("service:{key}") };
        if service.kind == ServiceKind::Host {
            return self.host_id(host);
        }
        let plain = format!("{}:{}", service.kind.as_str(), service.name);
        if self.shared.contains(&(service.kind, service.name.as_str())) {
            format!("{plain}~{}", identity(service))
        } else {
            plain
        }
    }

    pub fn kind(&self, end: &End) -> NodeKind {
        match (end, self.by) {
            (End::External(_), _) => NodeKind::External,
            (_, By::Host) => NodeKind::Host,
            _ if self.is_host(end) => NodeKind::Host,
            (End::Service { process: Some(_), .. }, By::Process) => NodeKind::Process,
            (End::Service { host, key, .. }, _) => match self.services.get(&(*host, *key)).map(|s| s.kind) {
                Some(ServiceKind::Container) => NodeKind::Container,
                Some(ServiceKind::Unit) => NodeKind::Unit,
                _ => NodeKind::Program,
            },
            (End::Host(_), _) => NodeKind::Host,
        }
    }

    pub fn label(&self, end: &End) -> String {
        match end {
            End::External(ip) => ip.to_string(),
            End::Host(host) => self.host_name(*host).to_owned(),
            End::Service { host, .. } if self.by == By::Host || self.is_host(end) => self.host_name(*host).to_owned(),
            End::Service { host, key, process } => {
                let name = self.services.get(&(*host, *key)).map_or_else(|| key.0.as_str(), |s| s.name.as_str());
                match process {
                    Some(process) if self.by == By::Process => format!("{name} (pid {})", process.pid),
                    _ => name.to_owned(),
                }
            }
        }
    }
}

/// What identifies a service beside its kind and name, without the host: six hex digits.
fn identity(service: &Service) -> String {
    let mut digest = Sha256::new();
    let parts = [&service.container, &service.pod, &service.unit, &service.executable, &service.arguments];
    for part in parts {
        digest.update(part.as_deref().unwrap_or_default());
        digest.update([0]);
    }
    // nothing else is known of them: the key is all there is
    if parts.iter().all(|part| part.is_none()) {
        digest.update(&service.key.0);
    }
    digest.finalize()[..3].iter().map(|byte| format!("{byte:02x}")).collect()
}
