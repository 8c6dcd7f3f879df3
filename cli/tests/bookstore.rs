//! The bookstore: an application that loses contexts, passes errors on and forgets deadlines.

use crate::support::bookstore::{Bookstore, SERVICES, calls};
use serde_json::Value;
use std::collections::BTreeMap;

/// `caller callee name` of every call that is marked as inherited.
fn inherited(recorded: &Value) -> Vec<String> {
    let text = |call: &Value, key: &str| call[key].as_str().unwrap_or_default().to_owned();
    calls(&recorded["trace"])
        .into_iter()
        .filter(|call| call["inherited"] == true)
        .map(|call| format!("{} {} {}", text(call, "caller"), text(call, "callee"), text(call, "name")))
        .collect()
}

fn gap_reasons(recorded: &Value) -> Vec<String> {
    let reasons = recorded["summary"]["gap_reasons"].as_array().unwrap();
    reasons.iter().map(|gap| gap["reason"].as_str().unwrap().to_owned()).collect()
}

fn body(recorded: &Value) -> Value {
    serde_json::from_str(recorded["body"].as_str().unwrap()).unwrap_or_default()
}

#[test]
fn doctor_finds_every_service_instrumented_and_says_why_a_trace_is_incomplete() {
    let Some(store) = Bookstore::up("bookstore-doctor") else { return };
    let report = store.home.run(&["doctor", "--target", "--json"]).exits(0).json();
    let states: BTreeMap<&str, &str> = report["services"]
        .as_array()
        .unwrap()
        .iter()
        .map(|service| (service["service"].as_str().unwrap(), service["state"].as_str().unwrap()))
        .collect();
    assert_eq!(states.len(), SERVICES.len());
    // these three serve gRPC without the health service, and the home page does not call them
    for (service, state) in states {
        let expected = if ["orders", "payment", "delivery"].contains(&service) { "ready" } else { "answers" };
        assert_eq!(state, expected, "{service}: {report}");
    }
    store.home.run(&["doctor", "--target"]).exits(0).says("GET / answered 200").says("no gaps");

    store.home.run(&["down"]).exits(0);
    store.start_at("/books/1");
    store.wait_for_estimates();
    let printed = store.home.run(&["doctor", "--target"]).exits(0);
    let incomplete = [
        "1 call from reviews to stock belonged to no request: GET /levels/{id} (reviews.js:",
        "1 call from delivery to stock belonged to no request: GET /levels/{id} (Weights.java:",
    ];
    for reason in incomplete {
        assert!(printed.out.contains(reason), "{}", printed.out);
    }
    assert!(!printed.out.contains("no gaps"), "{}", printed.out);
}

#[test]
fn calls_that_lost_their_context_are_shown_and_faults_fire_at_them() {
    let Some(store) = Bookstore::up("bookstore-lost") else { return };
    let home = store.record("/", &[]).exits(0).json();
    assert_eq!(inherited(&home), ["catalog stock GET /levels/{id}", "storefront stock GET /levels"]);
    assert_eq!((home["summary"]["gaps"].as_u64(), home["summary"]["calls"].as_u64()), (Some(0), Some(5)));
    let order = store.order(&[]).exits(0).json();
    assert_eq!(inherited(&order), ["catalog stock GET /levels/{id}", "orders mail POST /messages"]);

    let fired = |recorded: &Value, callee: &str| {
        let all = calls(&recorded["trace"]);
        let hit: Vec<&&Value> = all.iter().filter(|call| call["fault"] == 0).collect();
        assert!(!hit.is_empty() && hit.iter().all(|call| call["callee"] == callee), "{recorded}");
    };
    let disturbed = store.record("/", &["-f", "stock/GET /levels unavailable"]).exits(0).json();
    fired(&disturbed, "stock");
    let notice = "It is not known at the moment which books are available.";
    assert_eq!(body(&disturbed)["notices"], serde_json::json!([notice]));
    // in the thread that the catalog starts
    let disturbed = store.record("/books/1", &["-f", "stock/GET /levels/{id} unavailable"]).json();
    fired(&disturbed, "stock");
    assert_eq!(body(&disturbed)["available"], Value::Null);
    let disturbed = store.order(&["-f", "mail unavailable"]).exits(0).json();
    fired(&disturbed, "mail");
    let log = std::fs::read_to_string(store.home.file(".faultloom/up/logs/orders.log")).unwrap();
    assert!(log.contains("/messages"), "orders logs that the message was not sent: {log}");
    assert_eq!(inherited(&store.record("/", &[]).exits(0).json()).len(), 2, "healthy again");
}

