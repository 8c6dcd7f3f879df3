//! Determines the service of each process and caches it while the process is alive.
//!
//! A process is read once, and again when its short name changes or after a minute, because `exec` may replace its
//! program. A process that has ended keeps what was read. If it ended before it was read, its service follows from the
//! data captured by the kernel: cgroup, executable and arguments, or only the short name; `Service::executable` is then
//! none.

use super::cgroup_index::CgroupIndex;
use super::cgroup_path::{Membership, membership, membership_of_process};
use super::container::ContainerNames;
use super::program::{Invocation, Program, base_name};
use super::proxy::Proxy;
use crate::Owner;
use flows::{HostId, ProcessId, Service, ServiceKey, ServiceKind};
use process::{ProcDir, Stat};
use rustix::fs::AtFlags;
use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PROCESSES_MAX: usize = 65_536;
/// Maximum number of programs with different arguments. Above it, services are distinguished only by executable.
const PROGRAMS_MAX: usize = 10_000;
const REFRESH_AFTER: Duration = Duration::from_secs(60);

/// Properties of a process.
#[derive(Clone, Debug)]
pub struct ProcessInfo {
    pub service: Arc<Service>,
    pub comm: String,
    /// None: it had ended before it was read.
    pub netns: Option<u64>,
    pub proxy: Option<Proxy>,
    reported_comm: String,
    read_at: Instant,
}

pub struct Services {
    host: HostId,
    processes: HashMap<ProcessId, ProcessInfo>,
    programs: HashSet<ServiceKey>,
    /// Full paths of executables by file name and arguments, for processes of which only the file name is known.
    paths: HashMap<(String, String), String>,
    cgroups: CgroupIndex,
    containers: ContainerNames,
    unknown: Arc<Service>,
}

impl Services {
    pub fn new(host: &HostId, host_name: &str) -> Services {
        let unknown = Service {
            key: ServiceKey::of(host, ServiceKind::Host, ""),
            kind: ServiceKind::Host,
            name: host_name.to_owned(),
            executable: None,
            arguments: None,
            container: None,
            pod: None,
            unit: None,
            cgroup: None,
        };
        Services {
            host: host.clone(),
            processes: HashMap::new(),
            programs: HashSet::new(),
            paths: HashMap::new(),
            cgroups: CgroupIndex::of_this_host(),
            containers: ContainerNames::below("/"),
            unknown: Arc::new(unknown),
        }
    }

    /// The service of flows without a known owner.
    pub fn unknown(&self) -> Arc<Service> {
        Arc::clone(&self.unknown)
    }

    /// The service of an owner. Of an owner with pid 0 only the cgroup is known.
    pub fn of(&mut self, owner: &Owner) -> ProcessInfo {
        let cached = self.processes.get(&owner.process).filter(|info| info.reported_comm == owner.comm);
        if let Some(info) = cached
            && info.read_at.elapsed() < REFRESH_AFTER
        {
            return info.clone();
        }
        let living = living(owner);
        // captured data may lack the arguments and would then be another service
        if living.is_none()
            && let Some(info) = cached
            && info.netns.is_some()
        {
            return info.clone();
        }
        let info = match living {
            Some((stat, process)) => self.read_process(owner, &stat, &process),
            None => self.captured_process(owner),
        };
        if owner.process.pid != 0 {
            if self.processes.len() >= PROCESSES_MAX {
                self.processes.clear();
            }
            self.processes.insert(owner.process, info.clone());
        }
        info
    }

    pub fn remove(&mut self, process: &ProcessId) {
        self.processes.remove(process);
    }

    /// Removes processes that were not used for minutes: most have ended.
    pub fn remove_old(&mut self) {
        self.processes.retain(|_, info| info.read_at.elapsed() < REFRESH_AFTER * 5);
    }

    fn read_process(&mut self, owner: &Owner, stat: &Stat, process: &ProcDir) -> ProcessInfo {
        let invocation = invocation(process, stat, owner);
        let groups =
            process.read("cgroup").map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let service = match membership_of_process(&groups) {
            Some((membership, path)) => self.member(membership, path),
            None => {
                let invocation = if invocation.is_worker() { of_parent(stat, &invocation) } else { None }
                    .unwrap_or(invocation.clone());
                self.program(invocation.program(), true)
            }
        };
        ProcessInfo {
            service,
            comm: stat.comm.clone(),
            netns: process.netns(),
            proxy: Proxy::of(&invocation),
            reported_comm: owner.comm.clone(),
            read_at: Instant::now(),
        }
    }

