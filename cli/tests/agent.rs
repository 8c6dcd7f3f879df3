//! The host's daemon with real connections: none is missed or counted twice, even if the agent or its stores fail.

use crate::support::{Completed, Home, Started, skipped, wait_for};
use flowdb::FlowDb;
use flows::{Attribution, Flow, ListenAddress, Side, Window};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether programs can be loaded into this kernel; otherwise the test is counted as skipped.
fn can_ebpf() -> bool {
    let can = is_root() && Path::new("/sys/kernel/btf/vmlinux").exists();
    if !can {
        skipped("counting in the kernel needs root and a kernel with BTF");
    }
    can
}

/// An agent with its own state directory and lock, so that tests can run in parallel.
struct Agent {
    started: Started,
    state: PathBuf,
}

fn arguments<'a>(home: &'a Home, more: &[&'a str]) -> Vec<String> {
    let lock = format!("faultloom-test-{}", home.path.display());
    let mut arguments =
        vec!["agent".to_owned(), "--state".into(), "state".into(), "--lock".into(), lock, "--json".into()];
    arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
    arguments
}

impl Agent {
    /// Returns after the first window.
    fn start(home: &Home, more: &[&str]) -> Agent {
        let state = home.file("state");
        let _ = std::fs::remove_file(state.join("agent.prom"));
        let arguments = arguments(home, more);
        let mut started = home.start(&arguments.iter().map(String::as_str).collect::<Vec<&str>>());
        wait_for("the first window", || {
            assert!(!started.has_ended(), "{}", started.err_so_far());
            state.join("agent.prom").exists().then_some(())
        });
        Agent { started, state }
    }

    fn windows(&self) -> Vec<Window> {
        windows(&self.started.out_so_far())
    }

    /// Opened connections to a port, as recorded so far.
    fn opened(&self, port: u16) -> u64 {
        self.windows().iter().flat_map(|w| &w.flows).filter(|f| is_active_to(f, port)).map(|f| f.counts.opened).sum()
    }

    fn stop(self, signal: &str) -> Completed {
        self.started.signal(signal);
        self.started.wait()
    }

    /// Without a clean end.
    fn kill(self) -> PathBuf {
        self.started.signal("KILL");
        self.started.wait();
        self.state
    }
}

/// The complete lines of the output of an agent that may still be writing.
fn windows(output: &str) -> Vec<Window> {
    let complete = output.rfind('\n').map_or("", |end| &output[..end]);
    complete.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn is_to(flow: &Flow, port: u16) -> bool {
    matches!(flow.link.passive, ListenAddress::Inet { port: p, .. } if p == port)
}

fn is_active_to(flow: &Flow, port: u16) -> bool {
    flow.side == Side::Active && is_to(flow, port)
}

/// Opened and open connections to a port in the database of a state directory, as observed by the active side.
fn stored(state: &Path, port: u16) -> (u64, u64) {
    recorded(&state.join("map.db").to_string_lossy(), port).unwrap()
}

/// None: there is no such database yet, or it is not ready.
fn recorded(database: &str, port: u16) -> Option<(u64, u64)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let slice = runtime.block_on(async { FlowDb::read(database).await.ok()?.slice(0, i64::MAX / 2).await.ok() });
    let slice = slice?;
    let flows = slice.hosts.iter().flat_map(|host| &host.flows).filter(|flow| is_active_to(flow, port));
    Some(flows.fold((0, 0), |(opened, open), flow| (opened + flow.counts.opened, open + flow.counts.open)))
}

/// A server in this process that echoes one byte per connection.
struct Server {
    port: u16,
}

impl Server {
    fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut byte = [0];
                if stream.read(&mut byte).is_ok_and(|n| n == 1) {
                    let _ = stream.write_all(&byte);
                }
                // keep the connection open until the client closes it
                if byte == *b"k" {
                    held.push(stream);
                }
            }
        });
        Server { port }
    }

    fn connect(&self, byte: u8) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(&[byte]).unwrap();
        stream.read_exact(&mut [0]).unwrap();
        stream
    }

    fn connect_shortly(&self, count: usize) {
        (0..count).for_each(|_| drop(self.connect(b's')));
    }
}

