//! Hand-made slices: hosts, their services, and connections observed at one or both ends.

use flows::*;
use std::net::IpAddr;

pub const NETNS: u64 = 4026531840;

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub fn host(name: &str, addresses: &[&str]) -> HostSlice {
    let addresses = addresses.iter().map(|a| HostAddress { netns: NETNS, ip: ip(a) }).collect();
    HostSlice {
        host: Host {
            id: HostId(format!("machine-{name}")),
            name: name.into(),
            boot: "7c1d0c7e-0000-4000-8000-000000000000".into(),
            addresses,
        },
        services: Vec::new(),
        processes: Vec::new(),
        listeners: Vec::new(),
        flows: Vec::new(),
        losses: Losses::default(),
        last_seen_ms: 60_000,
    }
}

pub fn slice(hosts: Vec<HostSlice>) -> Slice {
    Slice { from_ms: 0, to_ms: 60_000, hosts }
}

pub fn process_id(pid: u32) -> ProcessId {
    ProcessId { pid, start_ticks: u64::from(pid) * 10 }
}

pub trait Building {
    fn service(&mut self, kind: ServiceKind, name: &str, arguments: &str) -> ServiceKey;
    fn program(&mut self, name: &str) -> ServiceKey;
    fn process(&mut self, service: &ServiceKey, pid: u32) -> ProcessId;
    fn listens(&mut self, service: &ServiceKey, at: &str, port: u16);
    fn flow(&mut self, side: Side, service: &ServiceKey, pid: Option<u32>, link: Link, n: u64) -> &mut Flow;
}

impl Building for HostSlice {
    fn service(&mut self, kind: ServiceKind, name: &str, arguments: &str) -> ServiceKey {
        let key = ServiceKey::of(&self.host.id, kind, &format!("{name} {arguments}"));
        if !self.services.iter().any(|s| s.key == key) {
            self.services.push(Service {
                key: key.clone(),
                kind,
                name: name.into(),
                executable: (kind == ServiceKind::Program).then(|| format!("/usr/bin/{name}")),
                arguments: Some(arguments.into()),
                container: (kind == ServiceKind::Container).then(|| arguments.to_owned()),
                pod: None,
                unit: (kind == ServiceKind::Unit).then(|| name.to_owned()),
                cgroup: None,
            });
        }
        key
    }

    fn program(&mut self, name: &str) -> ServiceKey {
        self.service(ServiceKind::Program, name, "")
    }

    fn process(&mut self, service: &ServiceKey, pid: u32) -> ProcessId {
        let id = process_id(pid);
        self.processes.push(Process { id, service: service.clone(), netns: NETNS, comm: "comm".into() });
        id
    }

    fn listens(&mut self, service: &ServiceKey, at: &str, port: u16) {
        self.listeners.push(Listener {
            service: service.clone(),
            netns: NETNS,
            protocol: Protocol::Tcp,
            at: ListenAddress::Inet { ip: ip(at), port },
        });
    }

    fn flow(&mut self, side: Side, service: &ServiceKey, pid: Option<u32>, link: Link, n: u64) -> &mut Flow {
        let (sent, received) = if side == Side::Active { (10 * n, 100 * n) } else { (100 * n, 10 * n) };
        self.flows.push(Flow {
            side,
            service: service.clone(),
            process: pid.map(process_id),
            netns: NETNS,
            link,
            translated: None,
            source: Source::Ebpf,
            attribution: Attribution::Exact,
            counts: Counts { opened: n, established: n, failed: 0, closed: n, open: 0, sent, received },
        });
        self.flows.last_mut().unwrap()
    }
}

pub fn link(from: &str, to: &str, port: u16) -> Link {
    Link { protocol: Protocol::Tcp, active: Some(ip(from)), passive: ListenAddress::Inet { ip: ip(to), port } }
}

pub fn unix(path: &str) -> Link {
    Link { protocol: Protocol::Unix, active: None, passive: ListenAddress::Path(path.into()) }
}

/// Edges as `from -> to at ×opened`, with `?` if only one end was observed.
pub fn edges(graph: &Graph) -> Vec<String> {
    let label = |id: &str| graph.nodes.iter().find(|n| n.id == id).map_or(id.to_owned(), |n| n.label.clone());
    graph
        .edges
        .iter()
        .map(|e| {
            let mark = if e.paired { "" } else { " ?" };
            format!("{} -> {} {} ×{}{mark}", label(&e.from), label(&e.to), e.at, e.counts.opened)
        })
        .collect()
}
