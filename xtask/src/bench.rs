//! Benches: each prints a table, writes `bench/results/NAME.json` and prints that JSON as its last line.

pub mod attach;
pub mod build;
pub mod causes;
pub mod flips;
pub mod install;
pub mod robust;
pub mod sockets;
pub mod statistics;
pub mod sweep;
pub mod tracing;

use crate::shell::{root, text};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A figure against its goal.
#[derive(Serialize)]
pub struct Goal {
    pub name: String,
    pub value: f64,
    /// The limit with its relation, such as `≤ 0.35`.
    pub goal: String,
    pub met: bool,
}

impl Goal {
    pub fn at_most(name: impl Into<String>, value: f64, limit: f64) -> Goal {
        Goal { name: name.into(), value, goal: format!("≤ {limit}"), met: value <= limit }
    }

    pub fn below(name: impl Into<String>, value: f64, limit: f64) -> Goal {
        Goal { name: name.into(), value, goal: format!("< {limit}"), met: value < limit }
    }

    pub fn at_least(name: impl Into<String>, value: f64, limit: f64) -> Goal {
        Goal { name: name.into(), value, goal: format!("≥ {limit}"), met: value >= limit }
    }

    pub fn equals(name: impl Into<String>, value: f64, expected: f64) -> Goal {
        Goal { name: name.into(), value, goal: format!("= {expected}"), met: value == expected }
    }
}

pub fn bench(name: &str) -> Result<(), String> {
    match name {
        "sweep" => sweep::bench(),
        "tracing" => tracing::bench(),
        "attach" => attach::bench(),
        "causes" => causes::bench(),
        "sockets" => sockets::bench(),
        "flips" => flips::bench(),
        "robust" => robust::bench(),
        "build" => build::bench(),
        "install" => install::bench(),
        "all" => sweep::bench()
            .and_then(|()| attach::bench())
            .and_then(|()| causes::bench())
            .and_then(|()| tracing::bench())
            .and_then(|()| sockets::bench())
            .and_then(|()| flips::bench())
            .and_then(|()| robust::bench()),
        _ => Err(format!(
            "there is no bench '{name}'; benches: build, install, sweep, tracing, attach, causes, sockets, flips, robust"
        )),
    }
}

/// The committed figures of a bench whose names still exist, for parts that are not measured again.
pub fn committed_figures(name: &str, exists: impl Fn(&str) -> bool) -> Map<String, Value> {
    let text = std::fs::read_to_string(root().join(format!("bench/results/{name}.json"))).unwrap_or_default();
    let result: Value = serde_json::from_str(&text).unwrap_or_default();
    let figures = result["figures"].as_object().cloned().unwrap_or_default();
    figures.into_iter().filter(|(name, _)| exists(name)).collect()
}

/// Prints the goals, writes the result and prints it as the last line. An unmet goal is reported, not an error.
pub fn finish(name: &str, seed: u64, goals: &[Goal], figures: Value) -> Result<(), String> {
    println!();
    for goal in goals {
        println!(" {} {:<28} {:>12.3}   goal {}", if goal.met { "✓" } else { "✗" }, goal.name, goal.value, goal.goal);
    }
    let result = json!({
        "bench": name, "goals": goals, "figures": figures, "seed": seed,
        "commit": text("git", &["rev-parse", "--short", "HEAD"]),
        "kernel": text("uname", &["-r"]),
        "cpu": text("sh", &["-c", "sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1"]),
        "cpus": std::thread::available_parallelism().map_or(0, usize::from),
    });
    let folder = root().join("bench/results");
    let written = std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(folder.join(format!("{name}.json")), format!("{:#}\n", result)));
    written.map_err(|e| format!("{}: {e}", folder.display()))?;
    println!("{result}");
    Ok(())
}
