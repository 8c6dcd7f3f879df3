//! eBPF: failed, reset and older connections, other addresses, namespaces and protocols.
#![expect(unsafe_code, reason = "socket options and protocols that std does not support")]

use crate::support::{Watch, network, own_network, skipped};
use flows::{Attribution, Counts, ListenAddress, Protocol, Side};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::net::{UnixListener, UnixStream};

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn reset(stream: TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let size = size_of::<libc::linger>() as u32;
    // SAFETY: the option takes this structure of this size.
    let result = unsafe {
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), size)
    };
    assert_eq!(result, 0);
}

#[test]
fn connections_reset_before_accept_belong_to_the_listener() {
    let Some(_network) = network() else { return };
    let Some(mut watch) = Watch::start() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    for _ in 0..40 {
        reset(TcpStream::connect(("127.0.0.1", port)).expect("the server listens"));
    }
    watch.until("40 closed", |it| {
        it.total(Side::Passive, port).closed == 40 && it.total(Side::Active, port).closed == 40
    });
    let expected = Counts { opened: 40, established: 40, closed: 40, ..Counts::default() };
    assert_eq!(watch.attributed(Side::Passive, port, Attribution::Listener), expected);
    let owner = watch.side(Side::Passive, port)[0].owner.as_ref().map(|it| it.process.pid);
    assert_eq!(owner, Some(std::process::id()));
    assert_eq!(watch.of(Side::Active, port, std::process::id()).opened, 40);
}

#[test]
fn a_server_that_resets_is_the_owner() {
    let Some(_network) = network() else { return };
    let Some(mut watch) = Watch::start() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let client = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    reset(listener.accept().expect("there is one").0);
    watch.until("closed", |it| it.total(Side::Passive, port).closed == 1);
    assert_eq!(watch.attributed(Side::Passive, port, Attribution::Exact).opened, 1);
    drop(client);
}

#[test]
fn refused_connections_fail() {
    let Some(_network) = network() else { return };
    let Some(mut watch) = Watch::start() else { return };
    let port = 9;
    for _ in 0..25 {
        TcpStream::connect(("127.0.0.1", port)).expect_err("no listener");
    }
    watch.until("25 failed", |it| it.total(Side::Active, port).failed == 25);
    assert_eq!(watch.total(Side::Active, port), Counts { opened: 25, failed: 25, ..Counts::default() });
    assert_eq!(watch.total(Side::Passive, port), Counts::default());
}

#[test]
fn both_ends_of_a_mapped_address_have_the_same_link() {
    let Some(_network) = network() else { return };
    let Some(mut watch) = Watch::start() else { return };
    let listener = TcpListener::bind("[::]:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    for address in ["127.0.0.1", "::ffff:127.0.0.1"] {
        let client = TcpStream::connect((address, port)).expect("it listens on both");
        drop(listener.accept().expect("there is one"));
        drop(client);
    }
    let _six = TcpStream::connect(("::1", port)).expect("it listens on both");
    watch.until("two closed and one open", |it| {
        it.total(Side::Active, port).closed == 2
            && it.total(Side::Passive, port).closed == 2
            && it.total(Side::Active, port).open == 1
    });
    let mapped = (Some(LOCALHOST), ListenAddress::Inet { ip: LOCALHOST, port });
    assert_eq!(watch.links(Side::Passive, port), std::slice::from_ref(&mapped));
    let six: IpAddr = "::1".parse().expect("an address");
    let active = watch.links(Side::Active, port);
    assert!(active.len() == 2 && active.contains(&mapped), "{active:?}");
    assert!(active.contains(&(Some(six), ListenAddress::Inet { ip: six, port })), "{active:?}");
}

