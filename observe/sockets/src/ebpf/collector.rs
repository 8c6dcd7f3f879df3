//! Reads the kernel's tables at each interval, or when they are half full.

use super::flow_table::FlowTable;
use super::kernel::{self, Batch, ProgramStatistics};
use super::layout::{self, Control, Counter, FlowCounts, FlowKey, Listener, Process, TaskId};
use super::non_tcp::NonTcpSockets;
use super::programs::{Programs, failed};
use crate::{CollectedSockets, Collector};
use flows::{Losses, Source};
use model::Failure;
use std::io::PipeWriter;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// An early file scan waits until scans take at most 1/300 of the time.
const SCAN_COST_SHARE: u32 = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Capacity of the flow table for one interval; at least 2. The table is read early when it is half full.
    pub flow_entries: u32,
    /// Maximum age of the byte counts of open connections and of the list of sockets without a hook, and maximum delay
    /// of an end that the hook did not see.
    pub scan_interval: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { flow_entries: 65_536, scan_interval: Duration::from_secs(30) }
    }
}

/// Counts every TCP connection of the host until it is dropped.
pub struct EbpfCollector {
    reader: Arc<Mutex<Reader>>,
    /// Reads the table when it is half full. Ends when `stop` is dropped.
    early_reader: Option<JoinHandle<()>>,
    stop: Option<PipeWriter>,
}

impl EbpfCollector {
    /// Attaches the programs, then scans for existing sockets.
    pub fn start(options: Options) -> Result<EbpfCollector, Failure> {
        let mut programs = Programs::load(options.flow_entries)?;
        let wake = programs.take_wake()?;
        let mut reader = Reader::new(programs, options);
        reader.scan_files()?;
        let reader = Arc::new(Mutex::new(reader));
        let (stopped, stop) = std::io::pipe().map_err(|e| failed("cannot create a pipe", &e))?;
        let shared = Arc::clone(&reader);
        let early = std::thread::Builder::new()
            .name("sockets-early".into())
            .spawn(move || read_early(&shared, wake, &stopped))
            .map_err(|e| failed("cannot start a thread", &e))?;
        Ok(EbpfCollector { reader, early_reader: Some(early), stop: Some(stop) })
    }

    /// Updates the byte counts and owners of open connections by a scan of all open files: about 2 µs per file. Closes
    /// connections whose end the hook did not see.
    pub fn reconcile(&mut self) -> Result<(), Failure> {
        lock(&self.reader).scan_files()
    }

    pub fn statistics(&self) -> Result<ProgramStatistics, Failure> {
        lock(&self.reader).programs.statistics()
    }
}

impl Collector for EbpfCollector {
    fn source(&self) -> Source {
        Source::Ebpf
    }

    fn collect(&mut self) -> Result<CollectedSockets, Failure> {
        lock(&self.reader).collect()
    }

    /// Owners, byte counts and unseen ends would wait for the next scan.
    fn prepare_last(&mut self) {
        lock(&self.reader).scan_next = true;
    }
}

impl Drop for EbpfCollector {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.early_reader.take() {
            // a panic in this thread leaves no broken state behind
            let _ = thread.join();
        }
    }
}

fn read_early(reader: &Mutex<Reader>, mut wake: aya::maps::RingBuf<aya::maps::MapData>, stopped: &std::io::PipeReader) {
    loop {
        let Ok([stop, woken]) = kernel::wait_readable([stopped.as_fd(), wake.as_fd()]) else { return };
        if stop {
            return;
        }
        if woken {
            while wake.next().is_some() {}
            // a failure repeats in the next call of `collect`, which reports it
            let _ = lock(reader).drain();
        }
    }
}

/// A panic while the lock was held loses at most one interval.
fn lock(reader: &Mutex<Reader>) -> MutexGuard<'_, Reader> {
    reader.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

struct Reader {
    programs: Programs,
    control: Control,
    half_capacity: u32,
    scan_interval: Duration,
    /// The next collection scans, whatever it costs.
    scan_next: bool,
    can_compare: bool,
    flows: Batch<FlowKey, FlowCounts>,
    processes: Batch<TaskId, Process>,
    flow_table: FlowTable,
    non_tcp: NonTcpSockets,
    listeners: Vec<Listener>,
    listeners_changed: Option<u32>,
    last_scan: Instant,
    scan_duration: Duration,
    closed_unseen: u64,
    reported: Losses,
}

