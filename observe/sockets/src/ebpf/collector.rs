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

/// Maximum age of the byte counts of open connections and of the list of sockets without a hook.
const SCAN_INTERVAL: Duration = Duration::from_secs(30);
/// An early file scan waits until scans take at most 1/300 of the time.
const SCAN_COST_SHARE: u32 = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Capacity of the flow table for one interval; at least 2. The table is read early when it is half full.
    pub flow_entries: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { flow_entries: 65_536 }
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

    /// Updates the byte counts and owners of open connections by a scan of all open files: about 2 µs per file.
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
    flows: Batch<FlowKey, FlowCounts>,
    processes: Batch<TaskId, Process>,
    flow_table: FlowTable,
    non_tcp: NonTcpSockets,
    listeners: Vec<Listener>,
    listeners_changed: Option<u32>,
    last_scan: Instant,
    scan_duration: Duration,
    reported: Losses,
}

impl Reader {
    fn new(programs: Programs, options: Options) -> Reader {
        let half = options.flow_entries / 2;
        Reader {
            programs,
            control: Control { wake_at: half, ..Control::default() },
            half_capacity: half,
            flows: Batch::new(1024),
            processes: Batch::new(256),
            flow_table: FlowTable::default(),
            non_tcp: NonTcpSockets::default(),
            listeners: Vec::new(),
            listeners_changed: None,
            last_scan: Instant::now(),
            scan_duration: Duration::ZERO,
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
        Ok(since >= SCAN_INTERVAL || (unattributed && since >= self.scan_duration * SCAN_COST_SHARE))
    }

    fn scan_files(&mut self) -> Result<(), Failure> {
        let start = Instant::now();
        self.control.scan += 1;
        self.programs.set_control(self.control)?;
        let written = self.programs.scan_files()?;
        self.non_tcp.compare(layout::records(&written));
        self.last_scan = Instant::now();
        self.scan_duration = self.last_scan - start;
        self.drain()?;
        self.flow_table.clear_ended(kernel::exists);
        Ok(())
    }

    /// Switches the programs to the other tables, then empties the tables of the epoch that ended.
    fn drain(&mut self) -> Result<(), Failure> {
        let tally = self.programs.tally()?;
        let (flows, processes) = match self.control.epoch & 1 {
            0 => ("flows_even", "processes_even"),
            _ => ("flows_odd", "processes_odd"),
        };
        self.control.epoch = self.control.epoch.wrapping_add(1);
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

    fn losses(&mut self) -> Result<Losses, Failure> {
        let total = Losses {
            table_full: self.programs.counter(Counter::LostFlows)?
                + self.programs.counter(Counter::LostSockets)?
                + self.programs.counter(Counter::LostListeners)?
                + self.flow_table.lost,
            recursion: self.programs.missed()?,
            windows: 0,
            unreadable: self.programs.counter(Counter::LostProcesses)?,
        };
        let new = Losses {
            table_full: total.table_full - self.reported.table_full,
            recursion: total.recursion.saturating_sub(self.reported.recursion),
            windows: 0,
            unreadable: total.unreadable - self.reported.unreadable,
        };
        self.reported = Losses { recursion: self.reported.recursion.max(total.recursion), ..total };
        Ok(new)
    }
}
