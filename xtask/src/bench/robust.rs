//! `make bench-robust`: what hostile input does to the SDKs and the tool. Nothing must be obeyed, crash, hang or be
//! lost.
//!
//! Unlike the figures of other benches, its counts do not depend on load: `make test` fails if a count differs from
//! its goal. `FAULTLOOM_BENCH=quick` sends less. `FAULTLOOM_BENCH_ONLY=envelopes` measures one part and keeps the
//! figures of the others.
//!
//! A part is a module below this one, with an entry in [`PARTS`] and its goals.

mod envelopes;

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
    measure: fn(&Size) -> Result<Value, String>,
    /// From the figures of the part, which are those of an earlier run if it was not measured.
    goals: fn(&Value, &Size) -> Vec<Goal>,
}

const PARTS: [Part; 1] = [Part { name: "envelopes", measure: envelopes::measure, goals: envelopes::goals }];

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
    for part in &PARTS {
        if only.as_ref().is_none_or(|only| only == part.name) {
            println!("\n {}", part.name);
            let measured = (part.measure)(&size).map_err(|e| format!("{}: {e}", part.name))?;
            figures.insert(part.name.to_owned(), measured);
        }
    }
    let goals: Vec<Goal> =
        PARTS.iter().flat_map(|part| (part.goals)(figures.get(part.name).unwrap_or(&Value::Null), &size)).collect();
    finish(name, seed, &goals, Value::Object(figures))
}
