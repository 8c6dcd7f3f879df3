//! Drawings of maps: nodes keep their positions, everything is drawn or counted, no text of a host becomes markup.

use crate::fixture_net::fleet;
use crate::rows::place;
use crate::{ComparedSockets, MapReport, RecordingReport, map_html, recording_html, shop};
use flows::{Comparison, Graph, ObservedBy};
use std::collections::BTreeMap;

/// Columns and rows by id.
fn places(graph: &Graph) -> BTreeMap<String, (usize, usize)> {
    place(graph).nodes.into_iter().map(|(i, at)| (graph.nodes[i].id.clone(), at)).collect()
}

fn html(graph: &Graph) -> String {
    map_html(&MapReport { run: &shop::run(model::KindName::new("map"), "map", Some(model::Verdict::Pass)), graph })
}

#[test]
fn no_two_nodes_share_a_place_and_arrows_point_right() {
    for n in [1, 2, 10, 40, 300] {
        let graph = fleet(n);
        let placed = place(&graph);
        let mut taken: Vec<(usize, usize)> = placed.nodes.values().copied().collect();
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), placed.nodes.len(), "{n} nodes");
        assert!(placed.nodes.values().all(|(column, row)| *column < placed.columns && *row < placed.rows));
        let left = placed.arrows.iter().filter(|a| placed.nodes[&a.from].0 >= placed.nodes[&a.to].0).count();
        assert!(left * 20 <= placed.arrows.len(), "{left} of {} arrows point left", placed.arrows.len());
    }
}

#[test]
fn added_and_removed_nodes_leave_most_others_in_place() {
    for n in [10, 60, 300] {
        let graph = fleet(n);
        let before = places(&graph);
        let (mut still, mut moved, mut far) = (0, 0, 0);
        // each third leaf goes, one at a time
        let leaves: Vec<&str> = graph
            .nodes
            .iter()
            .map(|node| node.id.as_str())
            .filter(|id| graph.edges.iter().filter(|e| e.to == *id).count() == 1)
            .filter(|id| !graph.edges.iter().any(|e| e.from == *id))
            .step_by(3)
            .collect();
        for gone in &leaves {
            let mut less = graph.clone();
            less.nodes.retain(|node| node.id != *gone);
            less.edges.retain(|edge| edge.to != *gone);
            for (id, after) in places(&less) {
                match before[&id] {
                    at if at == after => still += 1,
                    (column, row) if column == after.0 && row.abs_diff(after.1) <= 2 => moved += 1,
                    _ => far += 1,
                }
            }
        }
        let all = still + moved + far;
        assert!(still * 100 >= all * 80, "{n} nodes: {still} of {all} stay");
        assert!(far * 100 <= all * 5, "{n} nodes: {far} of {all} jump");
    }
}

#[test]
fn the_order_of_a_graph_does_not_move_its_picture() {
    let graph = fleet(60);
    assert_eq!(html(&graph), html(&graph.clone()));
    assert_eq!(places(&graph), places(&graph.clone()));
}

#[test]
fn every_edge_is_in_the_picture_and_in_the_table() {
    let graph = fleet(40);
    let page = html(&graph);
    assert_eq!(page.matches("<g class=\"nd").count(), place(&graph).nodes.len());
    assert_eq!(page.matches("<g><path class=\"e").count(), place(&graph).arrows.len());
    let rows = page.split("<tbody>").nth(1).unwrap().matches("<tr>").count();
    assert_eq!(rows, graph.edges.len());
    for words in ["one end observed", "every connection failed", "counted in the kernel", "external address"] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn a_fleet_too_large_to_draw_is_a_table() {
    let page = html(&fleet(1_500));
    assert!(page.contains("too many to draw") && !page.contains("<g class=\"nd"));
    assert!(page.len() < 1_500_000, "{} bytes", page.len());
    assert!(html(&Graph::default()).contains("No connections in this range"));
}

#[test]
fn names_of_programs_are_text() {
    let mut graph = fleet(10);
    for node in &mut graph.nodes {
        node.label = format!("<img src=x onerror=alert(1)>{}", node.label);
    }
    graph.remarks.push("<script>1</script>".to_owned());
    let page = html(&graph);
    assert!(!page.contains("<img") && !page.contains("<script>1"));
}

#[test]
fn a_service_that_calls_itself_and_a_circle_are_drawn() {
    let mut graph = fleet(10);
    let ids: Vec<String> = graph.nodes.iter().map(|n| n.id.clone()).collect();
    let mut edges: Vec<_> = (0..3).map(|_| graph.edges[0].clone()).collect();
    for (edge, (from, to)) in edges.iter_mut().zip([(0, 0), (0, 1), (1, 0)]) {
        (edge.from, edge.to) = (ids[from].clone(), ids[to].clone());
    }
    graph.edges = edges;
    let page = html(&graph);
    assert_eq!(page.matches("<g><path class=\"e").count(), 3);
}

#[test]
fn sockets_stand_beside_the_recorded_calls() {
    let graph = fleet(10);
    let row = |from: &str, observed_by, reason: &str| Comparison {
        from: from.into(),
        to: "cart".into(),
        observed_by,
        calls: 3,
        connections: 2,
        reason: reason.into(),
    };
    let rows = [row("frontend", ObservedBy::Both, ""), row("cart", ObservedBy::Sockets, "carries no SDK <b>")];
    let traces = [shop::good()];
    let run = shop::run(model::KindName::new("recording"), "GET /", None);
    let with =
        |sockets| recording_html(&RecordingReport { run: &run, traces: &traces, left_out: 0, faults: &[], sockets });
    let page = with(Some(ComparedSockets { graph: &graph, rows: &rows }));
    assert!(page.contains("1 edge in both"), "{page}");
    assert!(page.contains("carries no SDK &lt;b&gt;") && page.contains("sockets only"));
    assert!(!with(None).contains("id=sockets"));
}
