//! Queries, neighborhoods, changes and text formats.

use crate::support::*;
use flows::{ServiceKind, Side, Slice};
use map::{By, Change, Direction, Map, NotFound, changes, dot, mermaid, neighborhood};
use std::collections::BTreeSet;

/// client → front → api → db on one host, with a container and a unit.
fn chain() -> Slice {
    let mut a = host("alpha", &["10.0.0.1"]);
    let front = a.service(ServiceKind::Unit, "nginx.service", "");
    let api = a.service(ServiceKind::Container, "api", "3f9a2c11d0aa");
    let db = a.program("postgres");
    a.process(&front, 100);
    a.process(&api, 200);
    a.process(&db, 300);
    a.listens(&front, "0.0.0.0", 80);
    a.listens(&api, "127.0.0.1", 8080);
    a.listens(&db, "10.0.0.1", 5432);
    a.flow(Side::Passive, &front, Some(100), link("192.0.2.7", "10.0.0.1", 80), 5);
    a.flow(Side::Active, &front, Some(100), link("127.0.0.1", "127.0.0.1", 8080), 5);
    a.flow(Side::Passive, &api, Some(200), link("127.0.0.1", "127.0.0.1", 8080), 5);
    a.flow(Side::Active, &api, Some(200), link("10.0.0.1", "10.0.0.1", 5432), 2);
    a.flow(Side::Passive, &db, Some(300), link("10.0.0.1", "10.0.0.1", 5432), 2);
    slice(vec![a])
}

fn found(slice: &Slice, by: By, text: &str) -> Vec<String> {
    let map = Map::of(slice, by);
    let labels = |id: &String| map.graph.nodes.iter().find(|n| n.id == *id).unwrap().label.clone();
    map.find(text).unwrap_or_else(|e| panic!("{text}: {e:?}")).iter().map(labels).collect()
}

#[test]
fn a_service_is_found_by_every_kind_of_query() {
    let slice = chain();
    for text in [
        "api",
        "container:3f9a2c",
        "3f9a2c11",
        "pid:200",
        "200",
        "pid:200@alpha",
        ":8080",
        "127.0.0.1:8080",
        "container:api",
    ] {
        assert_eq!(found(&slice, By::Service, text), ["api"], "{text}");
    }
    assert_eq!(found(&slice, By::Service, "nginx"), ["nginx.service"]);
    assert_eq!(found(&slice, By::Service, "unit:nginx.service"), ["nginx.service"]);
    assert_eq!(found(&slice, By::Service, "10.0.0.1:5432"), ["postgres"]);
    assert_eq!(found(&slice, By::Service, "192.0.2.7"), ["192.0.2.7"]);
    assert_eq!(found(&slice, By::Service, "alpha").len(), 3);
    assert_eq!(found(&slice, By::Service, "10.0.0.1").len(), 3, "all services at the address");
    assert_eq!(found(&slice, By::Process, "api"), ["api (pid 200)"]);
    assert_eq!(found(&slice, By::Process, "pid:300"), ["postgres (pid 300)"]);
    assert_eq!(found(&slice, By::Host, "api"), ["alpha"]);
}

#[test]
fn ambiguous_queries_list_candidates_and_unknown_ones_list_similar_names() {
    let mut slice = chain();
    slice.hosts[0].service(ServiceKind::Unit, "api", "");
    let unit = slice.hosts[0].service(ServiceKind::Unit, "api", "");
    slice.hosts[0].listens(&unit, "0.0.0.0", 9);
    let map = Map::of(&slice, By::Service);
    let Err(NotFound::Ambiguous { candidates, .. }) = map.find("api") else { panic!("{:?}", map.find("api")) };
    let typed: Vec<&str> = candidates.iter().map(|(typed, _)| typed.as_str()).collect();
    assert_eq!(typed, ["container:api", "unit:api"]);
    for text in typed {
        assert_eq!(map.find(text).unwrap().len(), 1, "{text} can be typed");
    }
    let failure = model::Failure::from(map.find("api").unwrap_err());
    assert_eq!(failure.exit(), model::Exit::Usage);
    let Err(NotFound::Unknown { similar, .. }) = map.find("postgers") else { panic!() };
    assert_eq!(similar, ["postgres"]);
    for text in ["", ":", "[", "pid:", "pid:x", "999999", "10.9.9.9", ":1", "nothing at all", "host:", "\u{1b}[31m"] {
        assert!(matches!(map.find(text), Err(NotFound::Unknown { .. })), "{text:?}: {:?}", map.find(text));
    }
}

