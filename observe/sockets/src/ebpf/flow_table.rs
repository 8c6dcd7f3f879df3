//! Accumulates the kernel's per-interval counts into reported flows.
//!
//! The kernel's table is empty after each interval. This table keeps the number of open connections per flow and the
//! owners of these connections. An entry ends with its last connection, so the size is bounded by the open connections
//! plus the activity since the last report. If there are many entries, short-lived processes with equal activity are
//! merged into one.

use super::entry::{Entry, Urgency};
use super::layout::{self, FlowCounts, FlowKey, Process, TaskId};
use crate::{ObservedListener, Owner, SocketObservation};
use flows::{Attribution, Counts, Link, ListenAddress, Protocol, Side};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of entries above which entries of ended processes are merged.
const MERGE_ABOVE: usize = 8192;
/// Maximum number of entries after merging; further flows are dropped and counted as lost.
const MAX_ENTRIES: usize = 262_144;
/// Number of quiet flows in one report, unless more are needed to report each within [`QUIET_ROUND`]. The bound limits
/// the memory that the consumer needs per report.
const QUIET_BATCH: usize = 1024;
const QUIET_ROUND: Duration = Duration::from_secs(16);
/// Maximum delay of a quiet flow.
const QUIET_DELAY_MAX: Duration = Duration::from_secs(20);

#[derive(Default)]
pub struct FlowTable {
    flows: HashMap<FlowKey, Entry>,
    processes: HashMap<TaskId, Arc<Owner>>,
    /// Number of flows at which to merge next.
    merge_at: usize,
    last_report: Option<Instant>,
    pub lost: u64,
}

/// What a process runs: equal for all instances of one program.
type Image<'o> = (&'o str, Option<u64>, Option<&'o str>, Option<&'o [u8]>);

fn image_of(owner: &Owner) -> Image<'_> {
    (&owner.comm, owner.cgroup, owner.executable.as_deref(), owner.arguments.as_deref())
}

impl FlowTable {
    pub fn add_counts(&mut self, key: &FlowKey, counts: &FlowCounts) {
        if self.flows.len() >= MAX_ENTRIES && !self.flows.contains_key(key) {
            self.lost += u64::from(counts.opened);
            return;
        }
        self.flows.entry(*key).or_default().add(counts);
    }

    pub fn add_process(&mut self, task: &TaskId, process: &Process) {
        let arguments = &process.arguments[..(process.arguments_len as usize).min(process.arguments.len())];
        let existing = self.processes.get(task);
        // a file scan cannot read arguments; keep those that the hook captured
        if arguments.is_empty() && existing.is_some_and(|owner| owner.arguments.is_some()) {
            return;
        }
        let owner = Owner {
            process: process_id(task),
            comm: text(&process.comm),
            cgroup: (process.cgroup != 0).then_some(process.cgroup),
            executable: Some(text(&process.executable)).filter(|name| !name.is_empty()),
            arguments: (!arguments.is_empty()).then(|| arguments.to_vec()),
        };
        self.processes.insert(*task, Arc::new(owner));
    }

    /// Merges finished flows of ended processes if there are many entries.
    pub fn merge_if_many(&mut self, exists: impl Fn(u32) -> bool) {
        if self.flows.len() > self.merge_at.max(MERGE_ABOVE) {
            self.merge(exists);
            self.merge_at = self.flows.len() * 2;
        }
    }

    fn merge(&mut self, exists: impl Fn(u32) -> bool) {
        let mut alive = HashMap::new();
        let mut representatives: HashMap<Image, TaskId> = HashMap::new();
        for (key, entry) in std::mem::take(&mut self.flows) {
            let mut merged = key;
            let task = key.task();
            if entry.is_closed()
                && let Some(owner) = self.processes.get(&task)
                && !*alive.entry(key.tgid).or_insert_with(|| exists(key.tgid))
            {
                let representative = representatives.entry(image_of(owner)).or_insert(task);
                (merged.start_ns, merged.tgid) = (representative.start_ns, representative.tgid);
            }
            self.flows.entry(merged).or_default().merge(&entry);
        }
        let with_flows: HashSet<TaskId> = self.flows.keys().map(FlowKey::task).collect();
        // processes without flows may own listeners, so only ended processes are removed here
        self.processes.retain(|task, _| with_flows.contains(task) || alive.get(&task.tgid) != Some(&false));
    }

