//! Cost and completeness of tracing connections: every mode of the agent, `ss` once per second, and a packet filter
//! that logs new connections, in interleaved rounds with an untraced pair as control.
//!
//! Runs in its own network namespace. `FAULTLOOM_BENCH=quick` only checks that the bench runs.
//! `FAULTLOOM_BENCH_ONLY=completeness` (or `busy`, `latency`, `memory`, `fleet`) measures one part and keeps the
//! figures of the others.

pub mod arena;
mod busy;
mod completeness;
mod fleet;
mod latency;
mod load;
mod memory;
pub mod tracer;

use super::statistics::Interval;
use super::{Goal, finish};
use crate::setup::{self, CONNTRACK, IPROUTE, NFTABLES, POSTGRESQL, ULOGD};
use crate::shell::root;
use serde_json::{Map, Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// Extent of the measurement.
pub struct Size {
    pub quick: bool,
    pub seed: u64,
}

impl Size {
    pub fn of<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}

type Part = (&'static str, fn(&Size) -> Result<Value, String>);

const PARTS: [Part; 5] = [
    ("completeness", completeness::measure),
    ("busy", busy::measure),
    ("latency", latency::measure),
    ("memory", memory::measure),
    ("fleet", fleet::measure),
];

pub fn bench() -> Result<(), String> {
    let quick = std::env::var("FAULTLOOM_BENCH").is_ok_and(|v| v == "quick");
    let name = if quick { "quick-sockets" } else { "sockets" };
    if !arena::inside() {
        setup::packages(&[&NFTABLES, &CONNTRACK, &IPROUTE, &ULOGD, &POSTGRESQL])?;
        build()?;
        build_fleet()?;
        return arena::enter(&["bench", "sockets"]);
    }
    let only = std::env::var("FAULTLOOM_BENCH_ONLY").ok();
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_secs());
    let size = Size { quick, seed };
    let mut figures = if only.is_some() { earlier(name) } else { Map::new() };
    println!("sockets: seed {seed}");
    for (part, measure) in PARTS {
        if only.as_ref().is_none_or(|only| only == part) {
            println!("\n {part}");
            figures.insert(part.to_owned(), measure(&size).map_err(|e| format!("{part}: {e}"))?);
        }
    }
    finish(name, seed, &goals(&figures), Value::Object(figures))
}

/// Builds the tool and the load generator.
pub fn build() -> Result<(), String> {
    crate::cargo::build(&["--package", "faultloom", "--package", "connections"])
}

/// Builds the fleet simulation with PostgreSQL support.
fn build_fleet() -> Result<(), String> {
    crate::cargo::build(&["--package", "flowdb", "--features", "postgres", "--example", "load"])
}

/// Figures of an earlier run, for parts that are not measured again.
fn earlier(name: &str) -> Map<String, Value> {
    let text = std::fs::read_to_string(root().join(format!("bench/results/{name}.json"))).unwrap_or_default();
    let result: Value = serde_json::from_str(&text).unwrap_or_default();
    result["figures"].as_object().cloned().unwrap_or_default()
}

/// Median and interval of the values, as JSON.
pub fn interval(values: &[f64]) -> Value {
    json!(Interval::of(values))
}

fn goals(figures: &Map<String, Value>) -> Vec<Goal> {
    let figure = |path: &[&str]| {
        let start = figures.get(path[0]).cloned().unwrap_or_default();
        path[1..].iter().fold(start, |value, key| value[*key].clone()).as_f64().unwrap_or(f64::NAN)
    };
    // over all loads; the result is NaN if a figure is missing
    let of_loads = |key: &str, choose: fn(f64, f64) -> f64| {
        let choose = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { choose(a, b) };
        let figures = completeness::figure_names().map(|load| figure(&["completeness", load.as_str(), "ebpf", key]));
        figures.reduce(choose).unwrap_or(f64::NAN)
    };
    vec![
        Goal::equals("captured_percent", of_loads("captured_percent", f64::min), 100.0),
        Goal::equals("unclosed", of_loads("unclosed", f64::max), 0.0),
        Goal::at_least("exact_owner_percent", of_loads("exact_owner_percent", f64::min), 99.0),
        Goal::below("cpu_percent_20k_ebpf", figure(&["busy", "20000", "ebpf", "median"]), 1.0),
        Goal::below("cpu_percent_20k_polling", figure(&["busy", "20000", "polling", "median"]), 10.0),
        Goal::at_most("added_us_per_connection", figure(&["latency", "added_us", "ebpf", "median"]), 5.0),
        Goal::below("rss_mb", figure(&["memory", "ebpf", "rss_mb"]), 30.0),
    ]
}
