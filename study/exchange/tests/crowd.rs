//! Thousands of requests under way at once.

mod support;

use exchange::{Format, export};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use support::trace;

/// Each request's call lies in the lane of its own scope, however many others there are, and no lane has two scopes at a time.
#[test]
fn each_of_thousands_at_once_has_a_lane_of_its_own() {
    const REQUESTS: u128 = 3_000;
    let traces: Vec<_> = (1..=REQUESTS).map(|n| trace("otlp-nested", u128::to_be_bytes(n))).collect();
    let document = export(&traces, &[], Format::Perfetto).unwrap();
    let slices = document["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X");
    let entry =
        document["traceEvents"].as_array().unwrap().iter().find(|e| e["cat"] == "scope").unwrap()["pid"].clone();
    let mut lanes: HashMap<&Value, HashSet<&Value>> = HashMap::new();
    let mut scopes = 0;
    for slice in slices.filter(|e| e["pid"] == entry) {
        lanes.entry(&slice["tid"]).or_default().insert(&slice["args"]["trace"]);
        scopes += u128::from(slice["cat"] == "scope");
    }
    // the same moments in every request: nobody's lane is free for another one
    assert!(lanes.values().all(|traces| traces.len() == 1), "a lane holds slices of several requests");
    assert_eq!(
        (scopes % REQUESTS, lanes.len() as u128 >= REQUESTS),
        (0, true),
        "{scopes} scopes, {} lanes",
        lanes.len()
    );
}