#[test]
fn a_restart_after_a_kill_counts_nothing_twice() {
    if !can_ebpf() {
        return;
    }
    let home = Home::new("agent-kill");
    let server = Server::start();
    let agent = Agent::start(&home, &["--mode", "ebpf", "--interval", "100ms"]);
    server.connect_shortly(50);
    let open: Vec<TcpStream> = (0..7).map(|_| server.connect(b'k')).collect();
    wait_for("57 connections", || (agent.opened(server.port) == 57).then_some(()));
    wait_for("57 connections in the store", || (stored(&agent.state, server.port) == (57, 7)).then_some(()));
    agent.kill();
    // while no agent runs
    server.connect_shortly(30);
    let agent = Agent::start(&home, &["--mode", "ebpf", "--interval", "100ms"]);
    server.connect_shortly(20);
    let state = agent.state.clone();
    let ran = agent.stop("TERM").exits(0);
    let last =
        windows(&ran.out).into_iter().rev().find(|w| w.flows.iter().any(|f| is_active_to(f, server.port))).unwrap();
    let flow = last.flows.iter().filter(|f| is_active_to(f, server.port));
    assert_eq!(flow.map(|f| f.counts.open).sum::<u64>(), 7, "connections from before count as open");
    assert_eq!(stored(&state, server.port), (77, 7));
    drop(open);
}

#[test]
fn the_last_window_contains_the_connections_until_the_end() {
    if !can_ebpf() {
        return;
    }
    let home = Home::new("agent-end");
    let server = Server::start();
    for signal in ["INT", "TERM"] {
        let agent = Agent::start(&home, &["--mode", "ebpf", "--interval", "1h"]);
        let before = agent.opened(server.port);
        server.connect_shortly(25);
        let ran = agent.stop(signal).exits(0);
        let windows = windows(&ran.out);
        let flows: Vec<&Flow> =
            windows.iter().flat_map(|w| &w.flows).filter(|f| is_active_to(f, server.port)).collect();
        assert_eq!(flows.iter().map(|f| f.counts.opened).sum::<u64>() - before, 25);
        assert!(flows.iter().all(|f| f.attribution == Attribution::Exact));
        assert!(windows.windows(2).all(|pair| pair[0].sequence + 1 == pair[1].sequence));
    }
}

#[test]
fn a_second_agent_of_a_host_is_refused() {
    let home = Home::new("agent-two");
    let agent = Agent::start(&home, &["--mode", "tuples"]);
    let mut second = arguments(&home, &["--mode", "tuples"]);
    second[2] = "other".to_owned();
    let ran = home.run(&second.iter().map(String::as_str).collect::<Vec<&str>>()).exits(3);
    assert!(ran.err.contains("an agent is already running on this host"), "{}", ran.err);
    assert!(ran.err.contains(&format!("it is process {}", agent.started.child.id())), "{}", ran.err);
    assert!(!home.file("other").exists(), "it was refused before it created anything");
    agent.stop("TERM").exits(0);
    // the lock is free again
    Agent::start(&home, &["--mode", "tuples"]).stop("TERM").exits(0);
}

#[test]
fn counters_are_written_to_a_file() {
    let home = Home::new("agent-counters");
    let agent = Agent::start(&home, &["--mode", "tuples", "--interval", "50ms"]);
    let counter = |name: &str| {
        let text = std::fs::read_to_string(agent.state.join("agent.prom")).unwrap();
        let line = text.lines().find_map(|l| l.strip_prefix(name)).unwrap_or_else(|| panic!("{name} in {text}"));
        line.trim().parse::<f64>().unwrap()
    };
    wait_for("windows", || (counter("faultloom_agent_windows_total") > 3.0).then_some(()));
    assert_eq!(counter("faultloom_agent_failures_total{part=\"store\"}"), 0.0);
    agent.stop("TERM").exits(0);
}

