//! Pairing: the flows of two hosts become one edge, and unpaired flows are marked.

use crate::support::*;
use flows::{Attribution, ListenAddress, ServiceKind, Side, Source};
use map::{By, Map};

/// web on one host connects to db on another; both hosts have an agent.
fn two_hosts() -> flows::Slice {
    let mut a = host("a", &["10.0.0.1"]);
    let mut b = host("b", &["10.0.0.2"]);
    let (web, db) = (a.program("web"), b.program("db"));
    a.flow(Side::Active, &web, Some(10), link("10.0.0.1", "10.0.0.2", 5432), 7);
    b.flow(Side::Passive, &db, Some(20), link("10.0.0.1", "10.0.0.2", 5432), 7);
    slice(vec![a, b])
}

#[test]
fn both_ends_of_a_connection_are_one_edge_and_are_counted_once() {
    let slice = two_hosts();
    let graph = Map::of(&slice, By::Service).graph;
    assert_eq!(edges(&graph), ["web -> db :5432 ×7"]);
    let edge = &graph.edges[0];
    assert_eq!((edge.counts.sent, edge.counts.received), (70, 700), "as the active side counted");
    assert_eq!(edge.source, Source::Ebpf);
}

#[test]
fn an_end_without_a_partner_is_matched_to_the_listener_of_its_address() {
    for at in ["10.0.0.2", "0.0.0.0", "::"] {
        let mut slice = two_hosts();
        slice.hosts[1].flows.clear();
        let db = slice.hosts[1].program("db");
        slice.hosts[1].listens(&db, at, 5432);
        let graph = Map::of(&slice, By::Service).graph;
        assert_eq!(edges(&graph), ["web -> db :5432 ×7 ?"], "listening at {at}");
        assert_eq!(graph.edges[0].attribution, Attribution::Listener);
    }
    // a listener on another address of the same host does not match
    let mut slice = two_hosts();
    slice.hosts[1].flows.clear();
    let db = slice.hosts[1].program("db");
    slice.hosts[1].listens(&db, "10.0.0.9", 5432);
    assert_eq!(edges(&Map::of(&slice, By::Service).graph), ["web -> b :5432 ×7 ?"]);
}

#[test]
fn a_listener_on_the_address_comes_before_one_on_all_addresses() {
    let mut slice = two_hosts();
    slice.hosts[1].flows.clear();
    let (any, exact) = (slice.hosts[1].program("any"), slice.hosts[1].program("exact"));
    slice.hosts[1].listens(&any, "0.0.0.0", 5432);
    slice.hosts[1].listens(&exact, "10.0.0.2", 5432);
    assert_eq!(edges(&Map::of(&slice, By::Service).graph), ["web -> exact :5432 ×7 ?"]);
}

#[test]
fn addresses_without_an_agent_are_external() {
    let mut slice = two_hosts();
    slice.hosts.remove(1);
    let graph = Map::of(&slice, By::Service).graph;
    assert_eq!(edges(&graph), ["web -> 10.0.0.2 :5432 ×7 ?"]);
    let mut slice = two_hosts();
    slice.hosts.remove(0);
    let graph = Map::of(&slice, By::Service).graph;
    assert_eq!(edges(&graph), ["10.0.0.1 -> db :5432 ×7 ?"]);
    assert_eq!(
        (graph.edges[0].counts.sent, graph.edges[0].counts.received),
        (70, 700),
        "from the view of the active side"
    );
}

#[test]
fn loopback_of_two_hosts_and_namespaces_is_separate() {
    let mut a = host("a", &[]);
    let mut b = host("b", &[]);
    let (client, here, there) = (a.program("client"), a.program("here"), b.program("there"));
    let inside = a.program("inside");
    a.flow(Side::Active, &client, None, link("127.0.0.1", "127.0.0.1", 80), 3);
    a.flow(Side::Passive, &here, None, link("127.0.0.1", "127.0.0.1", 80), 3);
    a.flow(Side::Passive, &inside, None, link("127.0.0.1", "127.0.0.1", 80), 4).netns = 99;
    b.flow(Side::Passive, &there, None, link("127.0.0.1", "127.0.0.1", 80), 5);
    let slice = slice(vec![a, b]);
    let graph = Map::of(&slice, By::Service).graph;
    assert_eq!(edges(&graph), ["a -> inside :80 ×4 ?", "b -> there :80 ×5 ?", "client -> here :80 ×3"]);
}

