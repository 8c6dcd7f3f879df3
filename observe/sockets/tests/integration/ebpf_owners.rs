//! eBPF: owners among short-lived processes, workers, and processes that share a port.

use crate::support::processes::{Child, connect_once, listen_shared, serve_pid};
use crate::support::{Watch, exclusive_network, finished, serve_shortly};
use flows::{Attribution, Side};
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
