//! Polling of real sockets in separate network namespaces.

use crate::support::cgroup::Cgroup;
use crate::support::polling_watch::{Watch, inet};
use crate::support::program::{Program, have};
use crate::support::{exclusive_network, skipped};
use flows::{Attribution, Link, ListenAddress, ProcessId, Protocol, ServiceKind, Side, Source};
use sockets::identity::Identifier;
use sockets::polling::Poller;
use sockets::{CollectedSockets, Collector, ObservedListener, Owner};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::time::{Duration, Instant};

fn us() -> Vec<u32> {
    vec![std::process::id()]
}

#[test]
fn a_listener_on_a_specific_address_is_the_passive_side() {
    let Some(network) = exclusive_network() else { return };
    let (listener, at) = (TcpListener::bind("127.0.0.5:7000").unwrap(), inet("127.0.0.5:7000"));
    let mut watch = Watch::start(network.netns);
    watch.until("the listener", |w| w.listeners.iter().any(|it| it.at == at && it.owner.is_some()));
    let client = TcpStream::connect("127.0.0.5:7000").unwrap();
    let server = listener.accept().unwrap().0;
    watch.until("both ends", |w| w.open(Side::Active, &at) == 1 && w.open(Side::Passive, &at) == 1);
    assert_eq!((watch.owners(Side::Active, &at), watch.owners(Side::Passive, &at)), (us(), us()));
    let link = Link { protocol: Protocol::Tcp, active: Some("127.0.0.1".parse().unwrap()), passive: at.clone() };
    assert_eq!(watch.link(Side::Active, &at), link);
    assert_eq!(watch.link(Side::Passive, &at), link);
    drop((client, server));
    watch.until("the end of the connection", |w| w.counted(Side::Active, &at).closed == 1);
    let counted = watch.counted(Side::Active, &at);
    assert_eq!((counted.opened, counted.established, counted.failed, counted.open), (1, 1, 0, 0));
}

#[test]
fn connections_that_were_open_before_are_not_counted_as_opened() {
    let Some(network) = exclusive_network() else { return };
    let (listener, at) = (TcpListener::bind("127.0.0.1:7000").unwrap(), inet("127.0.0.1:7000"));
    let connect = |_| (TcpStream::connect("127.0.0.1:7000").unwrap(), listener.accept().unwrap().0);
    let old: Vec<_> = (0..10).map(connect).collect();
    let mut watch = Watch::start(network.netns);
    watch.poll();
    assert_eq!((watch.open(Side::Active, &at), watch.counted(Side::Active, &at).opened), (10, 0));
    let new: Vec<_> = (0..3).map(connect).collect();
    watch.poll();
    assert_eq!((watch.open(Side::Passive, &at), watch.counted(Side::Passive, &at).opened), (13, 3));
    drop((old, new));
}

/// Other namespaces of this machine may have a few connections meanwhile, but not hundreds.
#[test]
fn tcp_connections_between_two_polls_are_missed_and_counted() {
    let Some(network) = exclusive_network() else { return };
    let (listener, at) = (TcpListener::bind("127.0.0.1:7000").unwrap(), inet("127.0.0.1:7000"));
    let connect = |_| (TcpStream::connect("127.0.0.1:7000").unwrap(), listener.accept().unwrap().0);
    // older than the first poll
    (0..500).map(connect).for_each(drop);
    let mut watch = Watch::start(network.netns);
    watch.poll();
    let poll_twice = |watch: &mut Watch| {
        for _ in 0..2 {
            // otherwise a new connection of a process with many files waits for its owner
            watch.poller.prepare_last();
            watch.poll();
        }
    };
    let open: Vec<_> = (0..200).map(connect).collect();
    poll_twice(&mut watch);
    assert_eq!(watch.counted(Side::Active, &at).opened, 200);
    assert!(watch.between_polls < 400, "{}: found ones are not missed", watch.between_polls);
    let before = watch.between_polls;
    (0..500).map(connect).for_each(drop);
    poll_twice(&mut watch);
    let missed = watch.between_polls - before;
    let found = watch.counted(Side::Active, &at).opened + watch.counted(Side::Passive, &at).opened;
    assert!((1_000..1_500).contains(&(missed + found - 400)), "{missed} missed, {found} found");
    drop(open);
}