    /// For a process that has ended, or of which only the cgroup is known.
    fn captured_process(&mut self, owner: &Owner) -> ProcessInfo {
        let path = owner.cgroup.and_then(|id| self.cgroups.path(id));
        let captured = owner.executable.as_ref().map(|executable| captured_invocation(executable, owner));
        let service = match path.and_then(|path| Some((membership(&path)?, path))) {
            Some((membership, path)) => self.member(membership, path),
            None => match &captured {
                Some(invocation) => self.program_by_file_name(invocation.program()),
                None if owner.comm.is_empty() => self.unknown(),
                None => self.short_name(&owner.comm),
            },
        };
        ProcessInfo {
            service,
            comm: owner.comm.clone(),
            netns: None,
            proxy: None,
            reported_comm: owner.comm.clone(),
            read_at: Instant::now(),
        }
    }

    /// The processes of a container or unit may run several programs, so the service has no executable.
    fn member(&mut self, membership: Membership, cgroup: String) -> Arc<Service> {
        let (kind, identity, name) = match &membership {
            Membership::Container { id, .. } => (ServiceKind::Container, id.clone(), self.containers.name(id)),
            Membership::Unit { name, user } => {
                let identity = user.iter().chain([name]).map(String::as_str).collect::<Vec<_>>().join("/");
                (ServiceKind::Unit, identity, name.trim_end_matches(".service").trim_end_matches(".scope").to_owned())
            }
        };
        let (container, pod, unit) = match membership {
            Membership::Container { id, pod } => (Some(id), pod, None),
            Membership::Unit { name, .. } => (None, None, Some(name)),
        };
        Arc::new(Service {
            key: ServiceKey::of(&self.host, kind, &identity),
            kind,
            name,
            executable: None,
            arguments: None,
            container,
            pod,
            unit,
            cgroup: Some(cgroup),
        })
    }

    /// `full_path`: the executable is a path, not only a file name.
    fn program(&mut self, mut program: Program, full_path: bool) -> Arc<Service> {
        let mut key = ServiceKey::of(&self.host, ServiceKind::Program, &program.identity());
        if !self.programs.contains(&key) {
            if self.programs.len() >= PROGRAMS_MAX {
                program.arguments = String::new();
                program.name = base_name(&program.executable).to_owned();
                key = ServiceKey::of(&self.host, ServiceKind::Program, &program.identity());
            } else {
                self.programs.insert(key.clone());
                if full_path {
                    let short = (base_name(&program.executable).to_owned(), program.arguments.clone());
                    self.paths.insert(short, program.executable.clone());
                }
            }
        }
        Arc::new(Service {
            key,
            kind: ServiceKind::Program,
            name: program.name,
            executable: Some(program.executable),
            arguments: Some(program.arguments),
            container: None,
            pod: None,
            unit: None,
            cgroup: None,
        })
    }

    /// A program of which only the file name of the executable is known. Uses the path of an observed program with
    /// equal name and arguments, if there is one.
    fn program_by_file_name(&mut self, mut program: Program) -> Arc<Service> {
        let short = (program.executable.clone(), program.arguments.clone());
        if let Some(path) = self.paths.get(&short) {
            program.executable = path.clone();
        }
        self.program(program, false)
    }

    fn short_name(&self, comm: &str) -> Arc<Service> {
        Arc::new(Service {
            key: ServiceKey::of(&self.host, ServiceKind::Program, &format!("\0{comm}")),
            kind: ServiceKind::Program,
            name: comm.to_owned(),
            ..(*self.unknown).clone()
        })
    }
}

/// The process of an owner, if it has not ended.
fn living(owner: &Owner) -> Option<(Stat, ProcDir)> {
    let process = ProcDir::open(owner.process.pid).ok()?;
    let stat = process.stat().ok().filter(|stat| stat.id == owner.process)?;
    Some((stat, process))
}