#[test]
fn calls_of_no_request_are_counted_with_their_place_and_the_trace_is_incomplete() {
    let Some(store) = Bookstore::up("bookstore-counted") else { return };
    store.wait_for_estimates();
    let page = store.record("/books/1", &[]).exits(0).json();
    assert_eq!(inherited(&page), ["catalog stock GET /levels/{id}"]);
    let reasons = gap_reasons(&page);
    let source = |file: &str, text: &str| {
        let path = crate::support::repository().join("lab/bookstore").join(file);
        let line = std::fs::read_to_string(path).unwrap().lines().position(|line| line.contains(text)).unwrap() + 1;
        format!("{}:{line}", file.rsplit('/').next().unwrap())
    };
    let counted = |service: &str, site: &str| {
        format!("1 call from {service} to stock belonged to no request: GET /levels/{{id}} ({site})")
    };
    let expected = [
        counted("reviews", &source("node/reviews.js", "http.get(")),
        counted("delivery", &source("java/src/main/java/bookstore/Weights.java", "http.send(")),
    ];
    assert_eq!(reasons, expected);
    store.home.run(&["record", &store.url("/books/1")]).exits(0).says("incomplete").says(&expected[0]);
    // no call of these two was sent for the other pages
    assert_eq!(gap_reasons(&store.record("/", &[]).exits(0).json()), Vec::<String>::new());
}

/// The status (0: no reply) and the page of a request, without what a call of no request adds to it.
fn outcome(recorded: &Value) -> (u64, Value) {
    let mut page = body(recorded);
    if let Some(page) = page.as_object_mut() {
        for field in ["bought", "error"] {
            page.remove(field);
        }
    }
    (recorded["summary"]["status"].as_u64().unwrap_or(0), page)
}

/// Every subset of the services of a page: faults at their callers must have the effect of services that are not there.
#[test]
fn a_grid_of_faults_agrees_with_services_that_do_not_run() {
    let Some(store) = Bookstore::up("bookstore-grid") else { return };
    store.wait_for_estimates();
    let pages =
        [("/", &["catalog", "stock", "reviews"][..]), ("/books/1", &["catalog", "stock", "reviews", "delivery"])];
    let mut faulted = BTreeMap::new();
    for (path, services) in pages {
        for subset in subsets(services) {
            let faults: Vec<String> = subset.iter().map(|name| format!("{name} unavailable")).collect();
            let arguments: Vec<&str> = faults.iter().flat_map(|fault| ["-f", fault]).collect();
            let ran = store.record(path, &arguments);
            assert!(matches!(ran.status.code(), Some(0 | 1 | 5)), "{}: {}", ran.line, ran.err);
            faulted.insert((path, subset), outcome(&ran.json()));
        }
    }
    store.home.run(&["down"]).exits(0);
    let failing = |path: &str| faulted.iter().filter(|((of, _), (status, _))| *of == path && *status != 200).count();
    assert_eq!((faulted.len(), failing("/"), failing("/books/1")), (24, 0, 12));

    for absent in subsets(&["catalog", "stock", "reviews", "delivery"]) {
        store.start(&absent);
        if !absent.contains(&"delivery") && !absent.contains(&"catalog") && !absent.contains(&"reviews") {
            store.wait_for_estimates();
        }
        for (path, services) in pages {
            if !absent.iter().all(|name| services.contains(name)) {
                continue;
            }
            let real = outcome(&store.record(path, &[]).json());
            assert_eq!(faulted[&(path, absent.clone())], real, "{path} without {absent:?}");
        }
        store.home.run(&["down"]).exits(0);
    }
}

fn subsets<'a>(of: &[&'a str]) -> Vec<Vec<&'a str>> {
    let bits = 0..1_u32 << of.len();
    bits.map(|set| of.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, name)| *name).collect()).collect()
}
