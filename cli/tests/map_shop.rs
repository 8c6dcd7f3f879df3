//! The map of the shop, compared with the calls of its recorded requests.

use crate::support::{Home, Shop, Started, skipped, wait_for};
use std::path::PathBuf;

/// An agent with its own lock, because the host may have another one. None if it cannot run here; the test then counts
/// as skipped.
struct Agent {
    started: Started,
    state: PathBuf,
}

impl Agent {
    fn start(home: &Home) -> Option<Agent> {
        let state = home.file("state");
        let lock = format!("faultloom-test-{}", home.path.display());
        let directory = state.to_string_lossy().into_owned();
        let mut started = home.start(&["agent", "--state", &directory, "--lock", &lock]);
        let runs = wait_for("the first window", || {
            let ended = started.has_ended();
            (ended || state.join("agent.prom").exists()).then_some(!ended)
        });
        if runs {
            return Some(Agent { started, state });
        }
        skipped(&format!("no agent can run here: {}", started.err_so_far().lines().next().unwrap_or_default()));
        None
    }

    fn stop(self) -> PathBuf {
        self.started.signal("TERM");
        self.started.wait().exits(0);
        self.state
    }
}

#[test]
fn the_shops_sockets_are_the_calls_of_its_recorded_requests() {
    let home = Home::new("map-agent");
    if !crate::support::can_shop() {
        return;
    }
    let Some(agent) = Agent::start(&home) else { return };
    let Some(shop) = Shop::up("map-shop", "") else { return };
    shop.run(&["record", &shop.url("/"), "-n", "3", "--json"]).exits(0);
    let checkout = ["-d", "product_id=mug-01&quantity=1"];
    shop.run(&["record", &shop.url("/cart"), checkout[0], checkout[1], "--json"]);
    shop.run(&["record", &shop.url("/"), "--json"]).exits(0);
    let recorded = shop.run(&["show", "last", "--json"]).exits(0).json();
    let state = agent.stop();
    let compared =
        shop.run(&["map", "--state", &state.to_string_lossy(), "--beside", "last", "--json"]).exits(0).json();
    let rows = compared["rows"].as_array().unwrap();
    let polled = compared["graph"]["edges"].as_array().unwrap().iter().any(|e| e["source"] != "ebpf");
    let text = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap().to_owned();
    let mut calls = std::collections::BTreeSet::new();
    callers(&recorded["traces"][0]["entry"], &mut calls);
    for (from, to) in &calls {
        let row = rows.iter().find(|r| r["from"] == **from && r["to"] == **to);
        let row = row.unwrap_or_else(|| panic!("{from} → {to} is not compared: {rows:#?}"));
        // polling misses a connection of a millisecond
        let short = polled && from == "client";
        assert!(row["seen"] == "both" || short, "{row}");
    }
    for row in rows.iter().filter(|row| row["seen"] != "both") {
        let (from, to, reason) = (text(row, "from"), text(row, "to"), text(row, "why"));
        let explained = match (from.as_str(), to.as_str()) {
            ("cart", "memcached") => reason.contains("carries no SDK"),
            ("client", _) if row["seen"] == "sockets" => reason.contains("health check"),
            ("client", "frontend") => polled,
            // the cart was filled by another request
            _ => reason.contains("another request"),
        };
        assert!(explained, "{row}");
    }
    assert!(rows.iter().any(|row| row["from"] == "cart" && row["to"] == "memcached"), "{rows:#?}");
    let page = shop.home.file("page.html");
    shop.run(&["report", "last", "-o", &page.to_string_lossy()]).exits(0);
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("Sockets and calls") && html.contains("carries no SDK"));
}

/// Callers and callees of a recorded tree.
fn callers(call: &serde_json::Value, found: &mut std::collections::BTreeSet<(String, String)>) {
    let text = |key: &str| call[key].as_str().unwrap().to_owned();
    let from = if call["number"] == 0 { "client".to_owned() } else { text("caller") };
    found.insert((from, text("callee")));
    for inner in call["scope"]["calls"].as_array().into_iter().flatten() {
        callers(inner, found);
    }
}
