//! Services of processes, remembered while the processes live.
//!
//! A process is looked at once, and again when its short name changes or a minute has passed, because it may have become
//! another program by `exec` without becoming another process. One that has ended before it was looked at is known by what
//! the kernel told of it: its cgroup, executable and arguments, or else by its short name alone; `Service::executable` is
//! then none.

use super::cgroup::{Membership, membership, membership_of_process};
use super::cgroups::Cgroups;
use super::container::ContainerNames;
use super::procfs::{ProcessFolder, Stat};
use super::program::{Invocation, Program, base_name};
use super::proxy::Proxy;
use crate::Owner;
use flows::{HostId, Instance, Service, ServiceKey, ServiceKind};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MOST_PROCESSES: usize = 65_536;
/// Programs with different arguments. Beyond it, services are told apart by their executable alone.
const MOST_PROGRAMS: usize = 10_000;
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// A process, as far as it could be known.
#[derive(Clone, Debug)]
pub struct Known {
    pub service: Arc<Service>,
    pub comm: String,
    /// None: it had ended before it was looked at.
    pub netns: Option<u64>,
    pub proxy: Option<Proxy>,
    told_comm: String,
    looked: Instant,
}

pub struct Services {
    host: HostId,
    processes: HashMap<Instance, Known>,
    programs: HashSet<ServiceKey>,
    /// Full paths of executables by file name and arguments, for processes of which only the name is known.
    paths: HashMap<(String, String), String>,
    cgroups: Cgroups,
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
            cgroups: Cgroups::of_this_host(),
            containers: ContainerNames::below("/"),
            unknown: Arc::new(unknown),
        }
    }

    /// Stands for flows nobody is known for.
    pub fn unknown(&self) -> Arc<Service> {
        Arc::clone(&self.unknown)
    }

    /// Whose it is. An owner with pid 0 is known by its cgroup only.
    pub fn of(&mut self, owner: &Owner) -> Known {
        if let Some(known) = self.processes.get(&owner.instance)
            && known.told_comm == owner.comm
            && known.looked.elapsed() < LOOK_AGAIN_AFTER
        {
            return known.clone();
        }
        let known = self.look(owner);
        if owner.instance.pid != 0 {
            if self.processes.len() >= MOST_PROCESSES {
                self.processes.clear();
            }
            self.processes.insert(owner.instance, known.clone());
        }
        known
    }

    pub fn forget(&mut self, instance: &Instance) {
        self.processes.remove(instance);
    }

    /// Forgets processes that were not seen for minutes: most have ended.
    pub fn forget_old(&mut self) {
        self.processes.retain(|_, known| known.looked.elapsed() < LOOK_AGAIN_AFTER * 5);
    }

    fn look(&mut self, owner: &Owner) -> Known {
        let living = ProcessFolder::open(owner.instance.pid)
            .ok()
            .and_then(|process| Some((process.stat().ok().filter(|stat| stat.instance == owner.instance)?, process)));
        match living {
            Some((stat, process)) => self.look_at(owner, &stat, &process),
            None => self.recall(owner),
        }
    }

    fn look_at(&mut self, owner: &Owner, stat: &Stat, process: &ProcessFolder) -> Known {
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
        Known {
            service,
            comm: stat.comm.clone(),
            netns: process.netns(),
            proxy: Proxy::of(&invocation),
            told_comm: owner.comm.clone(),
            looked: Instant::now(),
        }
    }

    /// Of a process that has ended, or of which only the cgroup is known.
    fn recall(&mut self, owner: &Owner) -> Known {
        let path = owner.cgroup.and_then(|id| self.cgroups.path(id));
        let told = owner
            .executable
            .as_ref()
            .map(|executable| Invocation::new(executable, owner.arguments.as_deref().unwrap_or_default(), None));
        let service = match path.and_then(|path| Some((membership(&path)?, path))) {
            Some((membership, path)) => self.member(membership, path),
            None => match &told {
                Some(invocation) => self.told_program(invocation.program()),
                None if owner.comm.is_empty() => self.unknown(),
                None => self.short_name(&owner.comm),
            },
        };
        Known {
            service,
            comm: owner.comm.clone(),
            netns: None,
            proxy: None,
            told_comm: owner.comm.clone(),
            looked: Instant::now(),
        }
    }

    /// Processes of one container or unit may run several programs, so none of them is named.
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

    /// `whole_path`: the executable is a path and not just a file name.
    fn program(&mut self, mut program: Program, whole_path: bool) -> Arc<Service> {
        let mut key = ServiceKey::of(&self.host, ServiceKind::Program, &program.identity());
        if !self.programs.contains(&key) {
            if self.programs.len() >= MOST_PROGRAMS {
                program.arguments = String::new();
                program.name = base_name(&program.executable).to_owned();
                key = ServiceKey::of(&self.host, ServiceKind::Program, &program.identity());
            } else {
                self.programs.insert(key.clone());
                if whole_path {
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

    /// A program of which the kernel told the executable's name without its folder: it is the one that was seen with
    /// equal name and arguments, if any was.
    fn told_program(&mut self, mut program: Program) -> Arc<Service> {
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

fn invocation(process: &ProcessFolder, stat: &Stat, owner: &Owner) -> Invocation {
    let path = |name: &str| process.link(name).ok().map(|path| path.to_string_lossy().into_owned());
    let arguments = process.read("cmdline").unwrap_or_default();
    let first = || {
        let first = String::from_utf8_lossy(arguments.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
        (!first.is_empty()).then_some(first)
    };
    // without the right to read the link, the name it was started by; a thread of the kernel has neither
    let executable = path("exe").or_else(|| owner.executable.clone()).or_else(first).unwrap_or(stat.comm.clone());
    Invocation::new(&executable, &arguments, path("cwd"))
}

/// The nearest ancestor that runs the same program and is no worker itself.
fn of_parent(stat: &Stat, worker: &Invocation) -> Option<Invocation> {
    const DEEPEST: usize = 8;
    let mut parent = stat.parent;
    let nobody =
        Owner { instance: stat.instance, comm: String::new(), cgroup: None, executable: None, arguments: None };
    for _ in 0..DEEPEST {
        let process = ProcessFolder::open(parent).ok()?;
        let stat = process.stat().ok()?;
        let candidate = invocation(&process, &stat, &nobody);
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

    fn gone(pid: u32, comm: &str, executable: Option<&str>, arguments: &[u8]) -> Owner {
        Owner {
            // no process started before the machine did
            instance: Instance { pid, start_ticks: u64::MAX },
            comm: comm.into(),
            cgroup: None,
            executable: executable.map(str::to_owned),
            arguments: (!arguments.is_empty()).then(|| arguments.to_vec()),
        }
    }

    fn this_process() -> Owner {
        let stat = ProcessFolder::open(std::process::id()).unwrap().stat().unwrap();
        Owner { instance: stat.instance, comm: stat.comm, cgroup: None, executable: None, arguments: None }
    }

    #[test]
    fn a_living_process_is_known_by_what_proc_tells() {
        let known = services().of(&this_process());
        assert_eq!(known.netns, crate::namespaces::own().ok());
        assert!(known.service.executable.as_ref().is_some_and(|path| path.contains("sockets")), "{known:?}");
    }

    #[test]
    fn a_process_that_has_ended_is_known_by_what_the_kernel_told() {
        let mut services = services();
        let one = services.of(&gone(1, "curl", Some("curl"), b"curl\0http://cart:7003/items?user=7\0"));
        let two = services.of(&gone(2, "curl", Some("curl"), b"curl\0http://cart:7004/items?user=8\0"));
        assert_eq!((one.service.name.as_str(), one.netns), ("curl", None));
        assert_eq!(one.service.key, two.service.key);
        let short = services.of(&gone(3, "a b\nc", None, b""));
        assert_eq!((short.service.name.as_str(), &short.service.executable), ("a b\nc", &None));
        assert_eq!(services.of(&gone(4, "", None, b"")).service.kind, ServiceKind::Host);
    }

    #[test]
    fn a_short_executable_is_the_one_seen_with_its_path() {
        let mut services = services();
        let line = b"curl\0http://cart/\0";
        let seen = services.program(Invocation::new("/usr/bin/curl", line, None).program(), true);
        let ended = services.of(&gone(2, "curl", Some("curl"), line));
        assert_eq!(seen.key, ended.service.key);
        let other = services.of(&gone(3, "curl", Some("curl"), b"curl\0http://ads/\0"));
        assert_ne!(seen.key, other.service.key);
    }

    #[test]
    fn the_same_pid_at_another_time_is_another_process() {
        let mut services = services();
        let mut owner = this_process();
        let living = services.of(&owner);
        owner.instance.start_ticks += 1;
        owner.executable = Some("other".into());
        assert_ne!(services.of(&owner).service.key, living.service.key);
    }

    #[test]
    fn endless_arguments_end_in_one_service() {
        let mut services = services();
        let word = |n: u32| -> String { n.to_string().bytes().map(|b| char::from(b + 49)).collect() };
        for n in 0..MOST_PROGRAMS as u32 + 500 {
            let line = format!("fetch\0{}\0", word(n));
            services.of(&gone(n + 1, "fetch", Some("fetch"), line.as_bytes()));
        }
        let late = |services: &mut Services, word: &str| {
            services.of(&gone(9, "fetch", Some("fetch"), format!("fetch\0{word}\0").as_bytes())).service
        };
        services.processes.clear();
        let one = late(&mut services, "newest");
        services.processes.clear();
        assert_eq!(one.key, late(&mut services, "newer").key);
        assert_eq!(services.programs.len(), MOST_PROGRAMS);
    }
}
