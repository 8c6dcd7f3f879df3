//! A network namespace for a test, and what a collector saw in it.
#![expect(unsafe_code, reason = "network namespaces are made by system calls")]
#![allow(dead_code, reason = "each test file uses its part")]

pub mod processes;

use flows::{Attribution, Counts, Losses, Passive, Side};
use sockets::ebpf::{EbpfCollector, Options, probe};
use sockets::{Collector, Listening, Sighting};
use std::io::Write;
use std::net::{IpAddr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

pub const PATIENCE: Duration = Duration::from_secs(20);

/// A test that cannot run here says so, and is counted.
pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stdout(), "skipped: {why}"); // not captured
}

/// Moves this thread, and what it starts from now on, into a network namespace of its own with its loopback up. The
/// namespace ends with the last of them.
pub fn own_network() -> Result<u64, String> {
    // SAFETY: the flags are valid; no memory is touched.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(format!("no network namespace can be made: {}", std::io::Error::last_os_error()));
    }
    loopback_up().map_err(|e| format!("loopback cannot be set up: {e}"))?;
    Ok(netns())
}

pub fn netns() -> u64 {
    std::fs::metadata("/proc/thread-self/ns/net").expect("a thread has a network namespace").ino()
}

fn loopback_up() -> std::io::Result<()> {
    // SAFETY: the request names `lo` and holds flags, as SIOCSIFFLAGS wants it; the descriptor is ours.
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

/// A collector, and all it told of some network namespaces.
pub struct Watch {
    pub collector: EbpfCollector,
    pub netns: Vec<u64>,
    pub flows: Vec<Sighting>,
    pub listeners: Vec<Listening>,
    pub losses: Losses,
}

impl Watch {
    /// None where this machine does not allow it; that is printed.
    pub fn start() -> Option<Watch> {
        Watch::with(Options::default())
    }

    pub fn with(options: Options) -> Option<Watch> {
        match EbpfCollector::start(options) {
            Ok(collector) => {
                let losses = Losses::default();
                Some(Watch { collector, netns: vec![netns()], flows: Vec::new(), listeners: Vec::new(), losses })
            }
            Err(failure) => {
                let missing = probe().into_iter().find(|it| it.missing.is_some());
                let missing = missing.unwrap_or_else(|| panic!("everything needed is here, but {failure}"));
                skipped(&format!("{}: {}", missing.what, missing.missing.unwrap_or_default()));
                None
            }
        }
    }

    pub fn look(&mut self) {
        let seen = self.collector.collect().expect("the tables can be read");
        self.losses.add(&seen.losses);
        self.listeners = seen.listeners.into_iter().filter(|it| self.netns.contains(&it.netns)).collect();
        for new in seen.flows.into_iter().filter(|it| self.netns.contains(&it.netns)) {
            let same = |old: &&mut Sighting| {
                (old.side, old.netns, &old.owner, &old.link, old.attribution)
                    == (new.side, new.netns, &new.owner, &new.link, new.attribution)
            };
            match self.flows.iter_mut().find(same) {
                Some(old) => old.counts.add(&new.counts),
                None => self.flows.push(new),
            }
        }
    }

    /// Looks until `seen` holds, and says what was there if it does not in time.
    pub fn until(&mut self, what: &str, seen: impl Fn(&Watch) -> bool) {
        let start = Instant::now();
        loop {
            self.look();
            if seen(self) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "not seen in time: {what}\n{:#?}\n{:?}", self.flows, self.losses);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn side(&self, side: Side, port: u16) -> Vec<&Sighting> {
        let at =
            |it: &&Sighting| it.side == side && matches!(it.link.passive, Passive::Inet { port: p, .. } if p == port);
        self.flows.iter().filter(at).collect()
    }

    pub fn total(&self, side: Side, port: u16) -> Counts {
        sum(self.side(side, port))
    }

    /// Counts of one owner by pid, exactly attributed.
    pub fn of(&self, side: Side, port: u16, pid: u32) -> Counts {
        sum(self.side(side, port).into_iter().filter(|it| {
            it.attribution == Attribution::Exact && it.owner.as_ref().is_some_and(|owner| owner.instance.pid == pid)
        }))
    }

    pub fn attributed(&self, side: Side, port: u16, how: Attribution) -> Counts {
        sum(self.side(side, port).into_iter().filter(|it| it.attribution == how))
    }

    pub fn links(&self, side: Side, port: u16) -> Vec<(Option<IpAddr>, Passive)> {
        let mut links: Vec<_> =
            self.side(side, port).iter().map(|it| (it.link.active, it.link.passive.clone())).collect();
        links.dedup();
        links
    }
}

fn sum<'a>(flows: impl IntoIterator<Item = &'a Sighting>) -> Counts {
    flows.into_iter().fold(Counts::default(), |mut sum, flow| {
        let open = sum.open + flow.counts.open;
        sum.add(&flow.counts);
        sum.open = open;
        sum
    })
}