#[test]
fn equal_addresses_in_two_namespaces_are_two_flows() {
    let Some(_network) = network() else { return };
    let Some(mut watch) = Watch::start() else { return };
    let port = 7001;
    let exchange = move |times: usize| {
        std::thread::spawn(move || {
            own_network().expect("the first namespace was created as well");
            let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free in a new namespace");
            for _ in 0..times {
                let client = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
                drop(listener.accept().expect("there is one"));
                drop(client);
            }
            crate::support::netns()
        })
    };
    let (one, two) = (exchange(3), exchange(5));
    let (one, two) = (one.join().expect("it ends"), two.join().expect("it ends"));
    watch.netns = vec![one, two];
    watch.until("eight closed", |it| {
        it.total(Side::Active, port).closed == 8 && it.total(Side::Passive, port).closed == 8
    });
    for side in [Side::Active, Side::Passive] {
        let in_namespace = |netns| {
            watch.side(side, port).iter().filter(|it| it.netns == netns).map(|it| it.counts.opened).sum::<u64>()
        };
        assert_eq!((in_namespace(one), in_namespace(two)), (3, 5));
    }
}

#[test]
fn connections_older_than_the_collector_are_open_and_their_bytes_grow() {
    let Some(_network) = network() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let mut pairs: Vec<_> = (0..5)
        .map(|_| {
            let client = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
            (client, listener.accept().expect("there is one").0)
        })
        .collect();
    let Some(mut watch) = Watch::start() else { return };
    watch.collect();
    let me = std::process::id();
    let open = Counts { open: 5, ..Counts::default() };
    assert_eq!((watch.of(Side::Active, port, me), watch.of(Side::Passive, port, me)), (open, open));
    assert_eq!(watch.listeners.len(), 1);

    let (client, server) = &mut pairs[0];
    client.write_all(&[7; 1000]).expect("connected");
    server.read_exact(&mut [0; 1000]).expect("connected");
    watch.collector.reconcile().expect("a scan is possible");
    watch.collect();
    assert_eq!((watch.of(Side::Active, port, me).sent, watch.of(Side::Passive, port, me).received), (1000, 1000));
    drop(pairs);
    watch.until("all closed", |it| {
        it.of(Side::Active, port, me).closed == 5 && it.of(Side::Passive, port, me).closed == 5
    });
    let closed = Counts { closed: 5, ..Counts::default() };
    assert_eq!(watch.of(Side::Active, port, me), Counts { sent: 1000, ..closed });
    assert_eq!(watch.of(Side::Passive, port, me), Counts { received: 1000, ..closed });
}

/// Go listens on Multipath TCP by default.
#[test]
fn multipath_listeners_older_than_the_collector_are_found() {
    let Some(_network) = network() else { return };
    let listener = match multipath_listener() {
        Ok(listener) => listener,
        Err(why) => return skipped(&format!("no Multipath TCP: {why}")),
    };
    let port = listener.local_addr().expect("bound").port();
    let Some(mut watch) = Watch::start() else { return };
    watch.collect();
    let at = |it: &Watch| -> Vec<_> {
        it.listeners.iter().map(|l| (l.at.clone(), l.owner.as_ref().map(|o| o.process.pid))).collect()
    };
    let expected: Vec<_> = vec![(ListenAddress::Inet { ip: LOCALHOST, port }, Some(std::process::id()))];
    assert_eq!(at(&watch), expected);
    watch.collector.reconcile().expect("a scan is possible");
    watch.collect();
    assert_eq!(at(&watch), expected);

    let client = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    drop((listener.accept().expect("there is one"), client));
    watch.until("closed", |it| it.of(Side::Passive, port, std::process::id()).closed == 1);
    drop(listener);
    watch.until("no listener", |it| it.listeners.is_empty());
}

fn multipath_listener() -> std::io::Result<TcpListener> {
    // SAFETY: the socket is ours and is closed by the listener; the address has the given size.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, libc::IPPROTO_MPTCP);
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        let listener = TcpListener::from_raw_fd(fd);
        let address = libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: 0,
            sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
            sin_zero: [0; 8],
        };
        let size = size_of::<libc::sockaddr_in>() as u32;
        if libc::bind(fd, (&raw const address).cast(), size) != 0 || libc::listen(fd, 16) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(listener)
    }
}

