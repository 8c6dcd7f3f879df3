//! Folds what the kernel counted, interval by interval, into what is told.
//!
//! The kernel forgets after each interval; what must be remembered is how many connections of a key are open, and who
//! the owners of those are. Both end with the last connection, so the ledger is as small as what is open, plus what
//! happened since it was last told. Short-lived processes that did the same are one entry as soon as there are many.

use super::entry::{Entry, News};
use super::layout::{self, FlowCounts, FlowKey, Instance, Process};
use crate::{Listening, Owner, Sighting};
use flows::{Attribution, Counts, Link, Passive, Protocol, Side};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Beyond this many entries, those of processes that ended are merged.
const MERGE_BEYOND: usize = 8192;
/// Beyond this many entries even then, the rest is lost, and counted as such.
const MOST: usize = 262_144;
/// What can wait is told for so many flows at a time, or for more if not all would have their turn within [`TURNS`]: whoever takes it in
/// needs memory for each of them.
const QUIET_MOST: usize = 1024;
const TURNS: Duration = Duration::from_secs(16);
/// How long what can wait may wait.
const WAIT_MOST: Duration = Duration::from_secs(20);

#[derive(Default)]
pub struct Ledger {
    flows: HashMap<FlowKey, Entry>,
    processes: HashMap<Instance, Arc<Owner>>,
    /// The number of flows at which to merge next.
    merge_at: usize,
    last_told: Option<Instant>,
    pub lost: u64,
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

    /// What happened since the last call, and what is open and was not named for a while.
    pub fn tell(&mut self, listeners: &[layout::Listener], now: Instant) -> (Vec<Sighting>, Vec<Listening>) {
        // what is not told now must not be late the next time
        let interval = self.last_told.map_or(Duration::ZERO, |last| now - last);
        let next = now + interval + WAIT_MOST;
        let turn = (self.flows.len() as f64 * interval.as_secs_f64() / TURNS.as_secs_f64()).ceil();
        let mut quiet_left = QUIET_MOST.max(turn as usize);
        let (flows, owners) = (&mut self.flows, Owners(&self.processes));
        let mut told = Vec::new();
        flows.retain(|key, entry| {
            let news = entry.news(next);
            if news == News::Urgent || news == News::Quiet && quiet_left > 0 {
                quiet_left -= usize::from(news == News::Quiet);
                told.push(owners.sighting(key, entry));
                entry.told(now);
            }
            entry.counts != Counts::default()
        });
        self.last_told = Some(now);
        (told, listeners.iter().map(|listener| self.listening(listener)).collect())
    }

    /// Keeps what is known of the owners of open connections, and of `others`.
    pub fn forget_processes(&mut self, others: impl Iterator<Item = Instance>) {
        let mut needed: HashSet<Instance> = self.flows.keys().map(FlowKey::instance).collect();
        needed.extend(others);
        self.processes.retain(|instance, _| needed.contains(instance));
        // what is left is open, and does not become fewer by merging
        self.merge_at = self.flows.len() * 2;
    }

    fn listening(&self, listener: &layout::Listener) -> Listening {
        Listening {
            netns: u64::from(listener.netns),
            protocol: Protocol::Tcp,
            at: Passive::Inet { ip: address(listener.address), port: listener.port },
            owner: self.owner(&listener.instance()),
        }
    }

    pub fn owner(&self, instance: &Instance) -> Option<Arc<Owner>> {
        Owners(&self.processes).of(instance)
    }
}

struct Owners<'l>(&'l HashMap<Instance, Arc<Owner>>);