fn invocation(process: &ProcDir, stat: &Stat, owner: &Owner) -> Invocation {
    let path = |name: &str| process.link(name).ok().map(|path| path.to_string_lossy().into_owned());
    let arguments = process.read("cmdline").unwrap_or_default();
    let first = || {
        let first = String::from_utf8_lossy(arguments.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
        (!first.is_empty()).then_some(first)
    };
    // if the link is not readable, use the name by which it was started; a kernel thread has neither
    let executable = path("exe").or_else(|| owner.executable.clone()).or_else(first).unwrap_or(stat.comm.clone());
    let mut invocation = Invocation::new(&executable, &arguments, path("cwd"));
    if let Ok(running) = rustix::fs::statat(process.dir(), "exe", AtFlags::empty()) {
        let is_running = |path: &str| {
            std::fs::metadata(path).is_ok_and(|file| (file.dev(), file.ino()) == (running.st_dev, running.st_ino))
        };
        if let Some(path) = invocation.started_by(is_running) {
            invocation.executable = path;
        }
    }
    invocation
}

/// Of a process that has ended only the file name of its executable is known.
fn captured_invocation(executable: &str, owner: &Owner) -> Invocation {
    let mut invocation = Invocation::new(executable, owner.arguments.as_deref().unwrap_or_default(), None);
    let is_executable = |path: &str| {
        std::fs::canonicalize(path).is_ok_and(|path| path.file_name().is_some_and(|name| name == executable))
    };
    if let Some(path) = invocation.started_by(is_executable) {
        base_name(&path).clone_into(&mut invocation.executable);
    }
    invocation
}

/// The nearest ancestor that runs the same program and is not a worker.
fn of_parent(stat: &Stat, worker: &Invocation) -> Option<Invocation> {
    const DEPTH_MAX: usize = 8;
    let mut parent = stat.parent;
    let unknown_owner =
        Owner { process: stat.id, comm: String::new(), cgroup: None, executable: None, arguments: None };
    for _ in 0..DEPTH_MAX {
        let process = ProcDir::open(parent).ok()?;
        let stat = process.stat().ok()?;
        let candidate = invocation(&process, &stat, &unknown_owner);
        if candidate.executable != worker.executable {
            return None;
        }
        if !candidate.is_worker() {
            return Some(candidate);
        }
        parent = stat.parent;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn services() -> Services {
        Services::new(&HostId("h".into()), "here")
    }

    fn ended(pid: u32, comm: &str, executable: Option<&str>, arguments: &[u8]) -> Owner {
        Owner {
            // no living process has this start time
            process: ProcessId { pid, start_ticks: u64::MAX },
            comm: comm.into(),
            cgroup: None,
            executable: executable.map(str::to_owned),
            arguments: (!arguments.is_empty()).then(|| arguments.to_vec()),
        }
    }

    fn this_process() -> Owner {
        let stat = ProcDir::open(std::process::id()).unwrap().stat().unwrap();
        Owner { process: stat.id, comm: stat.comm, cgroup: None, executable: None, arguments: None }
    }

    #[test]
    fn a_living_process_is_read_from_proc() {
        let info = services().of(&this_process());
        assert_eq!(info.netns, crate::namespaces::own().ok());
        assert!(info.service.executable.as_ref().is_some_and(|path| path.contains("sockets")), "{info:?}");
    }

    #[test]
    fn an_ended_process_is_identified_by_captured_data() {
        let mut services = services();
        let one = services.of(&ended(1, "curl", Some("curl"), b"curl\0http://cart:7003/items?user=7\0"));
        let two = services.of(&ended(2, "curl", Some("curl"), b"curl\0http://cart:7004/items?user=8\0"));
        assert_eq!((one.service.name.as_str(), one.netns), ("curl", None));
        assert_eq!(one.service.key, two.service.key);
        let short = services.of(&ended(3, "a b\nc", None, b""));
        assert_eq!((short.service.name.as_str(), &short.service.executable), ("a b\nc", &None));
        assert_eq!(services.of(&ended(4, "", None, b"")).service.kind, ServiceKind::Host);
    }

    #[test]
    fn a_file_name_matches_the_observed_path() {
        let mut services = services();
        let line = b"curl\0http://cart/\0";
        let observed = services.program(Invocation::new("/usr/bin/curl", line, None).program(), true);
        let captured = services.of(&ended(2, "curl", Some("curl"), line));
        assert_eq!(observed.key, captured.service.key);
        let other = services.of(&ended(3, "curl", Some("curl"), b"curl\0http://ads/\0"));
        assert_ne!(observed.key, other.service.key);
    }

    /// Debian's `redis-server` is a link to `redis-check-rdb`.
    #[test]
    fn a_program_is_named_by_the_link_that_started_it() {
        let directory = std::env::temp_dir().join(format!("faultloom-link-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (file, link) = (directory.join("key-check"), directory.join("key-server"));
        std::fs::copy("/bin/sleep", &file).unwrap();
        std::os::unix::fs::symlink("key-check", &link).unwrap();
        let mut services = services();
        let mut name_of = |command: &mut std::process::Command| {
            let mut child = command.arg("1000").spawn().unwrap();
            let arguments = format!("/proc/{}/cmdline", child.id());
            while !std::fs::read(&arguments).unwrap().starts_with(b"key-") {
                std::thread::yield_now();
            }
            let stat = ProcDir::open(child.id()).unwrap().stat().unwrap();
            let executable = Some("key-check".to_owned());
            let owner = Owner { process: stat.id, comm: stat.comm, cgroup: None, executable, arguments: None };
            let name = services.of(&owner).service.name.clone();
            child.kill().unwrap();
            child.wait().unwrap();
            name
        };
        use std::os::unix::process::CommandExt;
        assert_eq!(name_of(std::process::Command::new(&link).arg0("key-server")), "key-server");
        assert_eq!(name_of(std::process::Command::new(&file).arg0("key-check")), "key-check");
        assert_eq!(name_of(std::process::Command::new(&file).arg0("key-other")), "key-check", "not a link to it");
        std::fs::remove_dir_all(directory).unwrap();
    }

    /// A file scan captures no arguments, so the captured data of this process would be another service.
    #[test]
    fn an_ended_process_keeps_the_service_that_was_read() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        // `spawn` may return before the kernel has set the arguments
        let arguments = format!("/proc/{}/cmdline", child.id());
        while std::fs::read(&arguments).unwrap().is_empty() {
            std::thread::yield_now();
        }
        let stat = ProcDir::open(child.id()).unwrap().stat().unwrap();
        let executable = Some(stat.comm.clone());
        let owner = Owner { process: stat.id, comm: stat.comm, cgroup: None, executable, arguments: None };
        let mut services = services();
        let alive = services.of(&owner);
        child.kill().unwrap();
        child.wait().unwrap();
        services.processes.get_mut(&owner.process).unwrap().read_at = Instant::now() - 2 * REFRESH_AFTER;
        assert_eq!(services.of(&owner).service.key, alive.service.key);
        services.remove(&owner.process);
        assert_ne!(services.of(&owner).service.key, alive.service.key);
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let mut services = services();
        let mut owner = this_process();
        let alive = services.of(&owner);
        owner.process.start_ticks += 1;
        owner.executable = Some("other".into());
        assert_ne!(services.of(&owner).service.key, alive.service.key);
    }

    #[test]
    fn programs_beyond_the_limit_share_a_service() {
        let mut services = services();
        let word = |n: u32| -> String { n.to_string().bytes().map(|b| char::from(b + 49)).collect() };
        for n in 0..PROGRAMS_MAX as u32 + 500 {
            let line = format!("fetch\0{}\0", word(n));
            services.of(&ended(n + 1, "fetch", Some("fetch"), line.as_bytes()));
        }
        let late = |services: &mut Services, word: &str| {
            services.of(&ended(9, "fetch", Some("fetch"), format!("fetch\0{word}\0").as_bytes())).service
        };
        services.processes.clear();
        let one = late(&mut services, "newest");
        services.processes.clear();
        assert_eq!(one.key, late(&mut services, "newer").key);
        assert_eq!(services.programs.len(), PROGRAMS_MAX);
    }
}
