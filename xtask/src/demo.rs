//! `make demo`: a first tour. It builds and starts the shop, records one request, sweeps four fault spaces, compares
//! the map and writes a report.
//!
//! It uses the command line of the tool, as a user does, and passes the output through.

use crate::map_demo::DemoAgent;
use crate::setup::{self, JDK, MAVEN, MEMCACHED, NODE, NPM, Up};
use crate::shell::{built, command, root, run, text, words};
use crate::steps::Steps;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "lab/shop/target.yaml";
const SPACES: [&str; 4] = ["services", "all-services", "temporal", "guided"];

pub fn demo() -> Result<(), String> {
    let out = root().join("out/demo");
    let _ = std::fs::remove_dir_all(&out);
    std::fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    println!(
        "Faultloom demo · 10 services, 4 languages · everything stops and is removed at the end (Ctrl-C any time)\n"
    );
    let mut steps = Steps::new();
    steps.run("packages", || setup::packages(&[&MEMCACHED, &JDK, &MAVEN, &NODE, &NPM]))?;
    steps.run("build", || setup::build_tool().and_then(|()| setup::build_shop()).map(|()| "faultloom, shop".into()))?;
    let mut agent = DemoAgent::start(&out.join("agent"));
    let mut up = None;
    steps.run("start", || {
        let started = up.insert(Up::start(TARGET, None)?);
        Ok(format!("{} services healthy", started.services()))
    })?;
    let result = tour(&mut steps, &out, &mut agent);
    // also after a failed tour
    let stopped = steps.run("stop", || {
        let stopped = up.take().map_or(Ok(0), Up::stop)?;
        Ok(format!("{stopped} processes stopped"))
    });
    let summary = result?;
    stopped?;
    write_summary(&steps, summary, &out)?;
    println!("\n report   out/demo/report.html        next: {} --help   (docs/guides/first-minutes.md)", tool());
    Ok(())
}

/// Path of the tool, relative to the root if it lies below it, so that printed commands are short and can be copied.
fn tool() -> String {
    let built = built("faultloom");
    let below = Path::new(&built).strip_prefix(root()).map(|path| path.to_string_lossy().into_owned());
    below.unwrap_or(built)
}

fn faultloom(arguments: &[&str]) -> Command {
    let mut call = command(&tool(), &["--target", TARGET]);
    call.args(arguments);
    call
}