    /// Call this with the counts of all connections up to the beginning of a comparison.
    pub fn begin_comparison(&mut self) {
        for entry in self.flows.values_mut() {
            entry.unmatched = entry.counts.open as i64;
        }
    }

    /// Closes the connections that the kernel does not have anymore. Returns their number.
    pub fn end_comparison(&mut self) -> u64 {
        self.flows.values_mut().map(Entry::close_unmatched).sum()
    }

    /// Activity since the last call, and open flows whose last report is old.
    pub fn drain_changes(
        &mut self,
        listeners: &[layout::Listener],
        now: Instant,
    ) -> (Vec<SocketObservation>, Vec<ObservedListener>) {
        // a flow that is not reported now must not be late at the next report
        let interval = self.last_report.map_or(Duration::ZERO, |last| now - last);
        let next = now + interval + QUIET_DELAY_MAX;
        let due = (self.flows.len() as f64 * interval.as_secs_f64() / QUIET_ROUND.as_secs_f64()).ceil();
        let mut quiet_left = QUIET_BATCH.max(due as usize);
        let (flows, owners) = (&mut self.flows, Owners(&self.processes));
        let mut reported = Vec::new();
        flows.retain(|key, entry| {
            let urgency = entry.urgency(next);
            if urgency == Urgency::Urgent || urgency == Urgency::Quiet && quiet_left > 0 {
                quiet_left -= usize::from(urgency == Urgency::Quiet);
                reported.push(owners.observed(key, entry));
                entry.mark_reported(now);
            }
            entry.counts != Counts::default()
        });
        self.last_report = Some(now);
        (reported, listeners.iter().map(|listener| self.listening(listener)).collect())
    }

    /// Keeps only the owners of open connections and `others`.
    pub fn retain_processes(&mut self, others: impl Iterator<Item = TaskId>) {
        let mut needed: HashSet<TaskId> = self.flows.keys().map(FlowKey::task).collect();
        needed.extend(others);
        self.processes.retain(|task, _| needed.contains(task));
        // the remaining flows are open, so merging cannot reduce them
        self.merge_at = self.flows.len() * 2;
    }

    fn listening(&self, listener: &layout::Listener) -> ObservedListener {
        ObservedListener {
            netns: u64::from(listener.netns),
            protocol: Protocol::Tcp,
            at: ListenAddress::Inet { ip: address(listener.address), port: listener.port },
            owner: self.owner(&listener.task()),
        }
    }

    pub fn owner(&self, task: &TaskId) -> Option<Arc<Owner>> {
        Owners(&self.processes).of(task)
    }
}

struct Owners<'l>(&'l HashMap<TaskId, Arc<Owner>>);