#[test]
fn a_file_scan_finds_the_owner_of_an_open_connection() {
    let Some(_network) = network() else { return };
    let Some(mut watch) = Watch::start() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let client = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let server = listener.accept().expect("there is one").0;
    let me = std::process::id();
    let open = Counts { opened: 1, established: 1, open: 1, ..Counts::default() };
    watch.until("both ends open", |it| it.of(Side::Active, port, me) == open && it.of(Side::Passive, port, me) == open);
    drop((client, server));
    let closed = Counts { opened: 1, established: 1, closed: 1, ..Counts::default() };
    watch.until("both ends closed", |it| {
        it.of(Side::Active, port, me) == closed && it.of(Side::Passive, port, me) == closed
    });
}

#[test]
fn connected_udp_sockets_are_flows_and_bound_ones_listen() {
    let Some(_network) = network() else { return };
    let Some(mut watch) = Watch::start() else { return };
    let server = UdpSocket::bind("127.0.0.1:5300").expect("the port is free in a new namespace");
    let client = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    client.connect("127.0.0.1:5300").expect("no packet is sent");
    watch.collector.reconcile().expect("a scan is possible");
    watch.collect();
    let flows = watch.side(Side::Active, 5300);
    assert_eq!(flows.len(), 1, "{flows:#?}");
    assert_eq!(flows[0].link.protocol, Protocol::Udp);
    assert_eq!(flows[0].link.active, Some(LOCALHOST));
    assert_eq!(flows[0].example_port, Some(client.local_addr().expect("bound").port()));
    assert_eq!(flows[0].owner.as_ref().map(|it| it.process.pid), Some(std::process::id()));
    assert_eq!(flows[0].counts, Counts { opened: 1, established: 1, open: 1, ..Counts::default() });
    let listens = |it: &Watch| {
        it.listeners
            .iter()
            .any(|at| at.protocol == Protocol::Udp && at.at == ListenAddress::Inet { ip: LOCALHOST, port: 5300 })
    };
    assert!(listens(&watch), "{:#?}", watch.listeners);
    drop((client, server));
    watch.collector.reconcile().expect("a scan is possible");
    watch.collect();
    assert_eq!(watch.total(Side::Active, 5300), Counts { opened: 1, established: 1, closed: 1, ..Counts::default() });
    assert!(!listens(&watch));
}

#[test]
fn unix_connections_are_flows_to_the_path_of_their_listener() {
    let Some(_network) = network() else { return };
    let Some(mut watch) = Watch::start() else { return };
    let path = std::env::temp_dir().join(format!("faultloom-test-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("the directory is writable");
    let client = UnixStream::connect(&path).expect("it listens");
    let server = listener.accept().expect("there is one").0;
    std::fs::remove_file(&path).expect("it was created");
    watch.collector.reconcile().expect("a scan is possible");
    watch.collect();
    let at = ListenAddress::Path(path.to_string_lossy().into_owned());
    let end = |watch: &Watch, side| {
        let flows: Vec<_> = watch.flows.iter().filter(|it| it.side == side && it.link.passive == at).cloned().collect();
        assert_eq!(flows.len(), 1, "{flows:#?}");
        assert_eq!(flows[0].owner.as_ref().map(|it| it.process.pid), Some(std::process::id()));
        assert_eq!((flows[0].link.protocol, flows[0].link.active), (Protocol::Unix, None));
        flows[0].counts
    };
    let open = Counts { opened: 1, established: 1, open: 1, ..Counts::default() };
    assert_eq!((end(&watch, Side::Active), end(&watch, Side::Passive)), (open, open));
    assert!(watch.listeners.iter().any(|it| it.protocol == Protocol::Unix && it.at == at));
    drop((client, server, listener));
    watch.collector.reconcile().expect("a scan is possible");
    watch.collect();
    let closed = Counts { opened: 1, established: 1, closed: 1, ..Counts::default() };
    assert_eq!((end(&watch, Side::Active), end(&watch, Side::Passive)), (closed, closed));
    assert!(!watch.listeners.iter().any(|it| it.at == at));
}