/// Runs the tool with --json. Exit status 1 (the target failed) is a result, not an error.
fn run_json(arguments: &[&str]) -> Result<Value, String> {
    let mut call = faultloom(arguments);
    call.arg("--json");
    let output = call.output().map_err(|e| format!("{}: {e}", words(&call)))?;
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(format!("{}\n{}", words(&call), String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("{}: {e}", words(&call)))
}

fn tour(steps: &mut Steps, out: &std::path::Path, agent: &mut DemoAgent) -> Result<Summary, String> {
    let mut recorded = Value::Null;
    steps.run("record", || {
        // the first requests open connections and take longer
        run_json(&["record", "--count", "2"])?;
        recorded = run_json(&["record"])?;
        let s = &recorded["summary"];
        Ok(format!(
            "GET /   {} messages, {} services, {}",
            s["messages"],
            s["services"].as_array().map_or(0, Vec::len),
            gaps(s["gaps"].as_u64().unwrap_or(0))
        ))
    })?;
    run(&mut faultloom(&["show", "last"]))?;
    let mut sweep = Value::Null;
    steps.run("sweep", || {
        println!();
        let mut arguments = vec!["sweep"];
        SPACES.iter().for_each(|s| arguments.extend(["--space", s]));
        sweep = run_sweep(&arguments)?;
        Ok(SPACES.join(", "))
    })?;
    let mut map = Value::Null;
    steps.run("map", || {
        let comparison = match agent.stop() {
            Some(state) => run_json(&["map", "--state", &state, "--beside", "last"]),
            // without an agent, only connections that are still open appear
            None => run_json(&["map", "--now", "--beside", "last"]),
        };
        match comparison {
            Ok(compared) => map = compared,
            Err(reason) => return Ok(format!("skipped: {}", reason.lines().nth(1).unwrap_or(&reason))),
        }
        let [both, sockets, messages] = ["both", "sockets", "messages"].map(|source| edges_observed_by(&map, source));
        Ok(format!("{both} edges in sockets and messages, {sockets} only in sockets, {messages} only in messages"))
    })?;
    let report = out.join("report.html").to_string_lossy().into_owned();
    steps
        .run("report", || run_json(&["report", "last", "--output", &report]).map(|_| "out/demo/report.html".into()))?;
    Ok(Summary { recorded, sweep, map })
}

/// The sweep with its own progress on the terminal; the result is read from the store afterwards.
fn run_sweep(arguments: &[&str]) -> Result<Value, String> {
    let mut call = faultloom(arguments);
    let status = call.status().map_err(|e| format!("{}: {e}", words(&call)))?;
    if !matches!(status.code(), Some(0 | 1)) {
        return Err(format!("failed ({status}): {}", words(&call)));
    }
    Ok(run_json(&["show", "last"])?["sweep"].clone())
}

fn gaps(n: u64) -> String {
    if n == 0 { "no gaps".into() } else { format!("{n} gaps") }
}

/// Number of edges in the comparison whose source is `source`: `both`, `sockets` or `messages`.
fn edges_observed_by(map: &Value, source: &str) -> usize {
    map["rows"].as_array().into_iter().flatten().filter(|row| row["seen"] == source).count()
}

struct Summary {
    recorded: Value,
    sweep: Value,
    map: Value,
}

fn write_summary(steps: &Steps, summary: Summary, out: &std::path::Path) -> Result<(), String> {
    let languages = languages();
    let edges = |source: &str| edges_observed_by(&summary.map, source);
    let stages: Value = json!(
        steps
            .seconds()
            .iter()
            .map(|(name, s)| (name.clone(), json!((s * 100.0).round() / 100.0)))
            .collect::<serde_json::Map<_, _>>()
    );
    let space = |s: &Value| {
        json!({
            "cases": s["cases"], "failures": s["failures"], "unknown": s["unknown"],
            "behaviours": s["patterns"], // words: allow, a key on disk
            "seconds": s["seconds"],
        })
    };
    let spaces: serde_json::Map<String, Value> = summary.sweep["spaces"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|s| (s["name"].as_str().unwrap_or_default().to_owned(), space(s)))
        .collect();
    let bug = |b: &Value| {
        json!({
            "name": b["name"], "title": b["title"], "minimal_fault_set": fault_arguments(&b["again"]),
            "failing_cases": b["failing_cases"],
        })
    };
    let bugs: Vec<Value> = summary.sweep["bugs"].as_array().into_iter().flatten().map(bug).collect();
    let value = json!({
        "services": application_services()?, "languages": languages.len(), "language_names": languages,
        "events": summary.recorded["summary"]["events"], "gaps": summary.recorded["summary"]["gaps"],
        "map": {"both": edges("both"), "sockets": edges("sockets"), "messages": edges("messages")},
        "spaces": spaces, "bugs_found": bugs, "stages": stages, "commit": text("git", &["rev-parse", "--short", "HEAD"]),
    });
    let path = out.join("summary.json");
    std::fs::write(&path, format!("{value:#}\n")).map_err(|e| format!("{}: {e}", path.display()))
}

/// The `--fault` arguments of the command that reproduces a bug.
fn fault_arguments(again: &Value) -> Vec<String> {
    again
        .as_str()
        .unwrap_or_default()
        .split("--fault '")
        .skip(1)
        .filter_map(|rest| rest.split('\'').next())
        .map(str::to_owned)
        .collect()
}

/// Values of all lines of the target file that start with `key`. A full parser is not needed: the tool has validated
/// the file.
fn target_values(key: &str) -> Result<Vec<String>, String> {
    let path: PathBuf = root().join(TARGET);
    let file = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(file.lines().filter_map(|l| l.trim().strip_prefix(key)).map(|v| v.trim().to_owned()).collect())
}

/// Services without support services such as caches.
fn application_services() -> Result<usize, String> {
    Ok(target_values("- name:")?.len() - target_values("support: true")?.len())
}

fn languages() -> Vec<String> {
    let mut names: Vec<String> =
        target_values("sdk:").unwrap_or_default().into_iter().filter(|l| l != "none").collect();
    names.sort();
    names.dedup();
    names
}