#[test]
fn the_last_poll_finds_the_owner_of_a_new_connection_among_many_files() {
    let Some(network) = exclusive_network() else { return };
    let (listener, at) = (TcpListener::bind("127.0.0.1:7000").unwrap(), inet("127.0.0.1:7000"));
    let connect = || (TcpStream::connect("127.0.0.1:7000").unwrap(), listener.accept().unwrap().0);
    // with so many files the process is searched rarely
    let files: Vec<_> = (0..300).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
    let first = connect();
    let mut watch = Watch::start(network.netns);
    watch.poll();
    let waiting = connect();
    watch.poll();
    assert_eq!(watch.open(Side::Active, &at), 1, "a new connection does not wait, so this test proves nothing");
    let last = connect();
    watch.poller.prepare_last();
    watch.poll();
    assert_eq!((watch.open(Side::Active, &at), watch.open(Side::Passive, &at)), (3, 3));
    assert_eq!((watch.owners(Side::Active, &at), watch.owners(Side::Passive, &at)), (us(), us()));
    drop((files, first, waiting, last));
}

#[test]
fn both_ends_of_ipv4_on_an_ipv6_listener_have_the_same_link() {
    let Some(network) = exclusive_network() else { return };
    let (listener, at) = (TcpListener::bind("[::]:7000").unwrap(), inet("127.0.0.1:7000"));
    let client = TcpStream::connect("127.0.0.1:7000").unwrap();
    let server = listener.accept().unwrap().0;
    let mut watch = Watch::start(network.netns);
    watch.poll();
    assert_eq!(watch.link(Side::Active, &at), watch.link(Side::Passive, &at));
    drop((client, server));
}

#[test]
fn the_worker_that_accepted_is_the_owner() {
    const SERVER: &str = "
import os, socket
s = socket.socket(); s.bind(('127.0.0.1', 7000)); s.listen(8)
for _ in range(3):
    if os.fork() == 0:
        c, _ = s.accept(); os.write(1, b'%d\\n' % os.getpid()); c.recv(1); os._exit(0)
print('ready'); input()";
    let Some(network) = exclusive_network() else { return };
    let at = inet("127.0.0.1:7000");
    let mut server = Program::python(SERVER);
    assert_eq!(server.line(), "ready");
    let clients: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect("127.0.0.1:7000").unwrap()).collect();
    let mut workers: Vec<u32> = (0..3).map(|_| server.line().parse().unwrap()).collect();
    workers.sort_unstable();
    let mut watch = Watch::start(network.netns);
    watch.until("three owners", |w| w.owners(Side::Passive, &at) == workers);
    assert!(!workers.contains(&server.pid()));
    drop(clients);
}

#[test]
fn a_forked_process_does_not_own_sockets_of_its_parent() {
    const CLIENT: &str = r"
import os, socket, sys
kept = []
for line in sys.stdin:
    kept.append(socket.create_connection(('127.0.0.1', int(line))))
    end, keep = os.pipe()
    if os.fork() == 0:
        os.close(keep); os.read(end, 1); os._exit(0)
    kept.append(keep); print('ready')";
    let Some(network) = exclusive_network() else { return };
    let mut client = Program::python(CLIENT);
    let mut watch = Watch::start(network.netns);
    for port in 7000..7020 {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let begin = Instant::now();
        client.write_line(&port.to_string());
        assert_eq!(client.line(), "ready");
        watch.poll();
        // a child that is older than a second counts as an owner
        if begin.elapsed() < Duration::from_millis(900) {
            assert_eq!(watch.owners(Side::Active, &inet(&listener.local_addr().unwrap().to_string())), [client.pid()]);
            return;
        }
    }
    panic!("this machine is too slow to fork and poll within a second");
}

#[test]
fn an_unaccepted_connection_is_attributed_to_the_listener() {
    let Some(network) = exclusive_network() else { return };
    let (listener, at) = (TcpListener::bind("127.0.0.1:7000").unwrap(), inet("127.0.0.1:7000"));
    let client = TcpStream::connect("127.0.0.1:7000").unwrap();
    let mut watch = Watch::start(network.netns);
    watch.poll();
    let waiting = watch.side(Side::Passive, &at)[0].clone();
    assert_eq!(waiting.attribution, Attribution::Listener);
    assert_eq!(waiting.owner.map(|owner| owner.process.pid), Some(std::process::id()));
    let server = listener.accept().unwrap().0;
    watch.until("it is accepted", |w| w.owners(Side::Passive, &at) == us());
    drop((client, server));
}

