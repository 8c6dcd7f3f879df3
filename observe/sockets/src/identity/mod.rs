//! Assigns collected sockets to services: returns services, their processes, listeners and flows.
//!
//! Collected sockets name processes; each process belongs to one service (container or pod, systemd unit, or program).
//! Flows of a process that has ended by the end of the window become flows of its service, so a service that forks for
//! every request has one flow. Sockets without a known owner belong to the host itself.

pub mod arguments;
mod cgroup_index;
pub mod cgroup_path;
mod container;
mod host;
mod open_flows;
pub mod program;
mod proxy;
mod services;

use crate::conntrack::{Lookup, Translations};
use crate::{CollectedSockets, ObservedListener, Owner, SocketObservation};
use flows::{
    Counts, Flow, FlowKey, Host, Link, ListenAddress, Listener, Observation, Process, ProcessId, Protocol, Service,
    ServiceKey, Side, Source,
};
use model::Failure;
use open_flows::{Ends, OpenFlows};
use process::ProcDir;
use proxy::Proxy;
use services::{ProcessInfo, Services};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Addresses change rarely, and reading them takes about 0.1 ms per namespace.
const HOST_REFRESH: Duration = Duration::from_secs(30);

/// Caches services between calls. The caches are bounded.
pub struct Identifier {
    host: Host,
    host_read: Instant,
    services: Services,
    translations: Translations,
    reported_listeners: Option<HashSet<Listener>>,
    open_flows: OpenFlows,
}

/// The window under construction.
#[derive(Default)]
struct WindowBuilder {
    services: BTreeMap<String, Arc<Service>>,
    processes: BTreeMap<ProcessId, Process>,
    process_info: HashMap<ProcessId, (ProcessInfo, bool)>,
    proxies: Vec<Proxy>,
}