#[test]
fn once_prints_one_window() {
    let home = Home::new("agent-once");
    let server = Server::start();
    let _open = server.connect(b'k');
    let all = arguments(&home, &["--mode", "polling", "--once", "--interval", "100ms"]);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let ran = home.run(&all).exits(0);
    assert_eq!(windows(&ran.out).len(), 1);
    let plain: Vec<&str> = all.into_iter().filter(|w| *w != "--json").collect();
    let ran = home.run(&plain).exits(0);
    let line = ran.out.lines().find(|l| l.contains(&format!("127.0.0.1:{}", server.port)) && l.contains('→'));
    assert!(line.is_some_and(|l| l.split_whitespace().rev().nth(2) == Some("1")), "{}", ran.out);
    assert!(ran.out.contains("source polling"), "{}", ran.out);
}

/// Runs the command that follows as a user without capabilities.
const NOBODY: [&str; 5] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"];

/// Runs the agent as a user without capabilities.
fn as_nobody(home: &Home, more: &[&str]) -> Option<Completed> {
    if !is_root() {
        skipped("becoming another user needs root");
        return None;
    }
    let state = home.file("state");
    std::fs::create_dir_all(&state).unwrap();
    let changed = Command::new("chown").arg("65534:65534").arg(&state).status().unwrap();
    assert!(changed.success());
    let mut command = Command::new(NOBODY[0]);
    command.args(&NOBODY[1..]).arg(env!("CARGO_BIN_EXE_faultloom"));
    let ours = arguments(home, more);
    Some(
        Started::new({
            command.args(ours).current_dir(&home.path);
            command
        })
        .wait(),
    )
}

#[test]
fn without_capabilities_it_names_the_missing_ones_and_uses_what_is_permitted() {
    let home = Home::new("agent-nobody");
    let Some(ran) = as_nobody(&home, &["--mode", "ebpf", "--once"]) else { return };
    let ran = ran.exits(3);
    assert!(ran.err.contains("CAP_BPF") && ran.err.contains("CAP_PERFMON"), "{}", ran.err);
    let Some(ran) = as_nobody(&home, &["--mode", "polling", "--once"]) else { return };
    let ran = ran.exits(3);
    assert!(ran.err.contains("CAP_SYS_PTRACE") && ran.err.contains("CAP_DAC_READ_SEARCH"), "{}", ran.err);
    // without --mode it uses the best permitted source, which every flow names
    let server = Server::start();
    let _open = server.connect(b'k');
    let Some(ran) = as_nobody(&home, &["--once", "--interval", "100ms"]) else { return };
    let ran = ran.exits(0).says("source of connections: tuples").says("not ebpf: ").says("not polling: ");
    let windows = windows(&ran.out);
    let open = windows[0].flows.iter().filter(|f| is_active_to(f, server.port)).map(|f| f.counts.open).sum::<u64>();
    assert_eq!(open, 1);
    assert!(windows[0].flows.iter().all(|f| f.source == flows::Source::Tuples));
}

/// Runs the command as root in a mount namespace in which a part of the system is hidden.
fn hiding(mount: &str, home: &Home, arguments: &[&str]) -> Option<Completed> {
    if !is_root() {
        skipped("hiding a part of the system needs root");
        return None;
    }
    let mut command = Command::new("unshare");
    let script = format!("{mount} && exec \"$@\"");
    command.args(["--mount", "sh", "-c", &script, "sh"]).args(arguments).current_dir(&home.path);
    Some(Started::new(command).wait())
}

