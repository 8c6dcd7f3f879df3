//! The bookstore as an application that is described only by Kubernetes manifests: the commands that a new user runs
//! until the first tree, and their time.
//!
//! Each round works on a fresh copy, without a target file and with empty caches of the Go compiler. The application's
//! own builds are commands too, but their time is not counted; the rebuild with the Go wrapper is.

use super::Size;
use crate::bench::Goal;
use crate::bench::statistics::Interval;
use crate::setup;
use crate::shell::{built, command, quiet, root};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What the application needs to start without Faultloom, by the beginning of a printed step.
const OWN_BUILDS: [&str; 3] = ["(cd python ", "(cd java ", "(cd node "];

pub fn measure(size: &Size) -> Result<Value, String> {
    setup::build_tool()?;
    setup::build_agent()?;
    setup::build_node_sdk()?;
    let rounds = if size.quick { 1 } else { 5 };
    let mut samples = Vec::new();
    let mut last = None;
    for round in 1..=rounds {
        let measured = one_round()?;
        println!(" round {round}: {:.1} s", measured.seconds);
        samples.push(measured.seconds);
        last = Some(measured);
    }
    let last = last.ok_or("no rounds")?;
    let seconds = Interval::of(&samples);
    println!(" {} commands, {:.1} s to the first tree", last.commands.len(), seconds.median);
    last.commands.iter().for_each(|line| println!("   {line}"));
    Ok(json!({
        "commands": last.commands.len(), "lines": last.commands, "seconds_to_first_tree": seconds,
        "services": last.services, "calls": last.calls, "rounds": rounds,
    }))
}

pub fn goals(figures: &Value) -> Vec<Goal> {
    let figure = |name: &str| figures[name].as_f64().unwrap_or(f64::NAN);
    let median = figures["seconds_to_first_tree"]["median"].as_f64().unwrap_or(f64::NAN);
    vec![
        Goal::at_most("manifests_commands", figure("commands"), 6.0),
        Goal::equals("manifests_services", figure("services"), 8.0),
        Goal::equals("manifests_calls", figure("calls"), 5.0),
        Goal::at_most("manifests_seconds_to_first_tree", median, 60.0),
    ]
}

struct Round {
    /// Everything that the user types, in order.
    commands: Vec<String>,
    seconds: f64,
    services: usize,
    calls: u64,
}

fn one_round() -> Result<Round, String> {
    let folder = fresh_copy()?;
    let cache = folder.join("go-cache");
    // the application's own build of its Go services
    quiet(command("go", &["build", "./cmd/..."]).current_dir(folder.join("go")).env("GOCACHE", &cache))?;
    let tool = PathBuf::from(built("faultloom"));
    let before = std::env::var_os("PATH").unwrap_or_default();
    let folders = tool.parent().map(Path::to_owned).into_iter().chain(std::env::split_paths(&before));
    let path = std::env::join_paths(folders).map_err(|e| e.to_string())?;
    let mut commands = Vec::new();
    let mut seconds = 0.0;
    let mut run = |line: &str| {
        commands.push(line.to_owned());
        let begin = Instant::now();
        let output =
            quiet(command("sh", &["-c", line]).current_dir(&folder).env("GOCACHE", &cache).env("PATH", &path))?;
        if !OWN_BUILDS.iter().any(|own| line.starts_with(own)) {
            seconds += begin.elapsed().as_secs_f64();
        }
        serde_json::from_slice::<Value>(&output.stdout).or(Ok::<_, String>(Value::Null))
    };
    let drafted = run("faultloom init --json")?;
    let steps: Vec<String> =
        drafted["next"].as_array().into_iter().flatten().filter_map(|step| step.as_str().map(str::to_owned)).collect();
    // the last step only checks
    for step in steps.iter().filter(|step| !step.contains("doctor")) {
        run(step)?;
    }
    // starts the services, records, and stops them
    let recorded = run("faultloom record --json")?;
    if recorded["summary"]["gaps"] != 0 {
        return Err(format!("the tree is incomplete: {}", recorded["summary"]));
    }
    let services = drafted["services"].as_array().map_or(0, Vec::len);
    let calls = recorded["summary"]["calls"].as_u64().unwrap_or(0);
    quiet(command("chmod", &["-R", "u+w"]).arg(&folder))?;
    std::fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(Round { commands, seconds, services, calls })
}

/// The committed files of the application, without its target file.
fn fresh_copy() -> Result<PathBuf, String> {
    let folder = root().join("out/bench/manifests");
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    let _ = std::fs::remove_dir_all(&folder);
    let from = root().join("lab/bookstore");
    let listed = quiet(command("git", &["ls-files", "-z"]).current_dir(&from))?;
    for name in String::from_utf8_lossy(&listed.stdout).split('\0').filter(|name| !name.is_empty()) {
        if name == "target.yaml" {
            continue;
        }
        let to = folder.join(name);
        std::fs::create_dir_all(to.parent().unwrap_or(&folder)).map_err(failed)?;
        std::fs::copy(from.join(name), to).map_err(failed)?;
    }
    Ok(folder)
}
