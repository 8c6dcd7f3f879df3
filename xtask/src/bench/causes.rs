//! `make bench-causes`: whether sweeps report the weaknesses of the sample applications, no others, and why they fail.
//!
//! The expected findings are written by hand beside the applications (`lab/*/expected.json`), by the author of a
//! weakness. `FAULTLOOM_BENCH=quick` measures fewer seeds. `FAULTLOOM_BENCH_ONLY=bookstore` measures one part and keeps
//! the figures of the other. `FAULTLOOM_BENCH_SEED` is the first seed of the shop's planted bugs.

mod bookstore;
mod expected;
mod shop;

use super::{Goal, committed_figures, finish};
use crate::shell::{built, command, root};
use expected::{Comparison, Finding, Page};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::process::Command;

/// Extent of the measurement.
pub struct Size {
    pub quick: bool,
    pub seed: u64,
}

struct Part {
    name: &'static str,
    measure: fn(&Size) -> Result<Comparison, String>,
}

const PARTS: [Part; 2] =
    [Part { name: "bookstore", measure: bookstore::measure }, Part { name: "shop", measure: shop::measure }];

/// Figures that have a goal, which is 0.
const GOALS: [&str; 4] = ["missed", "false", "wrongly_explained", "not_explained"];

pub fn bench() -> Result<(), String> {
    let quick = std::env::var("FAULTLOOM_BENCH").is_ok_and(|v| v == "quick");
    let name = if quick { "quick-causes" } else { "causes" };
    let only = std::env::var("FAULTLOOM_BENCH_ONLY").ok();
    let seed = std::env::var("FAULTLOOM_BENCH_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let size = Size { quick, seed };
    let exists = |name: &str| PARTS.iter().any(|part| part.name == name);
    if let Some(only) = only.as_ref().filter(|only| !exists(only)) {
        return Err(format!("FAULTLOOM_BENCH_ONLY={only} is none of the parts: bookstore, shop"));
    }
    let mut figures = if only.is_some() { committed_figures(name, exists) } else { Map::new() };
    println!("causes: seed {seed}");
    for part in PARTS.iter().filter(|part| only.as_ref().is_none_or(|only| only == part.name)) {
        println!("\n {}", part.name);
        let compared = (part.measure)(&size).map_err(|e| format!("{}: {e}", part.name))?;
        compared.print();
        figures.insert(part.name.to_owned(), compared.figures());
    }
    let sum = |goal: &str| figures.values().filter_map(|part| part[goal].as_u64()).sum::<u64>();
    let sums: Vec<(&str, u64)> = GOALS.iter().map(|goal| (*goal, sum(goal))).collect();
    let goals: Vec<Goal> = sums.iter().map(|(goal, sum)| Goal::equals(*goal, *sum as f64, 0.0)).collect();
    for (goal, sum) in &sums {
        figures.insert((*goal).to_owned(), json!(sum));
    }
    finish(name, seed, &goals, Value::Object(figures))
}

/// A command of the tool for a target that is up.
fn tool(target: &str, home: &Path) -> Command {
    let mut call = command(&built("faultloom"), &["--target", target]);
    call.arg("--home").arg(home);
    call
}

/// Sweeps a page. `what` names the run in messages.
fn sweep(
    mut call: Command,
    page: &Page,
    entry: &str,
    what: &str,
    expected: &[&Finding],
    to: &mut Comparison,
) -> Result<(), String> {
    call.args(["sweep", "--json", "-q"]).args(page.arguments(entry));
    // exit 1: bugs were found
    let output = call.output().map_err(|e| format!("faultloom sweep: {e}"))?;
    let swept: Value = match output.status.code() {
        Some(0 | 1) => serde_json::from_slice(&output.stdout).map_err(|e| format!("{what}: {e}"))?,
        _ => {
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("{what}: {}: {error}{}", output.status, String::from_utf8_lossy(&output.stdout)));
        }
    };
    to.add(what, expected, &swept["sweep"]);
    Ok(())
}

fn read_pages(path: &str) -> Result<Vec<Page>, String> {
    let text = std::fs::read_to_string(root().join(path)).map_err(|e| format!("{path}: {e}"))?;
    expected::pages(&text).map_err(|e| format!("{path}: {e}"))
}