/// The kernel chooses a worker when the connection arrives; which one is not visible before it accepts.
#[test]
fn workers_that_share_a_port_are_one_service_and_not_one_process() {
    const WORKER: &str = "
import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
s.bind(('127.0.0.1', 7000)); s.listen(16); print('ready'); input()";
    let Some(network) = exclusive_network() else { return };
    let at = inet("127.0.0.1:7000");
    let mut workers = [Program::python(WORKER), Program::python(WORKER)];
    workers.iter_mut().for_each(|worker| assert_eq!(worker.line(), "ready"));
    let clients: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect("127.0.0.1:7000").unwrap()).collect();
    let collected = Poller::start(Source::Polling).unwrap().collect().unwrap();
    let window = Identifier::start().unwrap().identify(Source::Polling, collected);
    let is_passive = |f: &&flows::Flow| f.netns == network.netns && f.side == Side::Passive && f.link.passive == at;
    let passive: Vec<&flows::Flow> = window.flows.iter().filter(is_passive).collect();
    assert_eq!(passive.len(), 1, "{passive:#?}");
    assert_eq!((passive[0].attribution, passive[0].process), (Attribution::Listener, None));
    assert_eq!(passive[0].counts.open, 4);
    let service = window.services.iter().find(|service| service.key == passive[0].service).unwrap();
    assert_eq!(service.kind, ServiceKind::Program, "{service:?}");
    drop(clients);
}

