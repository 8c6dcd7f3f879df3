//! `make bench-build`: how long a contributor waits. Durations of a cold demo and check in fresh clones and of the last
//! full test run, and sizes.
//!
//! *Cold* means a fresh clone with an empty build folder and an empty Go build cache. Downloaded packages (cargo, Go,
//! npm, Maven, pip) stay cached, because the network is not measured. The bench takes about ten minutes and needs 10 GB
//! below `out/`, which it removes.

use super::{Goal, finish};
use crate::cargo;
use crate::shell::{command, quiet, root, text, words};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

pub fn bench() -> Result<(), String> {
    let folder = root().join("out/bench/build");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let clone = FreshClone::make(&folder.join("demo"))?;
    let demo = clone.make_target("demo")?;
    drop(clone);
    let clone = FreshClone::make(&folder.join("check"))?;
    let check_cold = clone.make_target("check")?;
    let check_warm = clone.make_target("check")?;
    drop(clone);
    let minutes = last_test_run();
    let binaries = cargo::build_tests()?;
    let figures = json!({
        "demo_cold": demo.json(), "check_cold": check_cold.json(), "check_warm": check_warm.json(),
        "test": minutes, "crates": crates(), "dependencies": dependencies(),
        "test_binaries": binaries.iter().filter(|test| !test.is_unit).count(), "lines": lines()?,
    });
    println!("{figures:#}");
    let test_min = minutes["total_min"].as_f64().filter(|_| minutes["cold"] == true).unwrap_or(f64::NAN);
    let goals = [
        Goal::at_most("demo_cold_cpu_s", demo.cpu_s, 600.0),
        Goal::at_most("demo_cold_s", demo.seconds, 360.0),
        Goal::at_most("check_cold_s", check_cold.seconds, 240.0),
        Goal::at_most("check_warm_s", check_warm.seconds, 60.0),
        Goal::at_most("test_cold_min", test_min, 28.0),
    ];
    finish("build", 0, &goals, figures)
}

struct Cost {
    seconds: f64,
    cpu_s: f64,
}

impl Cost {
    fn json(&self) -> Value {
        json!({"seconds": self.seconds.round(), "cpu_s": self.cpu_s.round()})
    }
}

/// A clone of the last commit, removed on drop.
struct FreshClone(PathBuf);

impl FreshClone {
    fn make(folder: &Path) -> Result<FreshClone, String> {
        let clone = FreshClone(folder.to_owned());
        let (from, to) = (root().to_string_lossy().into_owned(), folder.to_string_lossy().into_owned());
        quiet(&mut command("git", &["clone", "--quiet", "--no-hardlinks", &from, &to]))?;
        Ok(clone)
    }

    fn make_target(&self, target: &str) -> Result<Cost, String> {
        let mut make = Command::new("make");
        make.arg(target).current_dir(&self.0).env("GOCACHE", self.0.join("out/go-cache"));
        for inherited in ["CARGO_TARGET_DIR", "CARGO_MANIFEST_DIR", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES"] {
            make.env_remove(inherited);
        }
        let (begin, before) = (Instant::now(), children_cpu_s());
        quiet(&mut make)?;
        let cost = Cost { seconds: begin.elapsed().as_secs_f64(), cpu_s: children_cpu_s() - before };
        println!(" {:<14} {:>5.0} s, {:>5.0} s of CPU time", words(&make), cost.seconds, cost.cpu_s);
        Ok(cost)
    }
}

impl Drop for FreshClone {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// CPU time of all child processes that have exited, in seconds.
fn children_cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // the program name is in parentheses and may contain spaces
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|value| value.parse::<f64>().ok()).unwrap_or(0.0);
    let per_second: f64 = text("getconf", &["CLK_TCK"]).parse().unwrap_or(100.0);
    (ticks(13) + ticks(14)) / per_second
}

/// Minutes per area of the last full `make test`, or null.
fn last_test_run() -> Value {
    let text = std::fs::read_to_string(root().join("out/test/minutes.json")).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn crates() -> usize {
    text("git", &["ls-files", "*/Cargo.toml"]).lines().count()
}

fn dependencies() -> usize {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap_or_default();
    lock.lines().filter(|line| line.starts_with("source = ")).count()
}

/// Lines of text per folder of the first two levels, without vectors and lock files.
fn lines() -> Result<Map<String, Value>, String> {
    let listed =
        quiet(&mut command("git", &["ls-files", "--", ".", ":!spec/vectors", ":!*.lock", ":!*lock.json", ":!*.sum"]))?;
    let mut sums = Map::new();
    for file in String::from_utf8_lossy(&listed.stdout).lines() {
        let Ok(text) = std::fs::read_to_string(root().join(file)) else { continue };
        let parts: Vec<&str> = file.split('/').collect();
        let depth = if ["cli", "app", "xtask", "docs", "bench"].contains(&parts[0]) { 1 } else { 2 };
        let folder = match parts[..parts.len() - 1].iter().take(depth).copied().collect::<Vec<_>>().join("/") {
            top if top.is_empty() => ".".to_owned(),
            folder => folder,
        };
        let sum = sums.get(&folder).and_then(Value::as_u64).unwrap_or(0) + text.lines().count() as u64;
        sums.insert(folder, sum.into());
    }
    Ok(sums)
}
