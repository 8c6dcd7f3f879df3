//! eBPF: a small flow table.

use crate::support::{Watch, network};
use flows::Side;
use sockets::ebpf::Options;
use std::net::{TcpListener, TcpStream};

/// Connects to a different address each time, so that every connection needs two keys of the table.
fn connect_everywhere(connections: u32) -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    for n in 0..connections {
        let address = std::net::Ipv4Addr::from(0x7f00_0001 + n);
        let client = TcpStream::connect((address, port)).expect("all of 127.0.0.0/8 is ours");
        drop(listener.accept().expect("there is one"));
        drop(client);
    }
    port
}

#[test]
fn a_full_table_is_reported_as_a_loss() {
    let Some(_network) = network() else { return };
    let Some(mut watch) = Watch::with(Options { flow_entries: 2, ..Options::default() }) else { return };
    let port = connect_everywhere(100);
    watch.until("losses", |it| it.losses.table_full > 0);
    assert!(watch.losses.flows_missing());
    assert!(watch.total(Side::Active, port).opened < 100);
    // a connection that was not counted as opened is not counted as closed
    let counts = watch.total(Side::Active, port);
    assert!(counts.closed <= counts.opened, "{counts:?}");
}

#[test]
fn the_table_is_read_before_it_is_full() {
    let Some(_network) = network() else { return };
    let Some(mut watch) = Watch::with(Options { flow_entries: 8192, ..Options::default() }) else { return };
    // 12,000 keys without a collection
    let port = connect_everywhere(6000);
    watch.until("6000 closed at both ends", |it| {
        it.total(Side::Active, port).closed == 6000 && it.total(Side::Passive, port).closed == 6000
    });
    assert_eq!(watch.losses.table_full, 0);
}
