//! eBPF: owners among short-lived processes, workers, and processes that share a port.

use crate::support::processes::{Child, connect_once, listen_shared, serve_pid};
use crate::support::program::Program;
use crate::support::{Watch, exclusive_network, finished, serve_shortly};
use flows::{Attribution, Counts, Flow, FlowKey, Side, Source};
use sockets::Collector;
use sockets::identity::Identifier;
use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::net::{TcpListener, TcpStream};

#[test]
fn processes_of_single_connections_are_all_identified() {
    let Some(_network) = exclusive_network() else { return };
    let Some(mut watch) = Watch::start() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let server = serve_shortly(listener, 1000);
    let mut pids = HashSet::new();
    for _ in 0..1000 {
        let child = Child::fork(|| connect_once(port));
        pids.insert(child.0);
        child.wait();
    }
    server.join().expect("the server ends");
    watch.until("1000 closed at both ends", |it| {
        finished(it.total(Side::Active, port), 1000) && finished(it.total(Side::Passive, port), 1000)
    });
    assert_eq!(watch.total(Side::Active, port).opened, 1000);
    let exact = watch.attributed(Side::Passive, port, Attribution::Exact).opened;
    assert!(exact >= 990, "{exact} of 1000 owners are exact");
    let owners: Vec<_> = watch.side(Side::Active, port).iter().filter_map(|it| it.owner.clone()).collect();
    assert_eq!(owners.iter().map(|it| it.process.pid).collect::<HashSet<_>>(), pids);
    // the data of ended processes was captured
    assert!(owners.iter().all(|it| it.executable.is_some() && it.arguments.is_some() && !it.comm.is_empty()));
    assert_eq!(watch.losses, flows::Losses::default());
}

/// Number of connections that each process served, by its own answer.
fn served(port: u16, connections: usize) -> HashMap<u32, u64> {
    let mut by_pid = HashMap::new();
    for _ in 0..connections {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a server listens");
        let mut pid = [0; 4];
        stream.read_exact(&mut pid).expect("the server sends its pid");
        *by_pid.entry(u32::from_ne_bytes(pid)).or_default() += 1;
    }
    by_pid
}

#[test]
fn workers_that_share_a_socket_are_distinguished() {
    let Some(_network) = exclusive_network() else { return };
    let Some(mut watch) = Watch::start() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&listener);
    let workers: Vec<Child> = (0..3).map(|_| Child::fork(|| serve_pid(fd))).collect();
    let by_pid = served(port, 300);
    watch.until("300 closed", |it| finished(it.total(Side::Passive, port), 300));
    for worker in &workers {
        let expected = by_pid.get(&worker.0).copied().unwrap_or(0);
        assert_eq!(watch.of(Side::Passive, port, worker.0).opened, expected);
    }
}

#[test]
fn processes_that_share_a_port_are_distinguished() {
    let Some(_network) = exclusive_network() else { return };
    let Some(mut watch) = Watch::start() else { return };
    let port = 7000;
    let servers: Vec<Child> = (0..2).map(|_| Child::fork(|| serve_pid(listen_shared(port)))).collect();
    watch.until("two listeners", |it| it.listeners.len() == 2);
    let by_pid = served(port, 200);
    assert_eq!(by_pid.len(), 2);
    watch.until("200 closed", |it| finished(it.total(Side::Passive, port), 200));
    for server in &servers {
        assert_eq!(watch.of(Side::Passive, port, server.0).opened, by_pid[&server.0]);
    }
    drop(servers);
    watch.until("no listener", |it| it.listeners.is_empty());
}

/// The owner is found by a file scan, which cannot read arguments. Later the hook captures them, and then the process
/// ends.
#[test]
fn a_flow_keeps_its_identity_when_its_owner_gets_arguments_and_when_it_ends() {
    const CLIENT: &str = "
import socket
connect = lambda: socket.create_connection(('127.0.0.1', 7000))
first = connect(); print('ready'); input()
second = connect(); print('again'); input()";
    let Some(network) = exclusive_network() else { return };
    let listener = TcpListener::bind("127.0.0.1:7000").expect("the port is free in a new namespace");
    let mut client = Program::python(CLIENT);
    assert_eq!(client.line(), "ready");
    let Some(mut watch) = Watch::start() else { return };
    let mut identifier = Identifier::start().expect("/proc is mounted");
    let pid = client.pid();
    // the flow's keys and counts, and whether its owner has arguments
    let mut window = || {
        let collected = watch.collector.collect().expect("the tables can be read");
        let owners = collected.flows.iter().filter_map(|it| it.owner.clone()).filter(|it| it.process.pid == pid);
        let has_arguments = owners.map(|owner| owner.arguments.is_some()).collect::<HashSet<bool>>();
        let is_ours = |flow: &Flow| flow.netns == network.netns && flow.side == Side::Active;
        let flows = identifier.identify(Source::Ebpf, collected).flows.into_iter().filter(is_ours);
        (flows.map(|flow| (flow.key(), flow.counts)).collect::<Vec<(FlowKey, Counts)>>(), has_arguments)
    };
    let (scanned, has_arguments) = window();
    assert_eq!((scanned.len(), has_arguments), (1, HashSet::from([false])), "{scanned:?}");
    assert_eq!(scanned[0].1.open, 1);
    client.write_line("connect");
    assert_eq!(client.line(), "again");
    let (hooked, has_arguments) = window();
    assert_eq!((hooked.len(), has_arguments), (1, HashSet::from([true])), "{hooked:?}");
    assert_eq!((&hooked[0].0, hooked[0].1.open), (&scanned[0].0, 2), "one flow with both connections");
    drop(client);
    drop(listener);
    let (mut ended, _) = window();
    ended.sort_by_key(|(key, _)| key.process.is_some());
    let ended_key = FlowKey { process: None, ..scanned[0].0.clone() };
    assert_eq!((ended.len(), &ended[0].0, ended[0].1.closed), (2, &ended_key, 2), "{ended:?}");
    assert_eq!(ended[1], (scanned[0].0.clone(), Counts::default()), "the flow of the process is not open anymore");
}
