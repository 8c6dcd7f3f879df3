//! Writes the page of a map of a made-up fleet, to look at it.
//!
//! `cargo run -p report --example map_fixture -- 10 small.html`

#[path = "fixture/net.rs"]
mod net;
#[path = "fixture/shop.rs"]
mod shop;

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (Some(nodes), Some(path)) = (words.first().and_then(|n| n.parse().ok()), words.get(1)) else {
        eprintln!("usage: map_fixture NODES FILE.html");
        std::process::exit(2);
    };
    let mut run =
        shop::run(model::KindName::new("map"), "map, 2026-11-21 19:00:00Z … 20:00:00Z", Some(model::Verdict::Pass));
    run.summary = serde_json::Value::Null;
    let mut graph = net::fleet(nodes);
    graph.remarks.push("host-3: polling: connections shorter than the interval are missed".to_owned());
    std::fs::write(path, report::map_html(&report::MapReport { run: &run, graph: &graph }))
}