#[test]
fn without_kernel_types_it_polls_and_reports_why() {
    let home = Home::new("agent-types");
    let faultloom = env!("CARGO_BIN_EXE_faultloom");
    let server = Server::start();
    let _open = server.connect(b'k');
    let once = arguments(&home, &["--once", "--interval", "100ms"]);
    let arguments: Vec<&str> = std::iter::once(faultloom).chain(once.iter().map(String::as_str)).collect();
    let Some(ran) = hiding("mount -t tmpfs none /sys/kernel/btf", &home, &arguments) else { return };
    let ran = ran.exits(0).says("source of connections: polling").says("CONFIG_DEBUG_INFO_BTF");
    let open =
        windows(&ran.out)[0].flows.iter().filter(|f| is_active_to(f, server.port)).map(|f| f.counts.open).sum::<u64>();
    assert_eq!(open, 1);
}

#[test]
fn with_hidden_processes_it_records_addresses_only_and_reports_why() {
    let home = Home::new("agent-hidden");
    let faultloom = env!("CARGO_BIN_EXE_faultloom");
    std::fs::create_dir_all(home.file("state")).unwrap();
    std::os::unix::fs::chown(home.file("state"), Some(65534), Some(65534)).unwrap_or_default();
    let server = Server::start();
    let _open = server.connect(b'k');
    let once = arguments(&home, &["--once", "--interval", "100ms"]);
    let arguments: Vec<&str> = NOBODY.into_iter().chain([faultloom]).chain(once.iter().map(String::as_str)).collect();
    let Some(ran) = hiding("mount -t proc -o hidepid=2 proc /proc", &home, &arguments) else { return };
    let ran = ran.exits(0).says("source of connections: tuples").says("hidepid");
    let windows = windows(&ran.out);
    let flows: Vec<_> = windows[0].flows.iter().filter(|f| is_active_to(f, server.port)).collect();
    assert_eq!(flows.iter().map(|f| f.counts.open).sum::<u64>(), 1);
    assert!(flows.iter().all(|f| f.process.is_none()), "{flows:?}");
}

/// Root in a nested PID namespace has no other user to become: the reason is the namespace.
#[test]
fn in_a_nested_pid_namespace_the_advice_is_about_the_namespace() {
    if !is_root() {
        return skipped("a PID namespace needs root");
    }
    let home = Home::new("agent-nested");
    let server = Server::start();
    let _open = server.connect(b'k');
    let nested = |arguments: &[String]| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", env!("CARGO_BIN_EXE_faultloom")]);
        Started::new({
            command.args(arguments).current_dir(&home.path);
            command
        })
        .wait()
    };
    for mode in ["ebpf", "polling"] {
        let ran = nested(&arguments(&home, &["--once", "--interval", "100ms", "--mode", mode])).exits(3);
        assert!(ran.err.contains("--pid=host"), "{}", ran.err);
        assert!(!ran.err.contains("as root"), "{}", ran.err);
    }
    // the processes of the host are not visible, their connections are
    let ran = nested(&arguments(&home, &["--once", "--interval", "100ms"])).exits(0);
    let ran = ran.says("source of connections: tuples").says("not ebpf: ").says("--pid=host");
    assert!(!ran.err.contains("as root"), "{}", ran.err);
    let windows = windows(&ran.out);
    let flows = windows[0].flows.iter().filter(|f| is_active_to(f, server.port));
    assert_eq!(flows.map(|f| f.counts.open).sum::<u64>(), 1);
    let ran = nested(&["map", "--now"].map(str::to_owned)).exits(0);
    assert!(ran.out.contains("--pid=host") && !ran.out.contains("as root"), "{}", ran.out);
}

#[test]
fn unneeded_capabilities_are_dropped() {
    if !can_ebpf() {
        return;
    }
    let home = Home::new("agent-capabilities");
    let agent = Agent::start(&home, &["--mode", "ebpf"]);
    let pid = agent.started.child.id();
    let kill = 1u64 << 5;
    let setuid = 1u64 << 7;
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let permitted = status.lines().find_map(|l| l.strip_prefix("CapPrm:")).unwrap();
        let permitted = u64::from_str_radix(permitted.trim(), 16).unwrap();
        assert_eq!(permitted & (kill | setuid), 0, "a thread still has {permitted:x}");
    }
    agent.stop("TERM").exits(0);
}

