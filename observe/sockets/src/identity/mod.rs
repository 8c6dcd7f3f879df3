//! Whose a socket is: turns what a collector saw into services, their processes, listeners and flows.
//!
//! Model: sightings name processes; each process belongs to one service (container or pod, systemd unit, or program).
//! Flows of a process that has ended by the end of the window become flows of its service, so a service that forks for
//! every request costs one flow. What nobody is known for belongs to the host itself.

pub mod arguments;
pub mod cgroup;
mod cgroups;
mod container;
mod host;
pub(crate) mod procfs;
pub mod program;
mod proxy;
mod services;

use crate::conntrack::{Question, Translations};
use crate::{Listening, Owner, Sighting, Sightings};
use flows::{
    Attribution, Counts, Flow, Host, Instance, Link, Listener, Passive, Process, Protocol, Seen, Service, ServiceKey,
    Side, Source,
};
use model::Failure;
use procfs::ProcessFolder;
use proxy::Proxy;
use services::{Known, Services};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Addresses change rarely, and asking every namespace takes about 0.1 ms each.
const HOST_EVERY: Duration = Duration::from_secs(30);

/// Knows services from call to call. Its memory is bounded: see the caches' limits.
pub struct Identifier {
    host: Host,
    host_read: Instant,
    services: Services,
    translations: Translations,
    told_listeners: Option<HashSet<Listener>>,
}

/// What makes sightings one flow.
#[derive(PartialEq, Eq, Hash)]
struct FlowKey {
    side: Side,
    service: ServiceKey,
    process: Option<Instance>,
    netns: u64,
    link: Link,
    attribution: Attribution,
}

/// What one call gathers.
#[derive(Default)]
struct Gathering {
    services: BTreeMap<String, Arc<Service>>,
    processes: BTreeMap<Instance, Process>,
    known: HashMap<Instance, (Known, bool)>,
    proxies: Vec<Proxy>,
}

