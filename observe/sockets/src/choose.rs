//! Which way of seeing sockets this host allows, and why not a better one.
//!
//! Ways are tried from the best: in the kernel, by polling, tuples only. Trying means doing: what starts can be used.

use crate::Collector;
use crate::ebpf::{self, EbpfCollector, Options};
use crate::identity::procfs::{ProcessFolder, pids};
use crate::namespaces;
use crate::polling::Poller;
use flows::Source;
use model::Failure;
use std::fmt;
use std::str::FromStr;

/// What the user asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The best that works.
    #[default]
    Auto,
    Only(Source),
}

impl FromStr for Mode {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Mode, Failure> {
        match text {
            "auto" => Ok(Mode::Auto),
            "ebpf" => Ok(Mode::Only(Source::Ebpf)),
            "polling" => Ok(Mode::Only(Source::Polling)),
            "tuples" => Ok(Mode::Only(Source::Tuples)),
            _ => Err(Failure::request(format!("there is no mode {text}")).next("use auto, ebpf, polling or tuples")),
        }
    }
}

/// A way that was not taken, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub source: Source,
    pub why: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", name(self.source), self.why)
    }
}

pub struct Choice {
    pub collector: Box<dyn Collector>,
    /// Better ways that were tried.
    pub refusals: Vec<Refusal>,
    /// What the chosen way does not see on this host, in words.
    pub limits: Vec<String>,
}

/// Starts the best way that the mode allows. Fails if none works, with every reason.
pub fn choose(mode: Mode) -> Result<Choice, Failure> {
    let ways = match mode {
        Mode::Auto => vec![Source::Ebpf, Source::Polling, Source::Tuples],
        Mode::Only(source) => vec![source],
    };
    let mut refusals = Vec::new();
    for source in ways {
        match start(source) {
            Ok(collector) => return Ok(Choice { collector, refusals, limits: limits(source) }),
            Err(failure) => refusals.push(Refusal { source, why: reason(&failure) }),
        }
    }
    let why = refusals.iter().map(Refusal::to_string).collect::<Vec<_>>().join("\n");
    Err(Failure::environment("the sockets of this host cannot be seen")
        .why(why)
        .next("run it as root or by its systemd unit, or choose another --mode"))
}

fn start(source: Source) -> Result<Box<dyn Collector>, Failure> {
    match source {
        Source::Ebpf => {
            kernel_allows_counting()?;
            Ok(Box::new(EbpfCollector::start(Options::default())?))
        }
        Source::Polling => {
            others_are_readable()?;
            Ok(Box::new(Poller::start(source)?))
        }
        Source::Tuples => Ok(Box::new(Poller::start(source)?)),
    }
}

fn kernel_allows_counting() -> Result<(), Failure> {
    let missing = |need: ebpf::Requirement| Some(format!("{}: {}", need.what, need.missing?));
    let missing: Vec<String> = ebpf::probe().into_iter().filter_map(missing).collect();
    match missing.as_slice() {
        [] => Ok(()),
        _ => Err(Failure::environment("connections cannot be counted in the kernel").why(missing.join("; "))),
    }
}

/// Whether open files of processes of other users may be looked at. A single process may still be closed to us.
fn others_are_readable() -> Result<(), Failure> {
    let (ours, us) = (rustix::process::geteuid().as_raw(), std::process::id());
    let mut refused = None;
    for pid in pids().filter(|pid| *pid != us) {
        let Ok(process) = ProcessFolder::open(pid) else { continue };
        let user = rustix::fs::fstat(process.folder()).map_or(ours, |folder| folder.st_uid);
        if user == ours && ours != 0 {
            continue;
        }
        let mut links = match std::fs::read_dir(format!("/proc/{pid}/fd")) {
            Ok(files) => files.flatten().map(|file| std::fs::read_link(file.path())),
            Err(error) => {
                refused = Some(error);
                continue;
            }
        };
        match links.next() {
            Some(Ok(_)) => return Ok(()),
            Some(Err(error)) if error.kind() == std::io::ErrorKind::PermissionDenied => refused = Some(error),
            // it has none open, or has just ended
            _ => {}
        }
    }
    Err(match refused {
        Some(error) => Failure::environment("the open files of other users' processes cannot be read")
            .why(format!("{error}; it takes CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH")),
        None => Failure::environment("processes of other users are hidden, or there are none")
            .why("mount /proc without hidepid, or run as root"),
    })
}

fn limits(source: Source) -> Vec<String> {
    let mut limits = Vec::new();
    if source == Source::Ebpf {
        return limits;
    }
    limits.push("connections that begin and end between two polls are not seen, bytes are not counted".to_owned());
    if source == Source::Tuples {
        limits.push("of other users' connections only the cgroup is known".to_owned());
    }
    let own = namespaces::own().ok();
    let all = namespaces::all();
    let closed =
        all.iter().filter(|(id, path)| Some(**id) != own && namespaces::within(**id, path, || ()).is_err()).count();
    if closed > 0 {
        limits.push(format!("{closed} other network namespaces cannot be entered: it takes CAP_SYS_ADMIN"));
    }
    limits
}

fn reason(failure: &Failure) -> String {
    match &failure.why {
        Some(why) => format!("{} ({why})", failure.what),
        None => failure.what.clone(),
    }
}

fn name(source: Source) -> &'static str {
    match source {
        Source::Ebpf => "ebpf",
        Source::Polling => "polling",
        Source::Tuples => "tuples",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read_from_text() {
        for source in [Source::Ebpf, Source::Polling, Source::Tuples] {
            assert_eq!(name(source).parse::<Mode>().unwrap(), Mode::Only(source));
        }
        assert_eq!("auto".parse::<Mode>().unwrap(), Mode::Auto);
        assert!("magic".parse::<Mode>().unwrap_err().next.is_some());
    }

    #[test]
    fn tuples_always_work_and_auto_says_why_nothing_better() {
        let tuples = choose(Mode::Only(Source::Tuples)).unwrap();
        assert_eq!((tuples.collector.source(), tuples.refusals.len()), (Source::Tuples, 0));
        assert!(tuples.limits.len() >= 2);
        let auto = choose(Mode::Auto).unwrap();
        let refused: Vec<Source> = auto.refusals.iter().map(|refusal| refusal.source).collect();
        let better = [Source::Ebpf, Source::Polling].into_iter().filter(|source| *source < auto.collector.source());
        assert_eq!(refused, better.collect::<Vec<_>>());
        assert!(auto.refusals.iter().all(|refusal| !refusal.why.is_empty()));
    }
}
