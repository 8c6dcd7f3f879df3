//! Reads the kernel's tables at each interval, or when they are half full.

use super::kernel::{self, Batch, ProgramStatistics};
use super::layout::{self, Control, Counter, FlowCounts, FlowKey, Instance, Listener, Process};
use super::ledger::Ledger;
use super::others::Others;
use super::programs::{Programs, failed};
use crate::{Collector, Sightings};
use flows::{Losses, Source};
use model::Failure;
use std::io::PipeWriter;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long bytes of open connections, and sockets without a hook, may be out of date.
const PASS_EVERY: Duration = Duration::from_secs(30);
/// A pass that is wanted earlier waits until it costs at most one in this many of the time.
const PASS_SHARE: u32 = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Room for flows in one interval; when it is half used, the table is read early. At least 2.
    pub flow_entries: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { flow_entries: 65_536 }
    }
}

/// Counts every TCP connection of the host while it lives.
pub struct EbpfCollector {
    reader: Arc<Mutex<Reader>>,
    /// Reads the table when it is half full; ends when `stop` is dropped.
    early: Option<JoinHandle<()>>,
    stop: Option<PipeWriter>,
}

impl EbpfCollector {
    /// Attaches, then finds what is already there.
    pub fn start(options: Options) -> Result<EbpfCollector, Failure> {
        let mut programs = Programs::load(options.flow_entries)?;
        let wake = programs.take_wake()?;
        let mut reader = Reader::new(programs, options);
        reader.pass()?;
        let reader = Arc::new(Mutex::new(reader));
        let (stopped, stop) = std::io::pipe().map_err(|e| failed("no pipe could be made", &e))?;
        let shared = Arc::clone(&reader);
        let early = std::thread::Builder::new()
            .name("sockets-early".into())
            .spawn(move || read_early(&shared, wake, &stopped))
            .map_err(|e| failed("no thread could be started", &e))?;
        Ok(EbpfCollector { reader, early: Some(early), stop: Some(stop) })
    }

    /// Brings the bytes and owners of open connections up to date: a pass over all open files, about 2 µs per file.
    pub fn reconcile(&mut self) -> Result<(), Failure> {
        lock(&self.reader).pass()
    }

    pub fn statistics(&self) -> Result<ProgramStatistics, Failure> {
        lock(&self.reader).programs.statistics()
    }
}

impl Collector for EbpfCollector {
    fn source(&self) -> Source {
        Source::Ebpf
    }

    fn collect(&mut self) -> Result<Sightings, Failure> {
        lock(&self.reader).collect()
    }
}

impl Drop for EbpfCollector {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.early.take() {
            // it holds nothing that its panic could have spoiled
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
            // what fails here fails in the next call of `collect` too, which can say so
            let _ = lock(reader).drain();
        }
    }
}

/// A panic while it was held can at worst have lost an interval.
fn lock(reader: &Mutex<Reader>) -> MutexGuard<'_, Reader> {
    reader.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

struct Reader {
    programs: Programs,
    control: Control,
    half: u32,
    flows: Batch<FlowKey, FlowCounts>,
    processes: Batch<Instance, Process>,
    ledger: Ledger,
    others: Others,
    listeners: Vec<Listener>,
    listeners_changed: Option<u32>,
    last_pass: Instant,
    pass_took: Duration,
    told: Losses,
}

impl Reader {
    fn new(programs: Programs, options: Options) -> Reader {
        let half = options.flow_entries / 2;
        Reader {
            programs,
            control: Control { wake_at: half, ..Control::default() },
            half,
            flows: Batch::new(1024),
            processes: Batch::new(256),
            ledger: Ledger::default(),
            others: Others::default(),
            listeners: Vec::new(),
            listeners_changed: None,
            last_pass: Instant::now(),
            pass_took: Duration::ZERO,
            told: Losses::default(),
        }
    }

    fn collect(&mut self) -> Result<Sightings, Failure> {
        if self.pass_is_due()? {
            self.pass()?;
        }
        self.drain()?;
        self.read_listeners()?;
        let (mut flows, mut listeners) = self.ledger.tell(&self.listeners, Instant::now());
        let (other_flows, other_listeners) = self.others.tell(&self.ledger);
        flows.extend(other_flows);
        listeners.extend(other_listeners);
        let owners = self.listeners.iter().map(Listener::instance).chain(self.others.owners());
        self.ledger.forget_processes(owners);
        Ok(Sightings { flows, listeners, losses: self.losses()? })
    }

    /// Passive ends are counted when somebody is found to hold them, so those that stay open want a pass soon.
    fn pass_is_due(&self) -> Result<bool, Failure> {
        let since = self.last_pass.elapsed();
        let wanted = self.programs.counter(Counter::UnsettledNow)? > 0;
        Ok(since >= PASS_EVERY || (wanted && since >= self.pass_took * PASS_SHARE))
    }

    fn pass(&mut self) -> Result<(), Failure> {
        let start = Instant::now();
        self.control.pass += 1;
        self.programs.set_control(self.control)?;
        let written = self.programs.pass()?;
        self.others.compare(layout::records(&written));
        self.last_pass = Instant::now();
        self.pass_took = self.last_pass - start;
        self.drain()?;
        self.ledger.forget_ended(kernel::exists);
        Ok(())
    }

    /// Lets the programs write into the other tables, then empties those of the epoch that ended.
    fn drain(&mut self) -> Result<(), Failure> {
        let tally = self.programs.tally()?;
        let (flows, processes) = match self.control.epoch & 1 {
            0 => ("flows_even", "processes_even"),
            _ => ("flows_odd", "processes_odd"),
        };
        self.control.epoch = self.control.epoch.wrapping_add(1);
        self.control.wake_at = tally.inserted.wrapping_add(self.half);
        self.programs.set_control(self.control)?;
        kernel::wait_for_running_programs();
        let ledger = &mut self.ledger;
        self.processes
            .drain(self.programs.map(processes)?, |instance, process| ledger.process(instance, process))
            .map_err(|e| failed("a table cannot be read", &e))?;
        self.flows
            .drain(self.programs.map(flows)?, |key, counts| ledger.count(key, counts))
            .map_err(|e| failed("a table cannot be read", &e))?;
        ledger.merge_if_many(kernel::exists);
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
            .map_err(|e| failed("a table cannot be read", &e))?;
        self.listeners = listeners;
        self.listeners_changed = Some(changed);
        Ok(())
    }

    fn losses(&mut self) -> Result<Losses, Failure> {
        let total = Losses {
            table_full: self.programs.counter(Counter::LostFlows)?
                + self.programs.counter(Counter::LostSockets)?
                + self.programs.counter(Counter::LostListeners)?
                + self.ledger.lost,
            recursion: self.programs.missed()?,
            windows: 0,
            unreadable: self.programs.counter(Counter::LostProcesses)?,
        };
        let new = Losses {
            table_full: total.table_full - self.told.table_full,
            recursion: total.recursion.saturating_sub(self.told.recursion),
            windows: 0,
            unreadable: total.unreadable - self.told.unreadable,
        };
        self.told = Losses { recursion: self.told.recursion.max(total.recursion), ..total };
        Ok(new)
    }
}