impl Identifier {
    /// Fails if `/proc` is not what it should be.
    pub fn start() -> Result<Identifier, Failure> {
        let host = host::this_host()?;
        Ok(Identifier {
            services: Services::new(&host.id, &host.name),
            host,
            host_read: Instant::now(),
            translations: Translations::default(),
            told_listeners: None,
        })
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Why address translation is not seen, if it is not.
    pub fn trouble(&self) -> Option<&str> {
        self.translations.trouble()
    }

    /// Takes what a collector just told: processes are looked at now.
    pub fn identify(&mut self, source: Source, seen: Sightings) -> Seen {
        if self.host_read.elapsed() >= HOST_EVERY {
            // what could be read once can be read again; if not, the old facts hold
            self.host = host::this_host().unwrap_or_else(|_| self.host.clone());
            self.host_read = Instant::now();
            self.services.forget_old();
        }
        let mut gathering = Gathering::default();
        let open: HashSet<Instance> = seen.flows.iter().filter(|s| s.counts.open > 0).filter_map(instance).collect();
        let listeners = self.listeners(&seen.listeners, &mut gathering);
        self.ask_translations(&seen);
        let flows = self.flows(source, seen.flows, &open, &mut gathering);
        for (instance, (_, alive)) in &gathering.known {
            if !alive {
                self.services.forget(instance);
            }
        }
        Seen {
            host: self.host.clone(),
            services: gathering.services.into_values().map(|service| (*service).clone()).collect(),
            processes: gathering.processes.into_values().collect(),
            listeners,
            flows,
            losses: seen.losses,
        }
    }

    fn listeners(&mut self, seen: &[Listening], gathering: &mut Gathering) -> Option<Vec<Listener>> {
        let mut listeners = HashSet::new();
        for listening in seen {
            let (service, _) = self.service(listening.owner.as_deref(), listening.netns, true, gathering);
            listeners.insert(Listener {
                service,
                netns: listening.netns,
                protocol: listening.protocol,
                at: listening.at.clone(),
            });
        }
        if self.told_listeners.as_ref() == Some(&listeners) {
            return None;
        }
        let mut told: Vec<Listener> = listeners.iter().cloned().collect();
        told.sort_by(|a, b| (a.netns, &a.at, &a.service).cmp(&(b.netns, &b.at, &b.service)));
        self.told_listeners = Some(listeners);
        Some(told)
    }

    fn flows(
        &mut self,
        source: Source,
        seen: Vec<Sighting>,
        open: &HashSet<Instance>,
        gathering: &mut Gathering,
    ) -> Vec<Flow> {
        let mut flows: HashMap<FlowKey, Counts> = HashMap::new();
        for sighting in seen {
            let holds_open = instance(&sighting).is_some_and(|instance| open.contains(&instance));
            let (service, process) = self.service(sighting.owner.as_deref(), sighting.netns, holds_open, gathering);
            let key = FlowKey {
                side: sighting.side,
                service,
                process,
                netns: sighting.netns,
                link: sighting.link,
                attribution: sighting.attribution,
            };
            flows.entry(key).or_default().add_beside(&sighting.counts);
        }
        let flow = |(key, counts): (FlowKey, Counts)| Flow {
            translated: self.translated(&key, &gathering.proxies),
            side: key.side,
            service: key.service,
            process: key.process,
            netns: key.netns,
            link: key.link,
            source,
            attribution: key.attribution,
            counts,
        };
        flows.into_iter().map(flow).collect()
    }

    /// The service of an owner, and its process if it lives; notes both. `holds_open`: it has open sockets, so it lives.
    fn service(
        &mut self,
        owner: Option<&Owner>,
        netns: u64,
        holds_open: bool,
        gathering: &mut Gathering,
    ) -> (ServiceKey, Option<Instance>) {
        let Some(owner) = owner else {
            let unknown = self.services.unknown();
            return (gathering.name(unknown), None);
        };
        let (known, alive) = match gathering.known.get(&owner.instance).filter(|_| owner.instance.pid != 0) {
            Some(known) => known.clone(),
            None => {
                let known = self.services.of(owner);
                let alive = owner.instance.pid != 0 && (holds_open && known.netns.is_some() || lives(owner.instance));
                gathering.proxies.extend(known.proxy.clone());
                gathering.known.insert(owner.instance, (known.clone(), alive));
                (known, alive)
            }
        };
        let service = gathering.name(known.service);
        let process = alive.then_some(owner.instance);
        if let Some(instance) = process {
            gathering.processes.entry(instance).or_insert_with(|| Process {
                instance,
                service: service.clone(),
                netns: known.netns.unwrap_or(netns),
                comm: known.comm,
            });
        }
        (service, process)
    }

    /// Only connections to addresses where nobody here is known to listen can have been translated by this host.
    fn ask_translations(&mut self, seen: &Sightings) {
        let listening: HashSet<(Protocol, u16)> = seen
            .listeners
            .iter()
            .filter_map(|listening| match listening.at {
                Passive::Inet { port, .. } => Some((listening.protocol, port)),
                Passive::Path(_) => None,
            })
            .collect();
        let ours: HashSet<IpAddr> = self.host.addresses.iter().map(|address| address.ip).collect();
        let listens = |link: &Link| match link.passive {
            Passive::Inet { ip, port } => {
                (ip.is_loopback() || ours.contains(&ip)) && listening.contains(&(link.protocol, port))
            }
            Passive::Path(_) => true,
        };
        let questions: Vec<Question> = seen
            .flows
            .iter()
            .filter(|sighting| sighting.side == Side::Active && !listens(&sighting.link))
            .filter_map(|sighting| {
                let active_port = sighting.example_port?;
                Some(Question { netns: sighting.netns, link: sighting.link.clone(), active_port })
            })
            .collect();
        self.translations.ask(&questions);
    }

    fn translated(&self, key: &FlowKey, proxies: &[Proxy]) -> Option<Passive> {
        if key.side == Side::Active
            && let Some(really) = self.translations.of(key.netns, &key.link)
        {
            return Some(really);
        }
        let ours = |ip: IpAddr| ip.is_loopback() || self.host.addresses.iter().any(|address| address.ip == ip);
        let takes = |proxy: &&Proxy| proxy.protocol == key.link.protocol && proxy.is_at(&key.link.passive, ours);
        proxies.iter().find(takes).map(|proxy| proxy.passes_to.clone())
    }
}

impl Gathering {
    fn name(&mut self, service: Arc<Service>) -> ServiceKey {
        let key = service.key.clone();
        self.services.entry(key.0.clone()).or_insert(service);
        key
    }
}

fn instance(sighting: &Sighting) -> Option<Instance> {
    Some(sighting.owner.as_ref()?.instance).filter(|instance| instance.pid != 0)
}

fn lives(instance: Instance) -> bool {
    let stat = ProcessFolder::open(instance.pid).and_then(|process| process.stat());
    stat.is_ok_and(|stat| stat.instance == instance && !stat.zombie)
}
