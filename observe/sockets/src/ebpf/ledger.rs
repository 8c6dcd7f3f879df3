//! Folds what the kernel counted, interval by interval, into what is told.
//!
//! The kernel forgets after each interval; what must be remembered is how many connections of a key are open, and who
//! the owners of those are. Both end with the last connection, so the ledger is as small as what is open, plus what
//! happened since it was last told. Short-lived processes that did the same are one entry as soon as there are many.

use super::layout::{self, FlowCounts, FlowKey, Instance, Process};
use crate::{Listening, Owner, Sighting};
use flows::{Attribution, Counts, Link, Passive, Protocol, Side};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// Beyond this many entries, those of processes that ended are merged.
const MERGE_BEYOND: usize = 8192;
/// Beyond this many entries even then, the rest is lost, and counted as such.
const MOST: usize = 262_144;

#[derive(Default)]
pub struct Ledger {
    flows: HashMap<FlowKey, Entry>,
    processes: HashMap<Instance, Arc<Owner>>,
    /// The number of flows at which to merge next.
    merge_at: usize,
    pub lost: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Since last told; `open` holds for now.
    counts: Counts,
    example_port: u16,
}

/// Who a process is, apart from which.
type Image<'o> = (&'o str, Option<u64>, Option<&'o str>, Option<&'o [u8]>);

fn image(owner: &Owner) -> Image<'_> {
    (&owner.comm, owner.cgroup, owner.executable.as_deref(), owner.arguments.as_deref())
}

impl Ledger {
    pub fn count(&mut self, key: &FlowKey, counts: &FlowCounts) {
        if self.flows.len() >= MOST && !self.flows.contains_key(key) {
            self.lost += u64::from(counts.opened);
            return;
        }
        self.flows.entry(*key).or_default().add(counts);
    }

    pub fn process(&mut self, instance: &Instance, process: &Process) {
        let arguments = &process.arguments[..(process.arguments_len as usize).min(process.arguments.len())];
        let known = self.processes.get(instance);
        // a pass cannot read arguments; what the process itself told is better
        if arguments.is_empty() && known.is_some_and(|owner| owner.arguments.is_some()) {
            return;
        }
        let owner = Owner {
            instance: shared(instance),
            comm: text(&process.comm),
            cgroup: (process.cgroup != 0).then_some(process.cgroup),
            executable: Some(text(&process.executable)).filter(|name| !name.is_empty()),
            arguments: (!arguments.is_empty()).then(|| arguments.to_vec()),
        };
        self.processes.insert(*instance, Arc::new(owner));
    }

    /// Merges finished flows of processes that ended, if there are many entries.
    pub fn merge_if_many(&mut self, exists: impl Fn(u32) -> bool) {
        if self.flows.len() > self.merge_at.max(MERGE_BEYOND) {
            self.merge(exists);
            self.merge_at = self.flows.len() * 2;
        }
    }

    fn merge(&mut self, exists: impl Fn(u32) -> bool) {
        let mut alive = HashMap::new();
        let mut representatives: HashMap<Image, Instance> = HashMap::new();
        for (key, entry) in std::mem::take(&mut self.flows) {
            let mut merged = key;
            let instance = key.instance();
            if entry.counts.open == 0
                && let Some(owner) = self.processes.get(&instance)
                && !*alive.entry(key.tgid).or_insert_with(|| exists(key.tgid))
            {
                let representative = representatives.entry(image(owner)).or_insert(instance);
                (merged.start_ns, merged.tgid) = (representative.start_ns, representative.tgid);
            }
            self.flows.entry(merged).or_default().merge(&entry);
        }
        let named: HashSet<Instance> = self.flows.keys().map(FlowKey::instance).collect();
        // listeners may be owned by processes without flows, so only those that ended are forgotten here
        self.processes.retain(|instance, _| named.contains(instance) || alive.get(&instance.tgid) != Some(&false));
    }

