//! Time from `faultloom init` to the first recorded tree of a new application.
//!
//! It runs the commands of a new user, without the time for typing. Each round works on a fresh copy of `lab/tickets`.
//! The build of the application itself is not counted; the rebuild with the Go wrapper is.

use super::Size;
use crate::bench::Goal;
use crate::bench::statistics::Interval;
use crate::setup;
use crate::shell::{built, command, quiet, root};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

const REQUEST: &str = "http://127.0.0.1:9100/show/1";
const STEPS: [&str; 4] = ["init", "go build", "up", "record"];

pub fn measure(size: &Size) -> Result<Value, String> {
    let rounds = if size.quick { 1 } else { 7 };
    setup::build_tool()?;
    setup::build_agent()?;
    setup::build_node_sdk()?;
    let mut samples: Vec<[f64; STEPS.len()]> = Vec::new();
    for round in 1..=rounds {
        let sample = one_round()?;
        println!(" round {round}: {:.1} s", sample.iter().sum::<f64>());
        samples.push(sample);
    }
    println!("\n {:<12} {:>8}   95 % interval", "seconds", "median");
    let mut steps = serde_json::Map::new();
    for (i, step) in STEPS.iter().enumerate() {
        let value = Interval::of(&samples.iter().map(|s| s[i]).collect::<Vec<f64>>());
        println!(" {step:<12} {:>8.2}   {:.2} to {:.2}", value.median, value.low, value.high);
        steps.insert((*step).to_owned(), json!(value));
    }
    let total = Interval::of(&samples.iter().map(|s| s.iter().sum()).collect::<Vec<f64>>());
    println!(" {:<12} {:>8.2}   {:.2} to {:.2}", "all", total.median, total.low, total.high);
    Ok(json!({ "seconds_to_first_tree": total, "steps": steps, "rounds": rounds, "services": 4, "languages": 4 }))
}

pub fn goals(figures: &Value) -> Vec<Goal> {
    let median = figures["seconds_to_first_tree"]["median"].as_f64().unwrap_or(f64::NAN);
    vec![Goal::at_most("seconds_to_first_tree", median, 60.0)]
}

fn one_round() -> Result<[f64; STEPS.len()], String> {
    let folder = fresh_copy()?;
    quiet(command("./build.sh", &[]).current_dir(&folder))?;
    // an empty cache, so that the wrapper compiles everything in each round
    let cache = folder.join("go-cache");
    let tool = built("faultloom");
    let run = |folder: &Path, arguments: &[&str]| {
        let begin = Instant::now();
        let output = quiet(command(&tool, arguments).current_dir(folder).env("GOCACHE", &cache))?;
        Ok::<_, String>((begin.elapsed().as_secs_f64(), output.stdout))
    };
    let init = run(&folder, &["init", "Procfile"])?.0;
    let build = run(&folder.join("shows"), &["go", "build", "-o", "../bin/shows", "."])?.0;
    let up = run(&folder, &["up", "--detach"])?.0;
    let recorded = run(&folder, &["record", "--json", REQUEST]);
    run(&folder, &["down"])?;
    let (record, output) = recorded?;
    let tree: Value = serde_json::from_slice(&output).map_err(|e| format!("record: {e}"))?;
    if tree["summary"]["gaps"] != 0 || tree["summary"]["calls"] != 4 {
        return Err(format!("the tree is incomplete: {}", tree["summary"]));
    }
    quiet(command("chmod", &["-R", "u+w"]).arg(&folder))?;
    std::fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok([init, build, up, record])
}

/// Copies the committed files of the application to a new folder.
fn fresh_copy() -> Result<PathBuf, String> {
    let folder = root().join("out/bench/attach");
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    let _ = std::fs::remove_dir_all(&folder);
    let from = root().join("lab/tickets");
    let listed = quiet(command("git", &["ls-files", "-z"]).current_dir(&from))?;
    for name in String::from_utf8_lossy(&listed.stdout).split('\0').filter(|name| !name.is_empty()) {
        let to = folder.join(name);
        std::fs::create_dir_all(to.parent().unwrap_or(&folder)).map_err(failed)?;
        std::fs::copy(from.join(name), to).map_err(failed)?;
    }
    Ok(folder)
}