impl Owners<'_> {
    /// One for all connections of a process: there may be thousands.
    fn of(&self, instance: &Instance) -> Option<Arc<Owner>> {
        if instance.tgid == 0 {
            return None;
        }
        let unknown = || {
            let instance = shared(instance);
            Arc::new(Owner { instance, comm: String::new(), cgroup: None, executable: None, arguments: None })
        };
        Some(self.0.get(instance).map_or_else(unknown, Arc::clone))
    }

    fn sighting(&self, key: &FlowKey, entry: &Entry) -> Sighting {
        Sighting {
            side: if key.side == layout::ACTIVE { Side::Active } else { Side::Passive },
            netns: u64::from(key.netns),
            owner: self.of(&key.instance()),
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
}

fn shared(instance: &Instance) -> flows::Instance {
    flows::Instance { pid: instance.tgid, start_ticks: start_ticks(instance.start_ns) }
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

    fn told_at(ledger: &mut Ledger, now: Instant) -> Vec<Counts> {
        let (flows, _) = ledger.tell(&[], now);
        ledger.forget_processes(std::iter::empty());
        flows.into_iter().map(|flow| flow.counts).collect()
    }

    fn told(ledger: &mut Ledger) -> Vec<Sighting> {
        ledger.tell(&[], Instant::now()).0
    }

    #[test]
    fn open_connections_are_remembered_and_their_end_is_told() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        let begun = FlowCounts { opened: 3, established: 2, failed: 1, adopted: 4, ..FlowCounts::default() };
        ledger.count(&key(1, 80), &begun);
        let first = Counts { opened: 3, established: 2, failed: 1, open: 6, ..Counts::default() };
        assert_eq!(told_at(&mut ledger, now), [first]);
        ledger.count(&key(1, 80), &FlowCounts { received: 5, ..FlowCounts::default() });
        assert_eq!(told_at(&mut ledger, now), [Counts { open: 6, received: 5, ..Counts::default() }]);
        ledger.count(&key(1, 80), &FlowCounts { closed: 6, sent: 7, ..FlowCounts::default() });
        assert_eq!(told_at(&mut ledger, now), [Counts { closed: 6, sent: 7, ..Counts::default() }]);
        assert!(told_at(&mut ledger, now).is_empty() && ledger.flows.is_empty());
    }

    #[test]
    fn what_stays_open_is_named_in_every_minute() {
        for interval_s in [1, 7, 10, 25, 30, 60, 100] {
            let (mut ledger, start) = (Ledger::default(), Instant::now());
            ledger.count(&key(1, 80), &FlowCounts { adopted: 1, ..FlowCounts::default() });
            let times = (0..200).map(|n| n * interval_s);
            let named: Vec<u64> =
                times.filter(|at| !told_at(&mut ledger, start + Duration::from_secs(*at)).is_empty()).collect();
            let most = named.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
            assert!(most <= interval_s.max(59), "every {interval_s} s: {named:?}");
            let few = 200 * interval_s / 30 + 1;
            assert!(interval_s > 10 || named.len() as u64 <= few, "every {interval_s} s: {named:?}");
        }
    }

    #[test]
    fn however_many_stay_open_each_is_named_in_every_minute() {
        let count = 20 * QUIET_MOST as u32;
        for interval_s in [1, 5, 10, 30] {
            let (mut ledger, start) = (Ledger::default(), Instant::now());
            (1..=count).for_each(|n| ledger.count(&key(n, 80), &FlowCounts { adopted: 1, ..FlowCounts::default() }));
            let mut named: HashMap<u32, u64> = HashMap::new();
            for at in (0..240).step_by(interval_s) {
                for flow in ledger.tell(&[], start + Duration::from_secs(at)).0 {
                    let before = named.insert(flow.owner.unwrap().instance.pid, at).unwrap_or(at);
                    assert!(at - before < 60, "every {interval_s} s: named at {before} s and at {at} s");
                }
            }
            assert!(named.len() == count as usize && named.values().all(|at| *at > 180), "every {interval_s} s");
        }
    }

    #[test]
    fn many_quiet_flows_are_told_in_turns_and_urgent_ones_at_once() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        let count = 3 * QUIET_MOST as u32;
        (1..=count).for_each(|n| ledger.count(&key(n, 80), &FlowCounts { adopted: 1, ..FlowCounts::default() }));
        assert_eq!(told_at(&mut ledger, now).len(), count as usize, "what nobody heard of");
        (1..=count).for_each(|n| ledger.count(&key(n, 80), &FlowCounts { sent: 9, ..FlowCounts::default() }));
        ledger.count(&key(count + 1, 80), &FlowCounts { opened: 1, ..FlowCounts::default() });
        let turns: Vec<Vec<Counts>> = (0..4).map(|_| told_at(&mut ledger, now)).collect();
        assert_eq!(turns.iter().map(Vec::len).collect::<Vec<_>>(), [QUIET_MOST + 1, QUIET_MOST, QUIET_MOST, 0]);
        assert_eq!(turns[0].iter().map(|counts| counts.opened).sum::<u64>(), 1);
        assert_eq!(turns.iter().flatten().map(|counts| counts.sent).sum::<u64>(), 9 * u64::from(count));
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