impl Reader {
    fn new(programs: Programs, options: Options) -> Reader {
        let half = options.flow_entries / 2;
        Reader {
            programs,
            control: Control { wake_at: half, ..Control::default() },
            half_capacity: half,
            scan_interval: options.scan_interval,
            scan_next: false,
            can_compare: true,
            flows: Batch::new(1024),
            processes: Batch::new(256),
            flow_table: FlowTable::default(),
            non_tcp: NonTcpSockets::default(),
            listeners: Vec::new(),
            listeners_changed: None,
            last_scan: Instant::now(),
            scan_duration: Duration::ZERO,
            closed_unseen: 0,
            reported: Losses::default(),
        }
    }

    fn collect(&mut self) -> Result<CollectedSockets, Failure> {
        if self.is_scan_due()? {
            self.scan_files()?;
        }
        self.drain()?;
        self.read_listeners()?;
        let (mut flows, mut listeners) = self.flow_table.drain_changes(&self.listeners, Instant::now());
        let (non_tcp_flows, non_tcp_listeners) = self.non_tcp.drain_changes(&self.flow_table);
        flows.extend(non_tcp_flows);
        listeners.extend(non_tcp_listeners);
        let owners = self.listeners.iter().map(Listener::task).chain(self.non_tcp.owners());
        self.flow_table.retain_processes(owners);
        Ok(CollectedSockets { flows, listeners, losses: self.losses()? })
    }

    /// Passive ends are counted once a process is found to hold them, so unattributed ones make a scan due early.
    fn is_scan_due(&self) -> Result<bool, Failure> {
        let since = self.last_scan.elapsed();
        let unattributed = self.programs.counter(Counter::UnattributedNow)? > 0;
        Ok(self.scan_next
            || since >= self.scan_interval
            || (unattributed && since >= self.scan_duration * SCAN_COST_SHARE))
    }

    fn scan_files(&mut self) -> Result<(), Failure> {
        let start = Instant::now();
        self.scan_next = false;
        self.control.scan += 1;
        self.programs.set_control(self.control)?;
        let written = self.programs.scan_files()?;
        self.non_tcp.compare(layout::records(&written));
        let compared = self.compare();
        self.last_scan = Instant::now();
        self.scan_duration = self.last_scan - start;
        compared
    }

    /// Closes connections that are open here and that the kernel does not have anymore. `bpf/comparison.h` explains why
    /// connections that are opened or closed meanwhile are not affected.
    fn compare(&mut self) -> Result<(), Failure> {
        if !self.can_compare {
            return Ok(());
        }
        // After a failure, sockets that were not visited would look like compared ones to the next comparison. So it
        // is the last one, and its failure is reported once.
        self.can_compare = false;
        self.control.epoch = self.control.epoch.wrapping_add(2);
        self.drain()?;
        let lost_before = self.lost()?;
        self.flow_table.begin_comparison();
        let compared = self.programs.compare_sockets();
        self.drain()?;
        compared
            .map_err(|failure| failure.next("ends that no event reports are not found until the agent restarts"))?;
        self.can_compare = true;
        // a connection that could not be counted for lack of room looks like one that is gone
        if self.lost()? == lost_before {
            self.closed_unseen += self.flow_table.end_comparison();
        }
        Ok(())
    }

    /// Switches the programs to the other tables, then empties the tables of the epoch that ended.
    fn drain(&mut self) -> Result<(), Failure> {
        let tally = self.programs.tally()?;
        let (flows, processes) = match self.control.epoch & 1 {
            0 => ("flows_even", "processes_even"),
            _ => ("flows_odd", "processes_odd"),
        };
        self.control.epoch ^= 1;
        self.control.wake_at = tally.inserted.wrapping_add(self.half_capacity);
        self.programs.set_control(self.control)?;
        kernel::wait_for_running_programs();
        let flow_table = &mut self.flow_table;
        self.processes
            .drain(self.programs.map(processes)?, |task, process| flow_table.add_process(task, process))
            .map_err(|e| failed("cannot read a table", &e))?;
        self.flows
            .drain(self.programs.map(flows)?, |key, counts| flow_table.add_counts(key, counts))
            .map_err(|e| failed("cannot read a table", &e))?;
        flow_table.merge_if_many(kernel::exists);
        Ok(())
    }

