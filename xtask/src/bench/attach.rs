//! `make bench-attach`: what a new user gets from an unprepared application. The time to the first tree, the same for
//! the bookstore and for an application with nothing but Kubernetes manifests, and whether traces of programs that lose
//! contexts are complete.
//!
//! `FAULTLOOM_BENCH=quick` measures less. `FAULTLOOM_BENCH_ONLY=contexts` measures one part and keeps the figures of
//! the others; `FAULTLOOM_BENCH_SEED` repeats the programs of an earlier run.

mod attribution;
mod bookstore;
mod contexts;
mod first_tree;
mod manifests;
mod plans;

pub use contexts::NODE_WORKER_GOALS;

use super::{Goal, committed_figures, finish};
use serde_json::{Map, Value};
use std::time::{SystemTime, UNIX_EPOCH};

/// Extent of the measurement.
pub struct Size {
    pub quick: bool,
    pub seed: u64,
}

struct Part {
    name: &'static str,
    measure: fn(&Size) -> Result<Value, String>,
    goals: fn(&Value) -> Vec<Goal>,
}

const PARTS: [Part; 4] = [
    Part { name: "first-tree", measure: first_tree::measure, goals: first_tree::goals },
    Part { name: "bookstore", measure: bookstore::measure, goals: bookstore::goals },
    Part { name: "manifests", measure: manifests::measure, goals: manifests::goals },
    Part { name: "contexts", measure: contexts::measure, goals: contexts::goals },
];

pub fn bench() -> Result<(), String> {
    let quick = std::env::var("FAULTLOOM_BENCH").is_ok_and(|v| v == "quick");
    let name = if quick { "quick-attach" } else { "attach" };
    let only = std::env::var("FAULTLOOM_BENCH_ONLY").ok();
    let given = std::env::var("FAULTLOOM_BENCH_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_secs());
    let size = Size { quick, seed: given.unwrap_or_else(now) };
    let exists = |name: &str| PARTS.iter().any(|part| part.name == name);
    if let Some(only) = only.as_ref().filter(|only| !exists(only)) {
        let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        return Err(format!("FAULTLOOM_BENCH_ONLY={only} is none of the parts: {}", names.join(", ")));
    }
    let mut figures = if only.is_some() { committed_figures(name, exists) } else { Map::new() };
    println!("attach: seed {}", size.seed);
    for part in PARTS.iter().filter(|part| only.as_ref().is_none_or(|only| only == part.name)) {
        println!("\n {}", part.name);
        let measured = (part.measure)(&size).map_err(|e| format!("{}: {e}", part.name))?;
        figures.insert(part.name.to_owned(), measured);
    }
    let goals: Vec<Goal> = PARTS
        .iter()
        .filter_map(|part| figures.get(part.name).map(|measured| (part.goals)(measured)))
        .flatten()
        .collect();
    finish(name, size.seed, &goals, Value::Object(figures))
}
