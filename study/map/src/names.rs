//! Ids and labels of nodes. The id of a node is the same in every map.
//!
//! The id of a service consists of its kind and name, so replicas on several hosts are one node and a restart changes
//! nothing. Programs of one host with equal kind and name are distinguished by a hash of their identity. The id of a
//! process consists of boot, pid and start time, so a reused pid is another node.

use crate::By;
use crate::address_index::AddressIndex;
use flows::{NodeKind, ProcessId, Service, ServiceKey, ServiceKind};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// One end of a connection. Hosts are indices into [`AddressIndex::hosts`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Endpoint<'a> {
    /// Without a process: it had ended, or it is one of several.
    Service {
        host: usize,
        key: &'a ServiceKey,
        process: Option<ProcessId>,
    },
    /// An unknown service of this host.
    Host(usize),
    External(IpAddr),
}

pub(crate) struct Names<'a> {
    pub by: By,
    pub services: BTreeMap<(usize, &'a ServiceKey), &'a Service>,
    hosts: Vec<(String, String, String)>, // id, name, boot
    /// Kinds and names that refer to more than one service on some host.
    shared: BTreeSet<(ServiceKind, &'a str)>,
}

impl<'a> Names<'a> {
    pub fn of(addresses: &AddressIndex<'a>, by: By) -> Names<'a> {
        let mut services = BTreeMap::new();
        let mut shared = BTreeSet::new();
        for (host, slice) in addresses.hosts.iter().enumerate() {
            let mut first: BTreeMap<(ServiceKind, &str), &ServiceKey> = BTreeMap::new();
            for service in &slice.services {
                services.insert((host, &service.key), service);
                let name = (service.kind, service.name.as_str());
                // a host has only one container or unit of a name at a time: another key is a restarted one
                if service.kind == ServiceKind::Program && *first.entry(name).or_insert(&service.key) != &service.key {
                    shared.insert(name);
                }
            }
        }
        let hosts =
            addresses.hosts.iter().map(|h| (h.host.id.0.clone(), h.host.name.clone(), h.host.boot.clone())).collect();
        Names { by, services, hosts, shared }
    }

    pub fn host_name(&self, host: usize) -> &str {
        &self.hosts[host].1
    }

    pub fn id(&self, end: &Endpoint) -> String {
        match (end, self.by) {
            (Endpoint::External(ip), _) => format!("external:{ip}"),
            (Endpoint::Host(host), _) | (Endpoint::Service { host, .. }, By::Host) => self.host_id(*host),
            (Endpoint::Service { host, process: Some(process), .. }, By::Process) if !self.is_host(end) => {
                let (id, _, boot) = &self.hosts[*host];
                let boot: String = boot.chars().take(8).collect();
                format!("process:{id}/{boot}/{}@{}", process.pid, process.start_ticks)
            }
            (Endpoint::Service { host, key, .. }, _) => self.service_id(*host, key),
        }
    }

    fn host_id(&self, host: usize) -> String {
        format!("host:{}", self.hosts[host].0)
    }

    fn is_host(&self, end: &Endpoint) -> bool {
        let Endpoint::Service { host, key, .. } = end else { return matches!(end, Endpoint::Host(_)) };
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

    pub fn kind(&self, end: &Endpoint) -> NodeKind {
        match (end, self.by) {
            (Endpoint::External(_), _) => NodeKind::External,
            (_, By::Host) => NodeKind::Host,
            _ if self.is_host(end) => NodeKind::Host,
            (Endpoint::Service { process: Some(_), .. }, By::Process) => NodeKind::Process,
            (Endpoint::Service { host, key, .. }, _) => match self.services.get(&(*host, *key)).map(|s| s.kind) {
                Some(ServiceKind::Container) => NodeKind::Container,
                Some(ServiceKind::Unit) => NodeKind::Unit,
                _ => NodeKind::Program,
            },
            (Endpoint::Host(_), _) => NodeKind::Host,
        }
    }

    pub fn label(&self, end: &Endpoint) -> String {
        match end {
            Endpoint::External(ip) => ip.to_string(),
            Endpoint::Host(host) => self.host_name(*host).to_owned(),
            Endpoint::Service { host, .. } if self.by == By::Host || self.is_host(end) => {
                self.host_name(*host).to_owned()
            }
            Endpoint::Service { host, key, process } => {
                let name = self.services.get(&(*host, *key)).map_or_else(|| key.0.as_str(), |s| s.name.as_str());
                match process {
                    Some(process) if self.by == By::Process => format!("{name} (pid {})", process.pid),
                    _ => name.to_owned(),
                }
            }
        }
    }
}

/// Hash of the identity of a service without its host: six hex digits.
fn identity(service: &Service) -> String {
    let mut digest = Sha256::new();
    let parts = [&service.container, &service.pod, &service.unit, &service.executable, &service.arguments];
    for part in parts {
        digest.update(part.as_deref().unwrap_or_default());
        digest.update([0]);
    }
    // otherwise use the key
    if parts.iter().all(|part| part.is_none()) {
        digest.update(&service.key.0);
    }
    digest.finalize()[..3].iter().map(|byte| format!("{byte:02x}")).collect()
}