    fn read_listeners(&mut self) -> Result<(), Failure> {
        let changed = self.programs.tally()?.listeners_changed;
        if self.listeners_changed == Some(changed) {
            return Ok(());
        }
        let mut listeners = Vec::new();
        Batch::<u64, Listener>::new(256)
            .read(self.programs.map("listeners")?, |_, listener| listeners.push(*listener))
            .map_err(|e| failed("cannot read a table", &e))?;
        self.listeners = listeners;
        self.listeners_changed = Some(changed);
        Ok(())
    }

    /// Number of flows that were not counted for lack of room.
    fn lost(&self) -> Result<u64, Failure> {
        Ok(self.programs.counter(Counter::LostFlows)? + self.flow_table.lost)
    }

    fn losses(&mut self) -> Result<Losses, Failure> {
        let total = Losses {
            table_full: self.lost()?
                + self.programs.counter(Counter::LostSockets)?
                + self.programs.counter(Counter::LostListeners)?,
            recursion: self.programs.missed()?,
            windows: 0,
            unreadable: self.programs.counter(Counter::LostProcesses)?,
            closed_unseen: self.closed_unseen + self.programs.counter(Counter::ClosedUnseen)?,
            between_polls: 0,
        };
        let new = Losses {
            table_full: total.table_full - self.reported.table_full,
            recursion: total.recursion.saturating_sub(self.reported.recursion),
            windows: 0,
            unreadable: total.unreadable - self.reported.unreadable,
            closed_unseen: total.closed_unseen - self.reported.closed_unseen,
            between_polls: 0,
        };
        self.reported = Losses { recursion: self.reported.recursion.max(total.recursion), ..total };
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flows::{Counts, ListenAddress, Side};
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    /// A collector, or none with a counted skip if this machine does not permit eBPF.
    fn start() -> Option<EbpfCollector> {
        if let Some(missing) = super::super::requirements().into_iter().find_map(|it| it.missing) {
            let test = std::thread::current();
            let _ = writeln!(std::io::stdout(), "skipped: {}: {missing}", test.name().unwrap_or("?"));
            return None;
        }
        Some(EbpfCollector::start(Options::default()).expect("all requirements are met"))
    }

    /// Adds the counts of both ends of a port.
    fn collect(collector: &mut EbpfCollector, port: u16, ends: &mut [Counts; 2]) -> Losses {
        let collected = collector.collect().expect("the tables can be read");
        let is_at_port = |at: &ListenAddress| matches!(at, ListenAddress::Inet { port: p, .. } if *p == port);
        for flow in collected.flows.iter().filter(|it| is_at_port(&it.link.passive)) {
            ends[usize::from(flow.side == Side::Passive)].add(&flow.counts);
        }
        collected.losses
    }

    /// Some kernels skip the hook while a protected process is the current one. The connections stayed open forever.
    #[test]
    fn ends_that_the_hook_did_not_see_are_closed_unseen() {
        let Some(mut collector) = start() else { return };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let connect = || {
            let client = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
            (client, listener.accept().expect("there is one").0)
        };
        let pairs: Vec<_> = (0..20).map(|_| connect()).collect();
        let mut ends = [Counts::default(); 2];
        collector.reconcile().expect("a scan is possible");
        collect(&mut collector, port, &mut ends);
        let open = Counts { opened: 20, established: 20, open: 20, ..Counts::default() };
        assert_eq!(ends, [open; 2]);
        collector.reconcile().expect("a scan is possible");
        collect(&mut collector, port, &mut ends);
        assert_eq!(ends, [open; 2], "a comparison closes nothing that is open");

        lock(&collector.reader).programs.detach_hooks();
        let mut kept = pairs;
        let gone = kept.split_off(5);
        // one end closes first and waits for late packets, so both ends are gone at once
        drop(gone);
        let closed = Counts { closed: 15, open: 5, ..open };
        let (begin, mut losses) = (Instant::now(), Losses::default());
        while ends != [closed; 2] {
            collector.reconcile().expect("a scan is possible");
            losses.add(&collect(&mut collector, port, &mut ends));
            assert!(begin.elapsed() < Duration::from_secs(20), "{ends:?}");
        }
        // other connections of this host may have ended as well
        assert!(losses.closed_unseen >= 30, "{losses:?}");
        assert!(!losses.flows_missing(), "{losses:?}");
        drop(kept);
    }
}