#[test]
fn the_privileged_process_listens_on_no_port() {
    let home = Home::new("agent-quiet");
    let agent = Agent::start(&home, &["--interval", "100ms"]);
    let pid = agent.started.child.id();
    wait_for("some windows", || (agent.windows().len() > 2).then_some(()));
    let ours: Vec<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok())
        .filter_map(|to| Some(to.to_string_lossy().strip_prefix("socket:[")?.trim_end_matches(']').to_owned()))
        .collect();
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        let text = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap();
        for line in text.lines().skip(1) {
            let inode = line.split_whitespace().nth(9).unwrap();
            assert!(!ours.iter().any(|own| own == inode), "{table}: {line}");
        }
    }
    agent.stop("TERM").exits(0);
}

#[test]
#[cfg(feature = "postgres")]
fn the_fleets_store_has_everything_after_an_outage_and_a_kill() {
    if !can_ebpf() {
        return;
    }
    let Some(mut cluster) = crate::postgres::Cluster::own("agent") else { return };
    let database = cluster.database("fleet");
    let home = Home::new("agent-fleet");
    let server = Server::start();
    let start = || Agent::start(&home, &["--mode", "ebpf", "--interval", "50ms", "--database", &database]);
    let agent = start();
    server.connect_shortly(10);
    wait_for("the first connections", || (agent.opened(server.port) == 10).then_some(()));
    wait_for("the first connections in the fleet's store", || {
        (recorded(&database, server.port)?.0 == 10).then_some(())
    });
    cluster.down();
    server.connect_shortly(10);
    wait_for("the message about the outage", || agent.started.err_so_far().contains("stay in the spool").then_some(()));
    wait_for("connections during the outage", || (agent.opened(server.port) == 20).then_some(()));
    agent.kill();
    let agent = start();
    server.connect_shortly(10);
    wait_for("connections of the next agent", || (agent.opened(server.port) == 10).then_some(()));
    cluster.up();
    wait_for("all connections in the fleet's store", || (recorded(&database, server.port)?.0 == 30).then_some(()));
    let ran = agent.stop("TERM").exits(0);
    assert!(!ran.err.contains("remain in the spool"), "{}", ran.err);
    assert_eq!(recorded(&database, server.port).unwrap().0, 30, "none is counted twice");
    let at = format!(":{}", server.port);
    home.run(&["map", &at, "--database", &database, "--by", "process"]).exits(0).says(&at);
    home.run(&["map", &at, "--database", &database, "--json"]).exits(0).says("\"edges\"");
}

#[test]
#[cfg(feature = "postgres")]
fn an_unreachable_database_delays_and_loses_nothing() {
    let home = Home::new("agent-database");
    let server = Server::start();
    let unreachable = "postgres://agent:secret-word@127.0.0.1:1/fleet";
    let agent = Agent::start(&home, &["--mode", "polling", "--interval", "50ms", "--database", unreachable]);
    wait_for("the message about the failure", || {
        agent.started.err_so_far().contains("stay in the spool").then_some(())
    });
    let before = agent.windows().len();
    wait_for("more windows", || (agent.windows().len() > before + 20).then_some(()));
    let _open = server.connect(b'k');
    let state = agent.state.clone();
    let ran = agent.stop("TERM").exits(0);
    assert_eq!(ran.err.matches("error:").count(), 1, "reported once: {}", ran.err);
    assert!(!ran.err.contains("secret-word"), "{}", ran.err);
    let all = windows(&ran.out);
    let count = all.len();
    assert!(ran.err.contains(&format!("{count} windows remain in the spool")), "{count} windows: {}", ran.err);
    let last = all.last();
    assert_eq!(stored(&state, server.port).1, 1, "this host's store has everything; last window: {last:?}");
}