    /// Connections whose owner ended are closed or about to be, though nobody saw it.
    pub fn forget_ended(&mut self, exists: impl Fn(u32) -> bool) {
        let mut alive = HashMap::new();
        for (key, entry) in &mut self.flows {
            if entry.counts.open > 0 && key.tgid != 0 && !*alive.entry(key.tgid).or_insert_with(|| exists(key.tgid)) {
                entry.counts.open = 0;
            }
        }
    }

    /// What happened since the last call, and what is open.
    pub fn tell(&mut self, listeners: &[layout::Listener]) -> (Vec<Sighting>, Vec<Listening>) {
        let told = self
            .flows
            .iter()
            .filter(|(_, entry)| entry.counts != Counts::default())
            .map(|(key, entry)| self.sighting(key, entry))
            .collect();
        let listening = listeners.iter().map(|listener| self.listening(listener)).collect();
        self.flows.retain(|_, entry| {
            entry.counts = Counts { open: entry.counts.open, ..Counts::default() };
            entry.counts.open > 0
        });
        (told, listening)
    }

    /// Keeps what is known of the owners of open connections, and of `others`.
    pub fn forget_processes(&mut self, others: impl Iterator<Item = Instance>) {
        let mut needed: HashSet<Instance> = self.flows.keys().map(FlowKey::instance).collect();
        needed.extend(others);
        self.processes.retain(|instance, _| needed.contains(instance));
        self.merge_at = 0;
    }

    fn sighting(&self, key: &FlowKey, entry: &Entry) -> Sighting {
        Sighting {
            side: if key.side == layout::ACTIVE { Side::Active } else { Side::Passive },
            netns: u64::from(key.netns),
            owner: self.owner(&key.instance()),
            link: Link {
                protocol: Protocol::Tcp,
                active: Some(address(key.active)),
                passive: Passive::Inet { ip: address(key.passive), port: key.port },
            },
            example_port: (entry.example_port != 0).then_some(entry.example_port),
            attribution: match key.attribution {
                layout::EXACT => Attribution::Exact,
                layout::LISTENER => Attribution::Listener,
                _ => Attribution::None,
            },
            counts: entry.counts,
        }
    }

    fn listening(&self, listener: &layout::Listener) -> Listening {
        Listening {
            netns: u64::from(listener.netns),
            protocol: Protocol::Tcp,
            at: Passive::Inet { ip: address(listener.address), port: listener.port },
            owner: self.owner(&listener.instance()),
        }
    }

    /// One for all connections of a process: there may be thousands.
    pub fn owner(&self, instance: &Instance) -> Option<Arc<Owner>> {
        if instance.tgid == 0 {
            return None;
        }
        let unknown = || {
            let instance = shared(instance);
            Arc::new(Owner { instance, comm: String::new(), cgroup: None, executable: None, arguments: None })
        };
        Some(self.processes.get(instance).map_or_else(unknown, Arc::clone))
    }
}

fn shared(instance: &Instance) -> flows::Instance {
    flows::Instance { pid: instance.tgid, start_ticks: start_ticks(instance.start_ns) }
}

impl Entry {
    fn add(&mut self, new: &FlowCounts) {
        let counts = &mut self.counts;
        let begun = u64::from(new.opened) + u64::from(new.adopted);
        let ended = u64::from(new.failed) + u64::from(new.closed) + u64::from(new.moved);
        counts.opened += u64::from(new.opened);
        counts.established += u64::from(new.established);
        counts.failed += u64::from(new.failed);
        counts.closed += u64::from(new.closed);
        counts.open = (counts.open + begun).saturating_sub(ended);
        counts.sent += new.sent;
        counts.received += new.received;
        if new.example_port != 0 {
            self.example_port = new.example_port as u16;
        }
    }

