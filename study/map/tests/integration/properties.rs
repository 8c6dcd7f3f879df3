//! Properties of all slices.

use crate::support::*;
use flows::{Graph, HostSlice, Side, Slice};
use map::{By, Direction, Map, changes, merge, neighborhood};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A random dependency: its ends, number of connections, and the ends that observe it.
#[derive(Clone, Debug)]
struct Drawn {
    from: (usize, usize, u32), // host, service, pid
    to: (usize, usize, u32),
    local: bool,
    port: u16,
    n: u64,
    observed: (bool, bool),
}

fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    let end = || (0..3usize, 0..3usize, 1..4u32);
    let one = (end(), end(), any::<bool>(), 1..4u16, 1..9u64, any::<(bool, bool)>());
    proptest::collection::vec(
        one.prop_map(|(from, to, local, port, n, observed)| Drawn { from, to, local, port, n, observed }),
        0..24,
    )
}

fn built(drawn: &[Drawn], prefix: &str, net: u8) -> Slice {
    let address = |h: usize| format!("10.{net}.0.{}", h + 1);
    let mut hosts: Vec<HostSlice> = (0..3).map(|h| host(&format!("{prefix}{h}"), &[&address(h)])).collect();
    for d in drawn {
        let to_host = if d.local { d.from.0 } else { d.to.0 };
        let link = if d.local {
            link("127.0.0.1", "127.0.0.1", d.port)
        } else {
            link(&address(d.from.0), &address(d.to.0), d.port)
        };
        let ends = [(Side::Active, d.from.0, d.from, d.observed.0), (Side::Passive, to_host, d.to, d.observed.1)];
        for (side, h, (_, service, pid), is_observed) in ends {
            if is_observed {
                let key = hosts[h].program(&format!("{prefix}{service}"));
                // a pid belongs to one service of a host
                hosts[h].flow(side, &key, Some(pid * 10 + service as u32), link.clone(), d.n);
            }
        }
    }
    slice(hosts)
}

fn bys() -> impl Strategy<Value = By> {
    prop_oneof![Just(By::Process), Just(By::Service), Just(By::Host)]
}

/// New random cases in each run, without a seed file; a failure prints its case.
fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

fn ids(graph: &Graph) -> BTreeSet<String> {
    graph.nodes.iter().map(|n| n.id.clone()).collect()
}

fn keys(graph: &Graph) -> BTreeSet<String> {
    graph.edges.iter().map(|e| format!("{} {} {}", e.from, e.to, e.at)).collect()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_order_of_hosts_and_flows_changes_nothing(drawn in drawn(), by in bys(), turn in 0..24usize) {
        let slice = built(&drawn, "s", 0);
        let mut other = slice.clone();
        other.hosts.reverse();
        for h in &mut other.hosts {
            let n = h.flows.len().max(1);
            h.flows.rotate_left(turn % n);
            h.services.reverse();
        }
        prop_assert_eq!(Map::of(&slice, by).graph, Map::of(&other, by).graph);
    }

    #[test]
    fn every_flow_is_on_exactly_one_edge(drawn in drawn(), by in bys()) {
        let slice = built(&drawn, "s", 0);
        let map = Map::of(&slice, by);
        let mut on_edges = BTreeSet::new();
        for (flow, edge) in map.flows_on_edges() {
            prop_assert!(on_edges.insert(flow), "{flow:?} is on two edges");
            prop_assert!(edge < map.graph.edges.len());
        }
        prop_assert_eq!(on_edges.len(), slice.hosts.iter().map(|h| h.flows.len()).sum::<usize>());
    }

    #[test]
    fn connections_of_complete_slices_are_counted_once(drawn in drawn(), by in bys()) {
        let whole: Vec<Drawn> = drawn.into_iter().map(|d| Drawn { observed: (true, true), ..d }).collect();
        let slice = built(&whole, "s", 0);
        let graph = Map::of(&slice, by).graph;
        let counted: u64 = graph.edges.iter().map(|e| e.counts.opened).sum();
        prop_assert_eq!(counted, whole.iter().map(|d| d.n).sum::<u64>());
        prop_assert!(graph.edges.iter().all(|e| e.paired));
    }

    #[test]
    fn every_edge_has_its_nodes(drawn in drawn(), by in bys()) {
        let slice = built(&drawn, "s", 0);
        let graph = Map::of(&slice, by).graph;
        let nodes = ids(&graph);
        prop_assert_eq!(nodes.len(), graph.nodes.len());
        prop_assert!(graph.edges.iter().all(|e| nodes.contains(&e.from) && nodes.contains(&e.to)));
        prop_assert_eq!(keys(&graph).len(), graph.edges.len());
    }

    #[test]
    fn more_hops_never_show_less(drawn in drawn(), by in bys(), at in 0..9usize, hops in 0..5usize) {
        let slice = built(&drawn, "s", 0);
        let graph = Map::of(&slice, by).graph;
        prop_assume!(!graph.nodes.is_empty());
        let start: BTreeSet<String> = [graph.nodes[at % graph.nodes.len()].id.clone()].into();
        for direction in [Direction::DependsOn, Direction::DependedBy, Direction::Both] {
            let (near, far) = (neighborhood(&graph, &start, direction, hops), neighborhood(&graph, &start, direction, hops + 1));
            prop_assert!(ids(&near).is_subset(&ids(&far)));
            prop_assert!(keys(&near).is_subset(&keys(&far)));
            prop_assert!(start.is_subset(&ids(&near)));
        }
    }

    #[test]
    fn disjoint_slices_have_disjoint_graphs(one in drawn(), two in drawn(), by in bys()) {
        let (one, two) = (built(&one, "s", 0), built(&two, "t", 1));
        let (a, b) = (Map::of(&one, by).graph, Map::of(&two, by).graph);
        let both = merge([one.clone(), two.clone()]);
        let together = Map::of(&both, by).graph;
        prop_assert_eq!(ids(&together), ids(&a).union(&ids(&b)).cloned().collect::<BTreeSet<_>>());
        let mut edges: Vec<_> = a.edges.iter().chain(&b.edges).cloned().collect();
        edges.sort_by(|x, y| (&x.from, &x.to, x.protocol, &x.at).cmp(&(&y.from, &y.to, y.protocol, &y.at)));
        prop_assert_eq!(together.edges, edges);
    }

    #[test]
    fn a_graph_has_not_changed_against_itself(drawn in drawn(), by in bys()) {
        let slice = built(&drawn, "s", 0);
        let graph = Map::of(&slice, by).graph;
        prop_assert_eq!(changes(&graph, &graph), vec![]);
        let from_empty = changes(&Graph::default(), &graph);
        prop_assert_eq!(from_empty.len(), graph.nodes.len() + graph.edges.len());
    }
}
