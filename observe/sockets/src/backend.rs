//! Selects the best collector that this host permits, and records why better ones were not available.
//!
//! Candidates in order: eBPF, polling, polling of address tuples only. Each is tried by starting it, so a selected
//! collector works.

use crate::Collector;
use crate::ebpf::{self, EbpfCollector, Options};
use crate::namespaces;
use crate::polling::Poller;
use flows::Source;
use model::Failure;
use process::{ProcDir, pids};
use std::fmt;
use std::str::FromStr;

/// The requested collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The best one that works.
    #[default]
    Auto,
    Only(Source),
}

impl FromStr for Mode {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Mode, Failure> {
        if text == "auto" {
            return Ok(Mode::Auto);
        }
        text.parse()
            .map(Mode::Only)
            .map_err(|_| Failure::request(format!("unknown mode '{text}'")).next("use auto, ebpf, polling or tuples"))
    }
}

/// A collector that could not be started, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub source: Source,
    pub why: String,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source, self.why)
    }
}

pub struct Selection {
    pub collector: Box<dyn Collector>,
    /// Better collectors that could not be started.
    pub rejections: Vec<Rejection>,
    /// What the selected collector misses on this host, for the user.
    pub limits: Vec<String>,
}

/// Starts the best collector that the mode permits.
///
/// # Errors
/// None of them could be started; the failure lists every reason.
pub fn select(mode: Mode) -> Result<Selection, Failure> {
    let candidates = match mode {
        Mode::Auto => vec![Source::Ebpf, Source::Polling, Source::Tuples],
        Mode::Only(source) => vec![source],
    };
    let mut rejections = Vec::new();
    for source in candidates {
        match start(source) {
            Ok(collector) => return Ok(Selection { collector, rejections, limits: limits(source) }),
            Err(failure) => {
                let rejection = Rejection { source, why: reason(&failure) };
                tracing::debug!(%rejection, "collector not available");
                rejections.push(rejection);
            }
        }
    }
    let why = rejections.iter().map(Rejection::to_string).collect::<Vec<_>>().join("\n");
    Err(Failure::environment("cannot observe the sockets of this host").why(why).next(next_step()))
}

/// Root lacks permissions only if its namespaces or its security policy restrict it.
fn next_step() -> &'static str {
    if rustix::process::geteuid().is_root() {
        "choose another --mode; in a container, use the host's namespaces (--pid=host) and grant the capabilities"
    } else {
        "run as root or as its systemd unit, or choose another --mode"
    }
}

fn start(source: Source) -> Result<Box<dyn Collector>, Failure> {
    match source {
        Source::Ebpf => {
            check_ebpf()?;
            Ok(Box::new(EbpfCollector::start(Options::default())?))
        }
        Source::Polling => {
            check_other_users_readable()?;
            Ok(Box::new(Poller::start(source)?))
        }
        Source::Tuples => Ok(Box::new(Poller::start(source)?)),
    }
}

fn check_ebpf() -> Result<(), Failure> {
    let missing = |need: ebpf::Requirement| Some(format!("{}: {}", need.what, need.missing?));
    let missing: Vec<String> = ebpf::requirements().into_iter().filter_map(missing).collect();
    match missing.as_slice() {
        [] => Ok(()),
        _ => Err(Failure::environment("eBPF is not available").why(missing.join("; "))),
    }
}

/// Checks whether the open files of other users' processes are readable. Single processes may still be unreadable.
fn check_other_users_readable() -> Result<(), Failure> {
    let (ours, us) = (rustix::process::geteuid().as_raw(), std::process::id());
    let mut denied = None;
    for pid in pids().filter(|pid| *pid != us) {
        let Ok(process) = ProcDir::open(pid) else { continue };
        let user = rustix::fs::fstat(process.dir()).map_or(ours, |dir| dir.st_uid);
        if user == ours && ours != 0 {
            continue;
        }
        let mut links = match std::fs::read_dir(format!("/proc/{pid}/fd")) {
            Ok(files) => files.flatten().map(|file| std::fs::read_link(file.path())),
            Err(error) => {
                denied = Some(error);
                continue;
            }
        };
        match links.next() {
            Some(Ok(_)) => return Ok(()),
            Some(Err(error)) if error.kind() == std::io::ErrorKind::PermissionDenied => denied = Some(error),
            // no open files, or the process has just ended
            _ => {}
        }
    }
    Err(match denied {
        Some(error) => Failure::environment("cannot read the open files of other users' processes")
            .why(format!("{error}; this requires CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH")),
        None => Failure::environment("other users' processes are hidden, or there are none").why(if ours == 0 {
            "mount /proc without hidepid; in a container, use the host's processes (--pid=host)"
        } else {
            "mount /proc without hidepid, or run as root"
        }),
    })
}

fn limits(source: Source) -> Vec<String> {
    let mut limits = Vec::new();
    if source == Source::Ebpf {
        return limits;
    }
    let missed =
        "connections that start and end between two polls are missed, also short UDP exchanges and Unix sockets";
    limits.push(format!("{missed}; bytes are not counted"));
    if source == Source::Tuples {
        limits.push("for other users' connections only the cgroup is known".to_owned());
    }
    let own = namespaces::own().ok();
    let all = namespaces::all();
    let inaccessible =
        all.iter().filter(|(id, path)| Some(**id) != own && namespaces::within(**id, path, || ()).is_err()).count();
    if inaccessible > 0 {
        limits.push(format!(
            "{inaccessible} other network namespaces are not visible: entering them requires CAP_SYS_ADMIN"
        ));
    }
    limits
}

fn reason(failure: &Failure) -> String {
    match &failure.why {
        Some(why) => format!("{} ({why})", failure.what),
        None => failure.what.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_parsed() {
        for source in [Source::Ebpf, Source::Polling, Source::Tuples] {
            assert_eq!(source.to_string().parse::<Mode>().unwrap(), Mode::Only(source));
        }
        assert_eq!("auto".parse::<Mode>().unwrap(), Mode::Auto);
        assert!("magic".parse::<Mode>().unwrap_err().next.is_some());
    }

    #[test]
    fn tuples_always_work_and_auto_reports_rejected_backends() {
        let tuples = select(Mode::Only(Source::Tuples)).unwrap();
        assert_eq!((tuples.collector.source(), tuples.rejections.len()), (Source::Tuples, 0));
        assert!(tuples.limits.len() >= 2);
        let auto = select(Mode::Auto).unwrap();
        let denied: Vec<Source> = auto.rejections.iter().map(|rejection| rejection.source).collect();
        let better = [Source::Ebpf, Source::Polling].into_iter().filter(|source| *source < auto.collector.source());
        assert_eq!(denied, better.collect::<Vec<_>>());
        assert!(auto.rejections.iter().all(|rejection| !rejection.why.is_empty()));
    }
}