#[test]
fn unix_sockets_are_paired_by_path_within_a_host() {
    let mut a = host("a", &[]);
    let (app, db) = (a.program("app"), a.program("db"));
    a.flow(Side::Active, &app, None, unix("/run/db.sock"), 2);
    a.flow(Side::Passive, &db, None, unix("/run/db.sock"), 2);
    assert_eq!(edges(&Map::of(&slice(vec![a]), By::Service).graph), ["app -> db /run/db.sock ×2"]);
}

#[test]
fn private_addresses_on_two_hosts_refer_to_the_own_host() {
    let bridge = |name: &str| {
        let mut h = host(name, &[]);
        h.host.addresses.push(flows::HostAddress { netns: 1, ip: ip("172.17.0.2") });
        h.host.addresses.push(flows::HostAddress { netns: 2, ip: ip("172.17.0.3") });
        let (app, db) = (h.program(&format!("app-{name}")), h.program(&format!("db-{name}")));
        h.flow(Side::Active, &app, None, link("172.17.0.2", "172.17.0.3", 6379), 1).netns = 1;
        h.flow(Side::Passive, &db, None, link("172.17.0.2", "172.17.0.3", 6379), 1).netns = 2;
        h
    };
    let slice = slice(vec![bridge("a"), bridge("b")]);
    assert_eq!(edges(&Map::of(&slice, By::Service).graph), ["app-a -> db-a :6379 ×1", "app-b -> db-b :6379 ×1"]);
    // from a third host the address is ambiguous
    let mut c = host("c", &["10.0.0.3"]);
    let probe = c.program("probe");
    c.flow(Side::Active, &probe, None, link("10.0.0.3", "172.17.0.3", 6379), 1);
    let mut slice = slice;
    slice.hosts.push(c);
    let graph = Map::of(&slice, By::Service).graph;
    assert!(edges(&graph).contains(&"probe -> 172.17.0.3 :6379 ×1 ?".to_owned()), "{:?}", edges(&graph));
    assert!(graph.remarks.iter().any(|r| r.contains("172.17.0.3 belongs to several hosts")), "{:?}", graph.remarks);
}

#[test]
fn translated_connections_lead_to_their_real_destination() {
    let mut slice = two_hosts();
    slice.hosts[0].flows[0].link.passive = ListenAddress::Inet { ip: ip("10.9.9.9"), port: 80 };
    slice.hosts[0].flows[0].translated = Some(ListenAddress::Inet { ip: ip("10.0.0.2"), port: 5432 });
    let graph = Map::of(&slice, By::Service).graph;
    assert_eq!(edges(&graph), ["web -> db :5432 ×7"]);
    assert!(graph.edges[0].translated);
}

#[test]
fn a_port_that_the_servers_host_forwards_leads_to_the_container() {
    let mut slice = two_hosts();
    // the client connected to the host and the container accepted; only the container's host has the translation
    slice.hosts[0].flows[0].link.passive = ListenAddress::Inet { ip: ip("10.0.0.2"), port: 9861 };
    let db = &mut slice.hosts[1].flows[0];
    db.link.passive = ListenAddress::Inet { ip: ip("172.17.0.3"), port: 9862 };
    db.translated = Some(ListenAddress::Inet { ip: ip("10.0.0.2"), port: 9861 });
    db.netns = 5;
    let graph = Map::of(&slice, By::Service).graph;
    assert_eq!(edges(&graph), ["web -> db :9862 ×7"]);
}

#[test]
fn a_masqueraded_client_is_found_behind_its_hosts_address() {
    let mut slice = two_hosts();
    let own = &mut slice.hosts[0].flows[0];
    own.link.active = Some(ip("172.17.0.2"));
    own.netns = 5;
    let graph = Map::of(&slice, By::Service).graph;
    assert_eq!(edges(&graph), ["web -> db :5432 ×7"]);
    assert!(graph.edges[0].translated);
}

#[test]
fn by_process_one_client_is_paired_with_each_worker() {
    let mut a = host("a", &[]);
    let (proxy, app) = (a.program("proxy"), a.program("app"));
    let local = || link("127.0.0.1", "127.0.0.1", 9000);
    a.flow(Side::Active, &proxy, Some(10), local(), 7);
    a.flow(Side::Passive, &app, Some(21), local(), 4);
    a.flow(Side::Passive, &app, Some(22), local(), 3);
    let slice = slice(vec![a]);
    assert_eq!(edges(&Map::of(&slice, By::Service).graph), ["proxy -> app :9000 ×7"]);
    assert_eq!(
        edges(&Map::of(&slice, By::Process).graph),
        ["proxy (pid 10) -> app (pid 21) :9000 ×4", "proxy (pid 10) -> app (pid 22) :9000 ×3"]
    );
}

