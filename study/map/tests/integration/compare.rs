//! Comparison with recorded calls: each difference has a reason.

use crate::support::*;
use flows::{ServiceKind, Side, Slice};
use map::{By, Map, RecordedCalls, compare};
use std::collections::{BTreeMap, BTreeSet};

const TOOL: &str = "faultloom";

/// The tool calls front and cart; front calls cart and ads; cart calls memcached; an unrelated service is on the host
/// as well.
fn host_slice() -> Slice {
    let mut a = host("a", &["10.0.0.1"]);
    for (name, port) in [("front", 80), ("cart", 7003), ("ads", 7004), ("memcached", 11311), ("sshd", 22)] {
        let service = a.program(name);
        a.listens(&service, "0.0.0.0", port);
    }
    let local = |port| link("127.0.0.1", "127.0.0.1", port);
    for (from, to, port) in [
        ("faultloom", "front", 80),
        ("faultloom", "cart", 7003),
        ("front", "cart", 7003),
        ("front", "ads", 7004),
        ("cart", "memcached", 11311),
        ("bastion", "sshd", 22),
    ] {
        let (active, passive) = (a.program(from), a.program(to));
        a.flow(Side::Active, &active, None, local(port), 2);
        a.flow(Side::Passive, &passive, None, local(port), 2);
    }
    // another command of the tool is a separate program
    let (up, cart) = (a.service(ServiceKind::Program, "faultloom", "up"), a.program("cart"));
    a.flow(Side::Active, &up, None, local(7003), 1);
    a.flow(Side::Passive, &cart, None, local(7003), 1);
    slice(vec![a])
}

fn recorded_calls() -> RecordedCalls {
    let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    let ports = [("front", 80), ("cart", 7003), ("ads", 7004), ("mail", 7005), ("memcached", 11311)];
    RecordedCalls {
        services: ports.iter().map(|(name, port)| ((*name).to_owned(), vec![*port])).collect(),
        uninstrumented: BTreeSet::from(["memcached".to_owned()]),
        calls: BTreeMap::from([
            (pair("", "front"), 1),
            (pair("front", "cart"), 3),
            (pair("front", "mail"), 1),
            (pair("cart", "ads"), 1),
        ]),
        withheld: BTreeSet::from([pair("front", "mail")]),
        tool: TOOL.to_owned(),
    }
}

#[test]
fn every_difference_has_a_reason_and_unrelated_services_are_omitted() {
    let slice = host_slice();
    let map = Map::of(&slice, By::Service);
    let compared = compare(&map, &recorded_calls());
    let rows: Vec<String> = compared
        .rows
        .iter()
        .map(|r| format!("{} → {} {:?} {}/{} {}", r.from, r.to, r.observed_by, r.calls, r.connections, r.reason))
        .collect();
    let expected = [
        ("cart → ads Messages 1/0", "too short"),
        ("cart → memcached Sockets 0/2", "memcached carries no SDK"),
        ("client → cart Sockets 0/3", "health check"),
        ("client → front Both 1/2", ""),
        ("front → ads Sockets 0/2", "another request"),
        ("front → cart Both 3/2", ""),
        ("front → mail Messages 1/0", "because a fault prevented it"),
    ];
    assert_eq!(rows.len(), expected.len(), "{rows:#?}");
    for (row, (start, reason)) in rows.iter().zip(expected) {
        assert!(row.starts_with(start) && row.contains(reason), "{row} is not {start} {reason}");
    }
    let labels: BTreeSet<&str> = compared.graph.nodes.iter().map(|n| n.label.as_str()).collect();
    assert_eq!(labels, BTreeSet::from(["ads", "cart", "client", "front", "memcached"]));
    assert_eq!(compared.graph.nodes.len(), labels.len(), "all commands of the tool are one client");
    assert_eq!(compared.graph.edges.len(), 5);
}

/// Two shops on one host run the same programs, so each of their services is one node of the map.
#[test]
fn another_instance_of_a_service_on_another_port_is_omitted() {
    let alone = host_slice();
    let mut both = host_slice();
    let host = &mut both.hosts[0];
    for (from, to, port) in [("test", "front", 8080), ("front", "cart", 8003)] {
        let (active, passive) = (host.program(from), host.program(to));
        host.listens(&passive, "0.0.0.0", port);
        host.flow(Side::Active, &active, None, link("127.0.0.1", "127.0.0.1", port), 7);
        host.flow(Side::Passive, &passive, None, link("127.0.0.1", "127.0.0.1", port), 7);
    }
    let compared = |slice: &Slice| compare(&Map::of(slice, By::Service), &recorded_calls());
    let (both, alone) = (compared(&both), compared(&alone));
    assert_eq!(both.rows, alone.rows);
    assert!(both.graph.remarks.iter().any(|remark| remark.contains("are left out: cart:8003, front:8080")));
    assert!(!alone.graph.remarks.iter().any(|remark| remark.contains("are left out")));
}
