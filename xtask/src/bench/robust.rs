//! `make bench-robust`: what hostile input does to the SDKs and the tool. Nothing must be obeyed, crash, hang or be
//! lost.
//!
//! Unlike the figures of other benches, its counts do not depend on load: `make test` fails if a count differs from
//! its goal. `FAULTLOOM_BENCH=quick` sends less. `FAULTLOOM_BENCH_ONLY=envelopes` measures one part and keeps the
//! figures of the others.
//!
//! A part is a module below this one, with an entry in [`PARTS`] and its goals.

mod envelopes;
mod kills;
mod replies;

use super::{Goal, committed_figures, finish};
use serde_json::{Map, Value};
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

struct Part {
    name: &'static str,
    /// Whether the quick form of all parts includes it. If not, `make test` runs what it measures in other areas.
    quick: bool,
    measure: fn(&Size) -> Result<Value, String>,
    /// From the figures of the part, which are those of an earlier run if it was not measured.
    goals: fn(&Value, &Size) -> Vec<Goal>,
}

const PARTS: [Part; 3] = [
    Part { name: "envelopes", quick: true, measure: envelopes::measure, goals: envelopes::goals },
    // the areas of the SDKs compare all replies
    Part { name: "replies", quick: false, measure: replies::measure, goals: replies::goals },
    // a test of the area `tool`
    Part { name: "kills", quick: false, measure: kills::measure, goals: kills::goals },
];

pub fn bench() -> Result<(), String> {
    let quick = std::env::var("FAULTLOOM_BENCH").is_ok_and(|v| v == "quick");
    let name = if quick { "quick-robust" } else { "robust" };
    let only = std::env::var("FAULTLOOM_BENCH_ONLY").ok();
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_secs());
    let size = Size { quick, seed };
    let exists = |name: &str| PARTS.iter().any(|part| part.name == name);
    if let Some(only) = only.as_ref().filter(|only| !exists(only)) {
        let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        return Err(format!("FAULTLOOM_BENCH_ONLY={only} is none of the parts: {}", names.join(", ")));
    }
    let mut figures = if only.is_some() { committed_figures(name, exists) } else { Map::new() };
    println!("robust: seed {seed}");
    let parts = PARTS.iter().filter(|part| part.quick || !quick || only.as_deref() == Some(part.name));
    for part in parts.clone() {
        if only.as_ref().is_none_or(|only| only == part.name) {
            println!("\n {}", part.name);
            let measured = (part.measure)(&size).map_err(|e| format!("{}: {e}", part.name))?;
            figures.insert(part.name.to_owned(), measured);
        }
    }
    let goals: Vec<Goal> =
        parts.flat_map(|part| (part.goals)(figures.get(part.name).unwrap_or(&Value::Null), &size)).collect();
    finish(name, seed, &goals, Value::Object(figures))
}
