//! A network namespace for each test, and the accumulated output of a collector.
#![expect(unsafe_code, reason = "creates network namespaces by system calls")]

pub mod cgroup;
pub mod polling_watch;
pub mod processes;
pub mod program;

use flows::{Attribution, Counts, ListenAddress, Losses, Side};
use sockets::ebpf::{EbpfCollector, Options, requirements};
use sockets::{Collector, ObservedListener, SocketObservation};
use std::io::Write;
use std::net::{IpAddr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

pub const TIMEOUT: Duration = Duration::from_secs(20);

/// Reports a test that cannot run; `make test` counts it. Bypasses the capture of output.
pub fn skipped(why: &str) {
    let test = std::thread::current();
    let _ = writeln!(std::io::stdout(), "skipped: {}: {why}", test.name().unwrap_or("?"));
}

/// The network namespace of a test, and its lock: a process that another test forks inherits all sockets of this
/// process until it executes another program, and would count as their owner.
pub struct Network {
    pub netns: u64,
    _lock: Lock,
}

/// Held until the test ends.
#[expect(dead_code, reason = "held for its drop")]
enum Lock {
    Shared(RwLockReadGuard<'static, ()>),
    Exclusive(RwLockWriteGuard<'static, ()>),
}

static LOCK: RwLock<()> = RwLock::new(());

/// Moves this thread, and threads that it starts, to a new network namespace. Runs in parallel with other tests that do
/// not fork. None if the namespace cannot be created; that is reported as a skipped test.
pub fn network() -> Option<Network> {
    enter(Lock::Shared(LOCK.read().unwrap_or_else(PoisonError::into_inner)))
}

/// Like [`network`], but no other test runs at the same time.
pub fn exclusive_network() -> Option<Network> {
    enter(Lock::Exclusive(LOCK.write().unwrap_or_else(PoisonError::into_inner)))
}

fn enter(lock: Lock) -> Option<Network> {
    match own_network() {
        Ok(netns) => Some(Network { netns, _lock: lock }),
        Err(why) => {
            skipped(&why);
            None
        }
    }
}

/// Moves this thread to a new network namespace with its loopback up. The namespace ends with its last thread.
pub fn own_network() -> Result<u64, String> {
    // SAFETY: the flags are valid; no memory is touched.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(format!("cannot create a network namespace: {}", std::io::Error::last_os_error()));
    }
    loopback_up().map_err(|e| format!("cannot set up loopback: {e}"))?;
    Ok(netns())
}

pub fn netns() -> u64 {
    std::fs::metadata("/proc/thread-self/ns/net").expect("a thread has a network namespace").ino()
}

fn loopback_up() -> std::io::Result<()> {
    // SAFETY: the request names `lo` and holds flags, as SIOCSIFFLAGS requires; the descriptor is ours.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = libc::IFF_UP as i16;
        let result = libc::ioctl(socket, libc::SIOCSIFFLAGS, &request);
        let error = std::io::Error::last_os_error();
        libc::close(socket);
        if result == 0 { Ok(()) } else { Err(error) }
    }
}

/// Accepts and closes at once.
pub fn serve_shortly(listener: TcpListener, connections: usize) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        for _ in 0..connections {
            drop(listener.accept().expect("a connection can be accepted"));
        }
    })
}

pub fn finished(counts: Counts, n: u64) -> bool {
    counts.closed == n && counts.open == 0
}

/// A collector and its accumulated output for some network namespaces.
pub struct Watch {
    pub collector: EbpfCollector,
    pub netns: Vec<u64>,
    pub flows: Vec<SocketObservation>,
    pub listeners: Vec<ObservedListener>,
    pub losses: Losses,
}

impl Watch {
    /// None if this machine does not permit eBPF; that is reported as a skipped test.
    pub fn start() -> Option<Watch> {
        // an end that the hook did not see is found within a second
        Watch::with(Options { scan_interval: Duration::from_secs(1), ..Options::default() })
    }

    pub fn with(options: Options) -> Option<Watch> {
        match EbpfCollector::start(options) {
            Ok(collector) => {
                let losses = Losses::default();
                Some(Watch { collector, netns: vec![netns()], flows: Vec::new(), listeners: Vec::new(), losses })
            }
            Err(failure) => {
                let missing = requirements().into_iter().find(|it| it.missing.is_some());
                let missing = missing.unwrap_or_else(|| panic!("all requirements are met, but {failure}"));
                skipped(&format!("{}: {}", missing.what, missing.missing.unwrap_or_default()));
                None
            }
        }
    }

    pub fn collect(&mut self) {
        let collected = self.collector.collect().expect("the tables can be read");
        self.losses.add(&collected.losses);
        self.listeners = collected.listeners.into_iter().filter(|it| self.netns.contains(&it.netns)).collect();
        for new in collected.flows.into_iter().filter(|it| self.netns.contains(&it.netns)) {
            let process = |it: &SocketObservation| it.owner.as_ref().map(|owner| owner.process);
            let is_same = |old: &&mut SocketObservation| {
                (old.side, old.netns, process(old), &old.link, old.attribution)
                    == (new.side, new.netns, process(&new), &new.link, new.attribution)
            };
            match self.flows.iter_mut().find(is_same) {
                Some(old) => {
                    old.counts.add(&new.counts);
                    // the data of the same process may be more complete now
                    old.owner = new.owner;
                }
                None => self.flows.push(new),
            }
        }
    }

    /// Collects until `holds` returns true. Panics with the output after a timeout.
    pub fn until(&mut self, what: &str, holds: impl Fn(&Watch) -> bool) {
        let start = Instant::now();
        loop {
            self.collect();
            if holds(self) {
                return;
            }
            assert!(start.elapsed() < TIMEOUT, "not observed in time: {what}\n{:#?}\n{:?}", self.flows, self.losses);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn side(&self, side: Side, port: u16) -> Vec<&SocketObservation> {
        let at = |it: &&SocketObservation| {
            it.side == side && matches!(it.link.passive, ListenAddress::Inet { port: p, .. } if p == port)
        };
        self.flows.iter().filter(at).collect()
    }

    pub fn total(&self, side: Side, port: u16) -> Counts {
        sum(self.side(side, port))
    }

    /// Counts of one owner by pid, exactly attributed.
    pub fn of(&self, side: Side, port: u16, pid: u32) -> Counts {
        sum(self.side(side, port).into_iter().filter(|it| {
            it.attribution == Attribution::Exact && it.owner.as_ref().is_some_and(|owner| owner.process.pid == pid)
        }))
    }

    pub fn attributed(&self, side: Side, port: u16, attribution: Attribution) -> Counts {
        sum(self.side(side, port).into_iter().filter(|it| it.attribution == attribution))
    }

    pub fn links(&self, side: Side, port: u16) -> Vec<(Option<IpAddr>, ListenAddress)> {
        let mut links: Vec<_> =
            self.side(side, port).iter().map(|it| (it.link.active, it.link.passive.clone())).collect();
        links.dedup();
        links
    }
}

fn sum<'a>(flows: impl IntoIterator<Item = &'a SocketObservation>) -> Counts {
    flows.into_iter().fold(Counts::default(), |mut sum, flow| {
        let open = sum.open + flow.counts.open;
        sum.add(&flow.counts);
        sum.open = open;
        sum
    })
}