    /// Of the same interval, unlike [`Counts::add`].
    fn merge(&mut self, other: &Entry) {
        let open = self.counts.open + other.counts.open;
        self.counts.add(&other.counts);
        self.counts.open = open;
        if other.example_port != 0 {
            self.example_port = other.example_port;
        }
    }
}

/// The unit of `/proc/PID/stat`: a hundredth of a second on every architecture that programs see.
fn start_ticks(start_ns: u64) -> u64 {
    start_ns / 10_000_000
}

pub fn address(bytes: [u8; 16]) -> IpAddr {
    let ip = Ipv6Addr::from(bytes);
    ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4)
}

/// Up to the first NUL. Names are bytes; what is no UTF-8 is replaced.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ebpf::layout::Plain;

    fn key(tgid: u32, port: u16) -> FlowKey {
        FlowKey { tgid, port, side: layout::ACTIVE, attribution: layout::EXACT, ..FlowKey::default() }
    }

    fn told(ledger: &mut Ledger) -> Vec<Sighting> {
        let (flows, _) = ledger.tell(&[]);
        ledger.forget_processes(std::iter::empty());
        flows
    }

    #[test]
    fn open_connections_are_remembered_and_told_again() {
        let mut ledger = Ledger::default();
        let begun = FlowCounts { opened: 3, established: 2, failed: 1, adopted: 4, ..FlowCounts::default() };
        ledger.count(&key(1, 80), &begun);
        let first = told(&mut ledger)[0].counts;
        assert_eq!(first, Counts { opened: 3, established: 2, failed: 1, open: 6, ..Counts::default() });
        assert_eq!(told(&mut ledger)[0].counts, Counts { open: 6, ..Counts::default() });
        ledger.count(&key(1, 80), &FlowCounts { closed: 6, sent: 7, ..FlowCounts::default() });
        assert_eq!(told(&mut ledger)[0].counts, Counts { closed: 6, sent: 7, ..Counts::default() });
        assert!(told(&mut ledger).is_empty());
    }

    #[test]
    fn many_ended_processes_that_did_the_same_are_one() {
        let mut ledger = Ledger::default();
        let once = FlowCounts { opened: 1, established: 1, closed: 1, ..FlowCounts::default() };
        let mut image = Process { cgroup: 5, ..Process::ZERO };
        image.executable[..4].copy_from_slice(b"curl");
        let count = MERGE_BEYOND as u32 + 10;
        for tgid in 1..=count {
            ledger.process(&key(tgid, 80).instance(), &image);
            ledger.count(&key(tgid, 80), &once);
        }
        let open = FlowCounts { opened: 1, ..FlowCounts::default() };
        ledger.count(&key(7, 81), &open);
        // 3 lives, 7 has a connection that is open
        ledger.merge_if_many(|pid| pid == 3);
        let flows = told(&mut ledger);
        let total = |port| {
            let at = |it: &&Sighting| matches!(it.link.passive, Passive::Inet { port: p, .. } if p == port);
            flows.iter().filter(at).map(|it| it.counts.opened).sum::<u64>()
        };
        assert_eq!((flows.len(), total(80), total(81)), (3, u64::from(count), 1));
        assert!(flows.iter().all(|it| it.owner.as_ref().is_some_and(|it| it.executable.as_deref() == Some("curl"))));
    }

    #[test]
    fn connections_of_ended_processes_are_forgotten() {
        let mut ledger = Ledger::default();
        ledger.count(&key(1, 80), &FlowCounts { adopted: 1, ..FlowCounts::default() });
        ledger.count(&key(2, 80), &FlowCounts { adopted: 1, ..FlowCounts::default() });
        ledger.forget_ended(|pid| pid == 2);
        assert_eq!(told(&mut ledger).len(), 1);
    }

    #[test]
    fn mapped_addresses_are_version_4() {
        let mut bytes = [0; 16];
        bytes[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 1]);
        assert_eq!(address(bytes).to_string(), "10.0.0.1");
    }
}