impl Owners<'_> {
    /// Shared by all connections of a process: there may be thousands.
    fn of(&self, task: &TaskId) -> Option<Arc<Owner>> {
        if task.tgid == 0 {
            return None;
        }
        let unknown = || {
            let process = process_id(task);
            Arc::new(Owner { process, comm: String::new(), cgroup: None, executable: None, arguments: None })
        };
        Some(self.0.get(task).map_or_else(unknown, Arc::clone))
    }

    fn observed(&self, key: &FlowKey, entry: &Entry) -> SocketObservation {
        SocketObservation {
            side: if key.side == layout::ACTIVE { Side::Active } else { Side::Passive },
            netns: u64::from(key.netns),
            owner: self.of(&key.task()),
            // an accepted socket inherits the owner of exactly its listening socket
            any_worker: false,
            link: Link {
                protocol: Protocol::Tcp,
                active: Some(address(key.active)),
                passive: ListenAddress::Inet { ip: address(key.passive), port: key.port },
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

fn process_id(task: &TaskId) -> flows::ProcessId {
    flows::ProcessId { pid: task.tgid, start_ticks: start_ticks(task.start_ns) }
}

/// Converts to the unit of `/proc/PID/stat`: 1/100 s on every architecture.
fn start_ticks(start_ns: u64) -> u64 {
    start_ns / 10_000_000
}

pub fn address(bytes: [u8; 16]) -> IpAddr {
    let ip = Ipv6Addr::from(bytes);
    ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4)
}

/// The text up to the first NUL. Invalid UTF-8 is replaced.
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

    fn counts_at(flow_table: &mut FlowTable, now: Instant) -> Vec<Counts> {
        let (flows, _) = flow_table.drain_changes(&[], now);
        flow_table.retain_processes(std::iter::empty());
        flows.into_iter().map(|flow| flow.counts).collect()
    }

    fn reported(flow_table: &mut FlowTable) -> Vec<SocketObservation> {
        flow_table.drain_changes(&[], Instant::now()).0
    }

    #[test]
    fn open_connections_are_kept_until_their_end_is_reported() {
        let (mut flow_table, now) = (FlowTable::default(), Instant::now());
        let started = FlowCounts { opened: 3, established: 2, failed: 1, adopted: 4, ..FlowCounts::default() };
        flow_table.add_counts(&key(1, 80), &started);
        let first = Counts { opened: 3, established: 2, failed: 1, open: 6, ..Counts::default() };
        assert_eq!(counts_at(&mut flow_table, now), [first]);
        flow_table.add_counts(&key(1, 80), &FlowCounts { received: 5, ..FlowCounts::default() });
        assert_eq!(counts_at(&mut flow_table, now), [Counts { open: 6, received: 5, ..Counts::default() }]);
        flow_table.add_counts(&key(1, 80), &FlowCounts { closed: 6, sent: 7, ..FlowCounts::default() });
        assert_eq!(counts_at(&mut flow_table, now), [Counts { closed: 6, sent: 7, ..Counts::default() }]);
        assert!(counts_at(&mut flow_table, now).is_empty() && flow_table.flows.is_empty());
    }

    #[test]
    fn open_flows_are_reported_every_minute() {
        for interval_s in [1, 7, 10, 25, 30, 60, 100] {
            let (mut flow_table, start) = (FlowTable::default(), Instant::now());
            flow_table.add_counts(&key(1, 80), &FlowCounts { adopted: 1, ..FlowCounts::default() });
            let times = (0..200).map(|n| n * interval_s);
            let reported_at_s: Vec<u64> =
                times.filter(|at| !counts_at(&mut flow_table, start + Duration::from_secs(*at)).is_empty()).collect();
            let most = reported_at_s.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
            assert!(most <= interval_s.max(59), "every {interval_s} s: {reported_at_s:?}");
            let few = 200 * interval_s / 30 + 1;
            assert!(interval_s > 10 || reported_at_s.len() as u64 <= few, "every {interval_s} s: {reported_at_s:?}");
        }
    }

    #[test]
    fn many_open_flows_are_each_reported_every_minute() {
        let count = 20 * QUIET_BATCH as u32;
        for interval_s in [1, 5, 10, 30] {
            let (mut flow_table, start) = (FlowTable::default(), Instant::now());
            (1..=count)
                .for_each(|n| flow_table.add_counts(&key(n, 80), &FlowCounts { adopted: 1, ..FlowCounts::default() }));
            let mut last_report_s: HashMap<u32, u64> = HashMap::new();
            for at in (0..240).step_by(interval_s) {
                for flow in flow_table.drain_changes(&[], start + Duration::from_secs(at)).0 {
                    let before = last_report_s.insert(flow.owner.unwrap().process.pid, at).unwrap_or(at);
                    assert!(at - before < 60, "every {interval_s} s: reported at {before} s and at {at} s");
                }
            }
            assert!(
                last_report_s.len() == count as usize && last_report_s.values().all(|at| *at > 180),
                "every {interval_s} s"
            );
        }
    }

    #[test]
    fn quiet_flows_are_reported_in_batches_and_urgent_ones_at_once() {
        let (mut flow_table, now) = (FlowTable::default(), Instant::now());
        let count = 3 * QUIET_BATCH as u32;
        (1..=count)
            .for_each(|n| flow_table.add_counts(&key(n, 80), &FlowCounts { adopted: 1, ..FlowCounts::default() }));
        assert_eq!(counts_at(&mut flow_table, now).len(), count as usize, "flows that were never reported");
        (1..=count).for_each(|n| flow_table.add_counts(&key(n, 80), &FlowCounts { sent: 9, ..FlowCounts::default() }));
        flow_table.add_counts(&key(count + 1, 80), &FlowCounts { opened: 1, ..FlowCounts::default() });
        let turns: Vec<Vec<Counts>> = (0..4).map(|_| counts_at(&mut flow_table, now)).collect();
        assert_eq!(turns.iter().map(Vec::len).collect::<Vec<_>>(), [QUIET_BATCH + 1, QUIET_BATCH, QUIET_BATCH, 0]);
        assert_eq!(turns[0].iter().map(|counts| counts.opened).sum::<u64>(), 1);
        assert_eq!(turns.iter().flatten().map(|counts| counts.sent).sum::<u64>(), 9 * u64::from(count));
    }

    #[test]
    fn ended_processes_with_equal_activity_are_merged() {
        let mut flow_table = FlowTable::default();
        let once = FlowCounts { opened: 1, established: 1, closed: 1, ..FlowCounts::default() };
        let mut image = Process { cgroup: 5, ..Process::ZERO };
        image.executable[..4].copy_from_slice(b"curl");
        let count = MERGE_ABOVE as u32 + 10;
        for tgid in 1..=count {
            flow_table.add_process(&key(tgid, 80).task(), &image);
            flow_table.add_counts(&key(tgid, 80), &once);
        }
        let open = FlowCounts { opened: 1, ..FlowCounts::default() };
        flow_table.add_counts(&key(7, 81), &open);
        // 3 is alive, 7 has an open connection
        flow_table.merge_if_many(|pid| pid == 3);
        let flows = reported(&mut flow_table);
        let total = |port| {
            let is_to_port =
                |it: &&SocketObservation| matches!(it.link.passive, ListenAddress::Inet { port: p, .. } if p == port);
            flows.iter().filter(is_to_port).map(|flow| flow.counts.opened).sum::<u64>()
        };
        assert_eq!((flows.len(), total(80), total(81)), (3, u64::from(count), 1));
        assert!(flows.iter().all(|it| it.owner.as_ref().is_some_and(|it| it.executable.as_deref() == Some("curl"))));
    }

    #[test]
    fn connections_that_a_comparison_does_not_find_are_closed() {
        let mut flow_table = FlowTable::default();
        flow_table.add_counts(&key(1, 80), &FlowCounts { opened: 9, established: 9, ..FlowCounts::default() });
        flow_table.add_counts(&key(2, 80), &FlowCounts { adopted: 2, ..FlowCounts::default() });
        flow_table.begin_comparison();
        // of 9: 4 visited, one of which ends later; 2 end before the visit; 3 are gone. One is opened meanwhile.
        let during = FlowCounts { opened: 1, closed: 3, compared: 4, ended: 2, ..FlowCounts::default() };
        flow_table.add_counts(&key(1, 80), &during);
        flow_table.add_counts(&key(2, 80), &FlowCounts { compared: 2, ..FlowCounts::default() });
        // opened by a process that appears meanwhile
        flow_table.add_counts(&key(3, 80), &FlowCounts { opened: 1, ..FlowCounts::default() });
        assert_eq!(flow_table.end_comparison(), 3);
        let mut counts: Vec<Counts> = reported(&mut flow_table).into_iter().map(|flow| flow.counts).collect();
        counts.sort_unstable_by_key(|counts| counts.opened);
        let first = Counts { opened: 10, established: 9, closed: 6, open: 4, ..Counts::default() };
        let appeared = Counts { opened: 1, open: 1, ..Counts::default() };
        assert_eq!(counts, [Counts { open: 2, ..Counts::default() }, appeared, first]);
        flow_table.begin_comparison();
        let all = FlowCounts { compared: 4, ..FlowCounts::default() };
        flow_table.add_counts(&key(1, 80), &all);
        flow_table.add_counts(&key(2, 80), &FlowCounts { compared: 2, ..FlowCounts::default() });
        flow_table.add_counts(&key(3, 80), &FlowCounts { compared: 1, ..FlowCounts::default() });
        assert_eq!(flow_table.end_comparison(), 0);
    }

    #[test]
    fn mapped_addresses_become_ipv4() {
        let mut bytes = [0; 16];
        bytes[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 1]);
        assert_eq!(address(bytes).to_string(), "10.0.0.1");
    }
}
