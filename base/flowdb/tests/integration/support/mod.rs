//! Test windows in the format of agents, and the databases for the contract tests.

pub mod database;
#[cfg(feature = "postgres")]
pub mod postgres;

use flowdb::FlowDb;
use flows::{
    Attribution, Counts, Flow, Host, HostAddress, HostId, Link, ListenAddress, Listener, Losses, Process, ProcessId,
    Protocol, Service, ServiceKey, ServiceKind, Side, Source, Window,
};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use uuid::Uuid;

/// 2026-01-01 00:00 UTC, the start of an hour.
pub const T0: i64 = 1_767_225_600_000;
pub const SECOND: i64 = 1000;
pub const MINUTE: i64 = 60 * SECOND;
pub const HOUR: i64 = 60 * MINUTE;
pub const DAY: i64 = 24 * HOUR;

/// Reports a test that cannot run. Bypasses the output capture of the test runner; `make test` counts it.
pub fn skipped(why: &str) {
    let test = std::thread::current();
    let _ = writeln!(std::io::stdout(), "skipped: {}: {why}", test.name().unwrap_or("?"));
}

/// A temporary directory, deleted on drop.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("faultloom-flowdb-{name}-{}-{count}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

/// A host with an agent: its web server on port 80 depends on a database on port 5432 of another host.
pub struct Agent {
    pub run: Uuid,
    pub host: Host,
    pub web: Service,
    pub number: u8,
    sequence: u64,
}

pub fn service(host: &HostId, kind: ServiceKind, name: &str) -> Service {
    Service {
        key: ServiceKey::of(host, kind, name),
        kind,
        name: name.to_owned(),
        executable: Some(format!("/usr/sbin/{name}")),
        arguments: Some("-g *".to_owned()),
        container: None,
        pod: None,
        unit: Some(format!("{name}.service")),
        cgroup: None,
    }
}

pub fn instance(pid: u32) -> ProcessId {
    ProcessId { pid, start_ticks: u64::from(pid) * 100 }
}

impl Agent {
    /// Agents of different numbers are on different hosts: `10.0.0.NUMBER`.
    pub fn new(number: u8) -> Agent {
        let id = HostId(format!("host-{number}"));
        let addresses = vec![HostAddress { netns: 4_026_531_840, ip: [10, 0, 0, number].into() }];
        let web = service(&id, ServiceKind::Unit, "nginx");
        let host = Host { id, name: format!("web-{number}"), boot: "boot-1".to_owned(), addresses };
        Agent { run: Uuid::now_v7(), host, web, number, sequence: 0 }
    }

    /// The next window, without flows.
    pub fn window(&mut self, from_ms: i64) -> Window {
        self.sequence += 1;
        Window {
            agent: self.run,
            sequence: self.sequence,
            from_ms,
            to_ms: from_ms + SECOND,
            host: self.host.clone(),
            source: Source::Ebpf,
            services: vec![self.web.clone()],
            processes: vec![],
            listeners: None,
            flows: vec![],
            losses: Losses::default(),
        }
    }

    /// A window with connections to the web server, and from it to the database at `10.0.0.TO`.
    pub fn busy(&mut self, from_ms: i64, to: u8) -> Window {
        let mut window = self.window(from_ms);
        let (service, netns) = (self.web.key.clone(), 4_026_531_840);
        window.processes = vec![Process { id: instance(7), service, netns, comm: "nginx".to_owned() }];
        window.listeners = Some(vec![self.listener("0.0.0.0", 80)]);
        window.flows = vec![
            self.flow(Side::Passive, &format!("10.0.9.{}", self.number), &format!("10.0.0.{}", self.number), 80),
            self.flow(Side::Active, &format!("10.0.0.{}", self.number), &format!("10.0.0.{to}"), 5432),
        ];
        window
    }

    pub fn listener(&self, ip: &str, port: u16) -> Listener {
        let at = ListenAddress::Inet { ip: ip.parse().unwrap(), port };
        Listener { service: self.web.key.clone(), netns: 4_026_531_840, protocol: Protocol::Tcp, at }
    }

    pub fn flow(&self, side: Side, active: &str, passive: &str, port: u16) -> Flow {
        let link = Link {
            protocol: Protocol::Tcp,
            active: Some(active.parse().unwrap()),
            passive: ListenAddress::Inet { ip: passive.parse().unwrap(), port },
        };
        Flow {
            side,
            service: self.web.key.clone(),
            process: Some(instance(7)),
            netns: 4_026_531_840,
            link,
            translated: None,
            source: Source::Ebpf,
            attribution: Attribution::Exact,
            counts: Counts { opened: 3, established: 2, failed: 1, closed: 2, open: 1, sent: 100, received: 2000 },
        }
    }
}

/// All windows of the tests.
pub async fn all(flowdb: &FlowDb) -> flows::Slice {
    flowdb.slice(T0 - HOUR, T0 + DAY).await.unwrap()
}