#[test]
fn by_process_several_clients_of_several_workers_are_paired_with_the_service() {
    let mut a = host("a", &[]);
    let (proxy, app) = (a.program("proxy"), a.program("app"));
    let local = || link("127.0.0.1", "127.0.0.1", 9000);
    for (pid, n) in [(10, 5), (11, 2)] {
        a.flow(Side::Active, &proxy, Some(pid), local(), n);
    }
    for (pid, n) in [(21, 4), (22, 3)] {
        a.flow(Side::Passive, &app, Some(pid), local(), n);
    }
    assert_eq!(
        edges(&Map::of(&slice(vec![a]), By::Process).graph),
        ["proxy (pid 10) -> app :9000 ×5", "proxy (pid 11) -> app :9000 ×2"]
    );
}

#[test]
fn a_port_taken_over_belongs_to_the_new_service() {
    let mut a = host("a", &[]);
    let (client, old, new) = (a.program("client"), a.program("old"), a.program("new"));
    let local = || link("127.0.0.1", "127.0.0.1", 80);
    a.flow(Side::Active, &client, Some(10), local(), 9);
    // the same pid, another service
    a.flow(Side::Passive, &old, Some(20), local(), 4);
    a.flow(Side::Passive, &new, Some(20), local(), 5).process = Some(flows::ProcessId { pid: 20, start_ticks: 999 });
    let slice = slice(vec![a]);
    for by in [By::Service, By::Process] {
        let graph = Map::of(&slice, by).graph;
        let counts: Vec<u64> = graph.edges.iter().map(|e| e.counts.opened).collect();
        assert_eq!((graph.nodes.len(), counts.iter().sum::<u64>()), (3, 9), "{:?}", edges(&graph));
    }
}

#[test]
fn equal_names_are_replicas_on_two_hosts_and_distinct_on_one() {
    let mut a = host("a", &["10.0.0.1"]);
    let mut b = host("b", &["10.0.0.2"]);
    for h in [&mut a, &mut b] {
        let nginx = h.service(ServiceKind::Unit, "nginx.service", "");
        h.listens(&nginx, "0.0.0.0", 80);
    }
    for arguments in ["ads.jar", "shipping.jar"] {
        let java = a.service(ServiceKind::Program, "java", arguments);
        a.listens(&java, "0.0.0.0", 7000 + arguments.len() as u16);
    }
    let slice = slice(vec![a, b]);
    let graph = Map::of(&slice, By::Service).graph;
    let ids: Vec<&str> = graph.nodes.iter().map(|n| n.id.as_str()).collect();
    assert_eq!(ids.len(), 3, "{ids:?}");
    assert!(ids[0].starts_with("program:java~") && ids[1].starts_with("program:java~"), "{ids:?}");
    assert_eq!((ids[2], graph.nodes[2].hosts.len()), ("unit:nginx.service", 2));
}

#[test]
fn losses_and_silent_hosts_cause_remarks() {
    let mut slice = two_hosts();
    slice.hosts[0].losses.table_full = 3;
    slice.hosts[0].losses.closed_unseen = 4;
    slice.hosts[1].last_seen_ms = -600_000;
    slice.hosts[1].flows[0].source = Source::Polling;
    slice.hosts[1].losses.between_polls = 5;
    slice.hosts[1].flows[0].counts.opened = 6;
    let graph = Map::of(&slice, By::Service).graph;
    let expected = [
        "a: 3 connections did not fit",
        "a: 4 connections ended without an event",
        "b: its last data is 11 minutes older",
        "b: polls its sockets",
        "b: the kernel opened at least 11 ends of TCP connections in this time, and 6 were found by polls",
    ];
    for words in expected {
        assert!(graph.remarks.iter().any(|r| r.contains(words)), "{words}: {:?}", graph.remarks);
    }
    assert_eq!(graph.edges[0].source, Source::Polling, "the weaker of both ends");
    slice.hosts[1].flows.clear();
    let graph = Map::of(&slice, By::Service).graph;
    let words = "b: the kernel opened at least 5 ends of TCP connections in this time, and 0 were found by polls";
    assert!(graph.remarks.iter().any(|r| r == words), "{:?}", graph.remarks);
}

#[test]
fn refused_connections_lead_to_the_host() {
    let mut a = host("a", &[]);
    let client = a.program("client");
    let flow = a.flow(Side::Active, &client, None, link("127.0.0.1", "127.0.0.1", 9), 4);
    flow.counts = flows::Counts { opened: 4, failed: 4, ..flows::Counts::default() };
    let graph = Map::of(&slice(vec![a]), By::Service).graph;
    assert_eq!(edges(&graph), ["client -> a :9 ×4 ?"]);
    assert_eq!(graph.edges[0].counts.failed, 4);
}