/// A small file system, unmounted on drop. None if mounting is not permitted.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf, kilobytes: u32) -> Option<SmallDisk> {
        std::fs::create_dir_all(&at).unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={kilobytes}k"), "tmpfs"]).arg(&at).output();
        if mounted.is_ok_and(|m| m.status.success()) {
            return Some(SmallDisk(at));
        }
        skipped("mounting a small file system needs root");
        None
    }

    /// Fills the file system.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("ballast");
        let mut file = std::fs::File::create(&path).unwrap();
        for size in [65_536, 4_096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_reported_once_and_nothing_is_lost() {
    if !can_ebpf() {
        return;
    }
    let home = Home::new("agent-full");
    let Some(disk) = SmallDisk::mount(home.file("state"), 4_096) else { return };
    let server = Server::start();
    let agent = Agent::start(&home, &["--mode", "ebpf", "--interval", "50ms"]);
    server.connect_shortly(10);
    wait_for("the first connections", || (stored(&agent.state, server.port).0 == 10).then_some(()));
    let ballast = disk.fill();
    let mut opened = 10;
    wait_for("the message about the failure", || {
        server.connect_shortly(1);
        opened += 1;
        agent.started.err_so_far().contains("map.db").then_some(())
    });
    std::fs::remove_file(ballast).unwrap();
    wait_for("the recovery", || agent.started.err_so_far().contains("works again").then_some(()));
    server.connect_shortly(10);
    let state = agent.state.clone();
    let ran = agent.stop("TERM").exits(0);
    assert_eq!(ran.err.matches("error:").count(), ran.err.matches("works again").count(), "{}", ran.err);
    assert_eq!(stored(&state, server.port).0, opened + 10);
}

#[test]
fn five_thousand_connections_are_five_thousand_in_every_mode() {
    let home = Home::new("agent-many");
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    rustix::process::setrlimit(
        rustix::process::Resource::Nofile,
        rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum },
    )
    .unwrap();
    if limit.maximum.is_some_and(|limit| limit < 11_000) {
        skipped("a process cannot have 10,000 descriptors");
        return;
    }
    let server = Server::start();
    let open: Vec<TcpStream> = (0..5_000).map(|_| server.connect(b'k')).collect();
    let mut modes = vec!["polling", "tuples"];
    if can_ebpf() {
        modes.push("ebpf");
    }
    for mode in modes {
        if mode == "polling" && !is_root() {
            skipped("owners of other users' sockets need root");
            continue;
        }
        let all = arguments(&home, &["--mode", mode, "--once", "--interval", "200ms"]);
        let ran = home.run(&all.iter().map(String::as_str).collect::<Vec<&str>>()).exits(0);
        let windows = windows(&ran.out);
        let sum = |side: Side| {
            let flows = windows[0].flows.iter().filter(|f| f.side == side && is_to(f, server.port));
            flows.map(|f| (f.counts.open, f.counts.opened)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
        };
        assert_eq!((sum(Side::Active), sum(Side::Passive)), ((5_000, 0), (5_000, 0)), "{mode}");
    }
    drop(open);
}

#[test]
fn systemd_accepts_the_unit() {
    let home = Home::new("agent-unit");
    for mode in ["auto", "ebpf", "polling", "tuples"] {
        let ran = home.run(&["agent", "unit", "--mode", mode, "--interval", "2s"]).exits(0);
        assert!(ran.out.contains(" agent --mode ") && ran.out.contains("--interval 2000ms"), "{}", ran.out);
        let path = home.write(&format!("faultloom-{mode}.service"), &ran.out);
        match Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output() {
            Ok(checked) => {
                let errors = String::from_utf8_lossy(&checked.stderr).into_owned();
                let ours: Vec<&str> = errors.lines().filter(|line| line.contains("faultloom-")).collect();
                assert!(ours.is_empty(), "{ours:?}");
            }
            Err(_) => skipped("systemd-analyze is not installed"),
        }
    }
    let fleet = home.run(&["agent", "unit", "--fleet"]).exits(0);
    assert!(fleet.out.contains("EnvironmentFile="), "{}", fleet.out);
    home.run(&["agent", "--interval", "1"]).exits(2).says("a time is");
}