#[test]
fn process_names_may_contain_blanks_and_newlines() {
    const CLIENT: &str = r"
import ctypes, socket
ctypes.CDLL(None).prctl(15, b'a b) R\n(1', 0, 0, 0)
c = socket.create_connection(('127.0.0.1', 7000)); print('ready'); input()";
    let Some(network) = exclusive_network() else { return };
    let (listener, at) = (TcpListener::bind("127.0.0.1:7000").unwrap(), inet("127.0.0.1:7000"));
    let folder = std::env::temp_dir().join(format!("faultloom names\n{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let shell = folder.join("ba sh\n(x)");
    std::fs::copy("/bin/bash", &shell).unwrap();
    let script = "exec 3<>/dev/tcp/127.0.0.1/7000; echo ready; read line";
    let mut programs = [Program::python(CLIENT), Program::start(Command::new(&shell).args(["-c", script]))];
    programs.iter_mut().for_each(|program| assert_eq!(program.line(), "ready"));
    let mut pids: Vec<u32> = programs.iter().map(Program::pid).collect();
    pids.sort_unstable();
    let mut poller = Poller::start(Source::Polling).unwrap();
    let collected = poller.collect().unwrap();
    let names: Vec<&str> = collected
        .flows
        .iter()
        .filter(|flow| flow.netns == network.netns && flow.side == Side::Active)
        .filter_map(|flow| Some(flow.owner.as_ref()?.comm.as_str()))
        .collect();
    assert!(names.contains(&"a b) R\n(1"), "{names:?}");
    let window = Identifier::start().unwrap().identify(Source::Polling, collected);
    let flow = window.flows.iter().find(|flow| flow.process.is_some_and(|p| p.pid == programs[1].pid())).unwrap();
    let service = window.services.iter().find(|service| service.key == flow.service).unwrap();
    assert!(service.executable.as_ref().is_some_and(|path| path.ends_with("/ba sh\n(x)")), "{service:?}");
    let mut watch = Watch::start(network.netns);
    watch.until("both clients", |w| w.owners(Side::Active, &at) == pids);
    std::fs::remove_dir_all(&folder).unwrap();
    drop(listener);
}

#[test]
fn polling_tolerates_processes_that_start_and_end() {
    const STORM: &str = "
import os, socket
print('ready')
while True:
    if os.fork() == 0:
        c = socket.create_connection(('127.0.0.1', 7000)); os._exit(0)
    os.wait()";
    const SERVER: &str = "
import socket
s = socket.socket(); s.bind(('127.0.0.1', 7000)); s.listen(64); print('ready')
while True: s.accept()[0].close()";
    let Some(network) = exclusive_network() else { return };
    let at = inet("127.0.0.2:7001");
    let (listener, mut server) = (TcpListener::bind("127.0.0.2:7001").unwrap(), Program::python(SERVER));
    assert_eq!(server.line(), "ready");
    let mut storm = Program::python(STORM);
    assert_eq!(storm.line(), "ready");
    let client = TcpStream::connect("127.0.0.2:7001").unwrap();
    let server_end = listener.accept().unwrap().0;
    let mut watch = Watch::start(network.netns);
    for _ in 0..100 {
        watch.poll();
        assert_eq!((watch.owners(Side::Active, &at), watch.owners(Side::Passive, &at)), (us(), us()));
    }
    let counted = watch.counted(Side::Active, &at);
    assert_eq!((counted.opened, counted.closed), (0, 0), "an open connection is neither opened nor closed");
    drop((client, server_end));
}

#[test]
fn without_capabilities_own_processes_are_identified_and_others_counted() {
    const CLIENT: &str = "
import socket
c = socket.create_connection(('127.0.0.1', 7000)); print('ready'); input()";
    let Some(network) = exclusive_network() else { return };
    let (listener, at) = (TcpListener::bind("127.0.0.1:7000").unwrap(), inet("127.0.0.1:7000"));
    let mut client = Program::python(CLIENT);
    assert_eq!(client.line(), "ready");
    let server = listener.accept().unwrap().0;
    let mut watch = Watch::start(network.netns);
    watch.until("the owner, with capabilities", |w| w.owners(Side::Active, &at) == [client.pid()]);
    let nobody = rustix::fs::Uid::from_raw(65534);
    let without_capabilities = || {
        // affects only this thread
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).ok()?;
        let mut watch = Watch::of(Source::Tuples, network.netns);
        watch.poll();
        Some(watch)
    };
    let watch =
        std::thread::scope(|scope| scope.spawn(without_capabilities).join().expect("it polls without capabilities"));
    let Some(watch) = watch else { return skipped("a thread cannot become another user") };
    assert_eq!(watch.open(Side::Active, &at), 1, "the connection itself is observed");
    assert!(watch.owners(Side::Active, &at).is_empty());
    assert_eq!(watch.owners(Side::Passive, &at), us());
    assert!(watch.unreadable > 0);
    drop(server);
}

#[test]
fn other_namespaces_are_observed_and_left_when_they_end() {
    const INSIDE: &str = "
import os, socket
os.system('ip link set lo up')
s = socket.create_server(('127.0.0.1', 7000)); c = socket.create_connection(('127.0.0.1', 7000))
print(os.stat('/proc/self/ns/net').st_ino); input()";
    let Some(network) = exclusive_network() else { return };
    if !have("unshare") || !have("ip") {
        return skipped("unshare or ip is not installed");
    }
    let at = inet("127.0.0.1:7000");
    let mut inside = Program::start(Command::new("unshare").args(["--net", "python3", "-u", "-c", INSIDE]));
    let other: u64 = inside.line().parse().unwrap();
    assert_ne!(other, network.netns);
    let mut watch = Watch::start(network.netns);
    watch.netns.push(other);
    watch.until("the other namespace", |w| w.owners(Side::Active, &at) == [inside.pid()]);
    assert!(watch.side(Side::Active, &at).iter().all(|flow| flow.netns == other));
    inside.write_line("end");
    watch.until("it has ended", |w| w.flows.is_empty() && w.listeners.is_empty());
}

#[test]
fn unix_connections_are_flows_to_the_listeners_name() {
    let Some(network) = exclusive_network() else { return };
    let path = std::env::temp_dir().join(format!("faultloom unix\n{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    let at = ListenAddress::Path(path.display().to_string());
    let client = UnixStream::connect(&path).unwrap();
    let server = listener.accept().unwrap().0;
    let pair = UnixStream::pair().unwrap();
    let mut watch = Watch::start(network.netns);
    watch.until("both ends", |w| w.owners(Side::Active, &at) == us() && w.owners(Side::Passive, &at) == us());
    assert_eq!(watch.link(Side::Active, &at), watch.link(Side::Passive, &at));
    assert!(watch.listeners.iter().any(|it| it.at == at && it.protocol == Protocol::Unix));
    assert_eq!(watch.flows.len(), 2, "a socket pair is not a flow: {:#?}", watch.flows);
    std::fs::remove_file(&path).unwrap();
    drop((client, server, pair));
}

#[test]
fn connected_udp_is_a_flow_to_the_bound_socket() {
    let Some(network) = exclusive_network() else { return };
    let (bound, at) = (UdpSocket::bind("127.0.0.1:7000").unwrap(), inet("127.0.0.1:7000"));
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect("127.0.0.1:7000").unwrap();
    let unconnected = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut watch = Watch::start(network.netns);
    watch.until("the client's end", |w| w.owners(Side::Active, &at) == us());
    let reported: Vec<&ListenAddress> = watch.listeners.iter().map(|it| &it.at).collect();
    assert_eq!(reported, [&at], "an ephemeral port is not a listener");
    drop((bound, client, unconnected));
}

#[test]
fn a_translated_connection_has_its_real_destination() {
    let Some(network) = exclusive_network() else { return };
    if !have("nft") {
        return skipped("nft is not installed");
    }
    let rules = "add table ip t; add chain ip t out { type nat hook output priority -100; }; \
                 add rule ip t out tcp dport 9861 redirect to :9862";
    if !Command::new("nft").arg(rules).status().is_ok_and(|status| status.success()) {
        return skipped("nft cannot translate addresses here");
    }
    let listener = TcpListener::bind("127.0.0.1:9862").unwrap();
    let client = TcpStream::connect("127.0.0.1:9861").unwrap();
    let server = listener.accept().unwrap().0;
    let plain = TcpStream::connect("127.0.0.1:9862").unwrap();
    let collected = Poller::start(Source::Polling).unwrap().collect().unwrap();
    let mut identifier = Identifier::start().unwrap();
    let window = identifier.identify(Source::Polling, collected);
    let translated = |to: &ListenAddress| {
        let mut ours =
            window.flows.iter().filter(|f| f.netns == network.netns && f.side == Side::Active && f.link.passive == *to);
        ours.next().unwrap_or_else(|| panic!("no flow to {to}: {:#?}", window.flows)).translated.clone()
    };
    assert_eq!(identifier.translation_unavailable(), None);
    assert_eq!(translated(&inet("127.0.0.1:9861")), Some(inet("127.0.0.1:9862")));
    assert_eq!(translated(&inet("127.0.0.1:9862")), None);
    drop((client, server, plain));
}

#[test]
fn flows_of_ended_processes_belong_to_their_service() {
    const CLIENT: &str = "
import socket
c = socket.create_connection(('127.0.0.1', 7000)); print('ready'); input()";
    let Some(network) = exclusive_network() else { return };
    let (_listener, at) = (TcpListener::bind("127.0.0.1:7000").unwrap(), inet("127.0.0.1:7000"));
    let mut clients = [Program::python(CLIENT), Program::python(CLIENT)];
    clients.iter_mut().for_each(|client| assert_eq!(client.line(), "ready"));
    let (mut poller, mut identifier) = (Poller::start(Source::Polling).unwrap(), Identifier::start().unwrap());
    let mut flows = || {
        let window = identifier.identify(Source::Polling, poller.collect().unwrap());
        let ours = |f: &flows::Flow| f.netns == network.netns && f.side == Side::Active && f.link.passive == at;
        window.flows.into_iter().filter(ours).collect::<Vec<_>>()
    };
    let living = flows();
    assert_eq!(living.len(), 2);
    assert!(living.iter().all(|flow| flow.process.is_some() && flow.service == living[0].service));
    drop(clients);
    // two polls without them
    let ended = std::iter::repeat_with(&mut flows).take(5).flatten().find(|flow| flow.counts.closed > 0).unwrap();
    assert_eq!((ended.process, ended.counts.closed, &ended.service), (None, 2, &living[0].service));
}

#[test]
fn an_ended_process_of_a_containers_cgroup_belongs_to_the_container() {
    const SERVER: &str = "
import socket
print('ready'); input(); s = socket.create_server(('127.0.0.1', 7000)); print('listens'); input()";
    let Some(network) = exclusive_network() else { return };
    let id = "0a1b2c3d".repeat(8);
    let outer = format!("faultloom-test-{}", std::process::id());
    let Some(cgroup) = Cgroup::create(&[&outer, &format!("docker-{id}.scope")]) else {
        return skipped("cgroups cannot be created");
    };
    let mut server = Program::python(SERVER);
    assert_eq!(server.line(), "ready");
    assert!(cgroup.move_process(server.pid()));
    server.write_line("continue");
    assert_eq!(server.line(), "listens");
    let (mut poller, mut identifier) = (Poller::start(Source::Polling).unwrap(), Identifier::start().unwrap());
    let mut service_of = |collected: CollectedSockets| {
        let window = identifier.identify(Source::Polling, collected);
        let key = window.listeners.unwrap().into_iter().find(|it| it.netns == network.netns).unwrap().service;
        window.services.into_iter().find(|service| service.key == key).unwrap()
    };
    let living = service_of(poller.collect().unwrap());
    assert_eq!((living.kind, living.container.as_deref()), (ServiceKind::Container, Some(id.as_str())));
    let process = ProcessId { pid: server.pid(), start_ticks: 1 };
    drop(server);
    let owner = Owner { process, comm: "x".into(), cgroup: Some(cgroup.id()), executable: None, arguments: None };
    let listening = ObservedListener {
        netns: network.netns,
        protocol: Protocol::Tcp,
        at: inet("127.0.0.1:7001"),
        owner: Some(owner.into()),
    };
    let ended = service_of(CollectedSockets { listeners: vec![listening], ..CollectedSockets::default() });
    assert_eq!(ended, living);
}