#[test]
fn a_reused_pid_is_ambiguous() {
    let mut slice = chain();
    let cron = slice.hosts[0].program("cron");
    slice.hosts[0].flow(Side::Active, &cron, None, link("10.0.0.1", "10.0.0.1", 5432), 1).process =
        Some(flows::ProcessId { pid: 200, start_ticks: 1 });
    let map = Map::of(&slice, By::Service);
    let Err(NotFound::Ambiguous { candidates, .. }) = map.find("pid:200") else { panic!() };
    assert_eq!(candidates.len(), 2);
    assert_eq!(map.graph.edges.len(), 4, "{:?}", edges(&map.graph));
}

#[test]
fn hops_go_in_one_direction() {
    let slice = chain();
    let map = Map::of(&slice, By::Service);
    let start = map.find("api").unwrap();
    let shown = |direction, hops| edges(&neighborhood(&map.graph, &start, direction, hops));
    assert_eq!(shown(Direction::DependsOn, 9), ["api -> postgres :5432 ×2"]);
    assert_eq!(shown(Direction::DependedBy, 1), ["nginx.service -> api :8080 ×5"]);
    assert_eq!(shown(Direction::DependedBy, 2).len(), 2);
    assert_eq!(shown(Direction::Both, 1).len(), 2);
    assert!(shown(Direction::Both, 0).is_empty());
}

#[test]
fn changes_list_new_removed_and_failing_parts() {
    let (before, mut after) = (chain(), chain());
    after.hosts[0].flows[1].counts = flows::Counts { opened: 3, failed: 3, ..flows::Counts::default() };
    after.hosts[0].flows.remove(2);
    after.hosts[0].flows.truncate(2);
    let cron = after.hosts[0].program("cron");
    after.hosts[0].flow(Side::Active, &cron, None, link("10.0.0.1", "10.0.0.1", 5432), 1);
    let (a, b) = (Map::of(&before, By::Service), Map::of(&after, By::Service));
    let words: Vec<String> = changes(&a.graph, &b.graph)
        .iter()
        .map(|change| match change {
            Change::NewNode { node } => format!("new {}", node.id),
            Change::GoneNode { node } => format!("gone {}", node.id),
            Change::NewEdge { edge } => format!("new edge of {}", edge.from),
            Change::GoneEdge { edge } => format!("gone edge of {}", edge.from),
            Change::Failing { after, .. } => format!("failing edge of {}", after.from),
            Change::Healed { after, .. } => format!("healed edge of {}", after.from),
        })
        .collect();
    assert_eq!(
        words,
        [
            "new program:cron",
            "new edge of program:cron",
            "failing edge of unit:nginx.service",
            "gone edge of container:api"
        ]
    );
    assert!(changes(&b.graph, &a.graph).iter().any(|c| matches!(c, Change::Healed { .. })));
}

#[test]
fn text_forms_are_quoted() {
    let mut slice = chain();
    slice.hosts[0].services[1].name = "a\"]; evil [x\n".into();
    let graph = Map::of(&slice, By::Service).graph;
    let (dot, mermaid) = (dot(&graph), mermaid(&graph));
    assert!(dot.contains(r#"[label="a\"]; evil [x "]"#), "{dot}");
    assert!(mermaid.contains("#34;#93;#59; evil #91;x "), "{mermaid}");
    assert_eq!(dot.matches(" -> ").count(), 3);
    assert_eq!(mermaid.lines().count(), 1 + 4 + 3);
}

#[test]
fn one_hop_around_all_nodes_includes_all_edges() {
    let slice = chain();
    let map = Map::of(&slice, By::Service);
    let all: BTreeSet<String> = map.graph.nodes.iter().map(|n| n.id.clone()).collect();
    assert_eq!(neighborhood(&map.graph, &all, Direction::DependsOn, 1).edges, map.graph.edges);
}