impl Identifier {
    /// # Errors
    /// `/proc` is not usable.
    pub fn start() -> Result<Identifier, Failure> {
        let host = host::this_host()?;
        Ok(Identifier {
            services: Services::new(&host.id, &host.name),
            host,
            host_read: Instant::now(),
            translations: Translations::default(),
            reported_listeners: None,
            open_flows: OpenFlows::default(),
        })
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Why address translation is not visible, if so.
    pub fn translation_unavailable(&self) -> Option<&str> {
        self.translations.unavailable()
    }

    /// Assigns freshly collected sockets to services. Reads processes from `/proc` now.
    pub fn identify(&mut self, source: Source, collected: CollectedSockets) -> Observation {
        if self.host_read.elapsed() >= HOST_REFRESH {
            // keep the old data if it cannot be read now
            self.host = host::this_host().unwrap_or_else(|_| self.host.clone());
            self.host_read = Instant::now();
            self.services.remove_old();
        }
        let mut window = WindowBuilder::default();
        let open: HashSet<ProcessId> = collected.flows.iter().filter(|s| s.counts.open > 0).filter_map(id).collect();
        let listeners = self.listeners(&collected.listeners, &mut window);
        self.look_up_translations(&collected);
        let flows = self.flows(source, collected.flows, &open, &mut window);
        for (id, (_, alive)) in &window.process_info {
            if !alive {
                self.services.remove(id);
            }
        }
        Observation {
            host: self.host.clone(),
            services: window.services.into_values().map(|service| (*service).clone()).collect(),
            processes: window.processes.into_values().collect(),
            listeners,
            flows,
            losses: collected.losses,
        }
    }

    fn listeners(&mut self, collected: &[ObservedListener], window: &mut WindowBuilder) -> Option<Vec<Listener>> {
        let mut listeners = HashSet::new();
        for listening in collected {
            let (service, _) = self.service(listening.owner.as_deref(), listening.netns, true, window);
            listeners.insert(Listener {
                service,
                netns: listening.netns,
                protocol: listening.protocol,
                at: listening.at.clone(),
            });
        }
        if self.reported_listeners.as_ref() == Some(&listeners) {
            return None;
        }
        let mut changed: Vec<Listener> = listeners.iter().cloned().collect();
        changed.sort_by(|a, b| (a.netns, &a.at, &a.service).cmp(&(b.netns, &b.at, &b.service)));
        self.reported_listeners = Some(listeners);
        Some(changed)
    }

    fn flows(
        &mut self,
        source: Source,
        collected: Vec<SocketObservation>,
        open: &HashSet<ProcessId>,
        window: &mut WindowBuilder,
    ) -> Vec<Flow> {
        let mut ends: HashMap<Ends, (FlowKey, Counts)> = HashMap::new();
        for observed in collected {
            let holds_open = id(&observed).is_some_and(|id| open.contains(&id));
            let (service, process) = self.service(observed.owner.as_deref(), observed.netns, holds_open, window);
            let process = process.filter(|_| !observed.any_worker);
            let counts = observed.counts;
            let of = Ends::of(&observed);
            let key = FlowKey {
                side: observed.side,
                service,
                process,
                netns: observed.netns,
                link: observed.link,
                translated: None,
                source,
                attribution: observed.attribution,
            };
            ends.entry(of).or_insert_with(|| (key, Counts::default())).1.add_concurrent(&counts);
        }
        let mut flows: HashMap<FlowKey, Counts> = HashMap::new();
        for (of, (key, counts)) in ends {
            let key = FlowKey { translated: self.translated(&key, &window.proxies), ..key };
            // The process ended, or executes another program now. Without a report, the flow under which its
            // connections were reported would stay open forever.
            if let Some(before) = self.open_flows.replace(&of, &key, counts.open > 0) {
                flows.entry(before).or_default();
            }
            flows.entry(key).or_default().add_concurrent(&counts);
        }
        flows.into_iter().map(|(key, counts)| key.with_counts(counts)).collect()
    }

    /// The service of an owner, and its process if it is alive; adds both to the window. `holds_open`: it has open
    /// sockets, so it is alive.
    fn service(
        &mut self,
        owner: Option<&Owner>,
        netns: u64,
        holds_open: bool,
        window: &mut WindowBuilder,
    ) -> (ServiceKey, Option<ProcessId>) {
        let Some(owner) = owner else {
            let unknown = self.services.unknown();
            return (window.name(unknown), None);
        };
        let (info, alive) = match window.process_info.get(&owner.process).filter(|_| owner.process.pid != 0) {
            Some(info) => info.clone(),
            None => {
                let info = self.services.of(owner);
                let alive = owner.process.pid != 0 && (holds_open && info.netns.is_some() || is_alive(owner.process));
                window.proxies.extend(info.proxy.clone());
                window.process_info.insert(owner.process, (info.clone(), alive));
                (info, alive)
            }
        };
        let service = window.name(info.service);
        let process = alive.then_some(owner.process);
        if let Some(id) = process {
            window.processes.entry(id).or_insert_with(|| Process {
                id,
                service: service.clone(),
                netns: info.netns.unwrap_or(netns),
                comm: info.comm,
            });
        }
        (service, process)
    }

    /// Looks up connections that this host may have translated: those to addresses without a known local listener.
    fn look_up_translations(&mut self, collected: &CollectedSockets) {
        let listening: HashSet<(Protocol, u16)> = collected
            .listeners
            .iter()
            .filter_map(|listening| match listening.at {
                ListenAddress::Inet { port, .. } => Some((listening.protocol, port)),
                ListenAddress::Path(_) => None,
            })
            .collect();
        let ours: HashSet<IpAddr> = self.host.addresses.iter().map(|address| address.ip).collect();
        let listens = |link: &Link| match link.passive {
            ListenAddress::Inet { ip, port } => {
                (ip.is_loopback() || ours.contains(&ip)) && listening.contains(&(link.protocol, port))
            }
            ListenAddress::Path(_) => true,
        };
        let lookups: Vec<Lookup> = collected
            .flows
            .iter()
            .filter(|observed| observed.side == Side::Active && !listens(&observed.link))
            .filter_map(|observed| {
                let active_port = observed.example_port?;
                Some(Lookup { netns: observed.netns, link: observed.link.clone(), active_port })
            })
            .collect();
        self.translations.look_up(&lookups);
    }

    fn translated(&self, key: &FlowKey, proxies: &[Proxy]) -> Option<ListenAddress> {
        if key.side == Side::Active
            && let Some(destination) = self.translations.of(key.netns, &key.link)
        {
            return Some(destination);
        }
        let is_local = |ip: IpAddr| ip.is_loopback() || self.host.addresses.iter().any(|address| address.ip == ip);
        let accepts =
            |proxy: &&Proxy| proxy.protocol == key.link.protocol && proxy.accepts(&key.link.passive, is_local);
        proxies.iter().find(accepts).map(|proxy| proxy.forwards_to.clone())
    }
}

impl WindowBuilder {
    fn name(&mut self, service: Arc<Service>) -> ServiceKey {
        let key = service.key.clone();
        self.services.entry(key.0.clone()).or_insert(service);
        key
    }
}

fn id(observed: &SocketObservation) -> Option<ProcessId> {
    Some(observed.owner.as_ref()?.process).filter(|id| id.pid != 0)
}

fn is_alive(id: ProcessId) -> bool {
    let stat = ProcDir::open(id.pid).and_then(|process| process.stat());
    stat.is_ok_and(|stat| stat.id == id && !stat.is_zombie)
}
