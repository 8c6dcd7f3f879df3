//! `make demo`: the first minute. Set-up, the shop, one request whole, three spaces swept, the bugs in words, a report to open.
//!
//! It uses the tool as anybody would, by its command line, and prints what the tool says.

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
    // the shop is stopped whatever happened
    let stopped = steps.run("stop", || {
        let stopped = up.take().map_or(Ok(0), Up::stop)?;
        Ok(format!("{stopped} processes, nothing left behind"))
    });
    let summary = result?;
    stopped?;
    write_summary(&steps, summary, &out)?;
    println!("\n report   out/demo/report.html        next: {} --help   (docs/guides/first-minutes.md)", tool());
    Ok(())
}

/// Relative, where it is below the root, so that the commands it prints can be copied.
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

/// Runs the tool with --json; exit 1 (the target failed) is a result, not an error.
fn ask(arguments: &[&str]) -> Result<Value, String> {
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
        // the first requests meet cold connections
        ask(&["record", "--count", "2"])?;
        recorded = ask(&["record"])?;
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
        sweep = swept(&arguments)?;
        Ok(SPACES.join(", "))
    })?;
    let mut map = Value::Null;
    steps.run("map", || {
        let beside = match agent.stop() {
            Some(state) => ask(&["map", "--state", &state, "--beside", "last"]),
            // what is kept open can still be looked at
            None => ask(&["map", "--now", "--beside", "last"]),
        };
        match beside {
            Ok(compared) => map = compared,
            Err(reason) => return Ok(format!("skipped: {}", reason.lines().nth(1).unwrap_or(&reason))),
        }
        let [both, sockets, messages] = ["both", "sockets", "messages"].map(|what| seen(&map, what));
        Ok(format!("{both} edges in sockets and messages, {sockets} only in sockets, {messages} only in messages"))
    })?;
    let report = out.join("report.html").to_string_lossy().into_owned();
    steps.run("report", || ask(&["report", "last", "--output", &report]).map(|_| "out/demo/report.html".into()))?;
    Ok(Summary { recorded, sweep, map })
}

/// The sweep with its own progress on the terminal; the result is read from the store afterwards.
fn swept(arguments: &[&str]) -> Result<Value, String> {
    let mut call = faultloom(arguments);
    let status = call.status().map_err(|e| format!("{}: {e}", words(&call)))?;
    if !matches!(status.code(), Some(0 | 1)) {
        return Err(format!("failed ({status}): {}", words(&call)));
    }
    Ok(ask(&["show", "last"])?["sweep"].clone())
}

fn gaps(n: u64) -> String {
    if n == 0 { "no gaps".into() } else { format!("{n} gaps") }
}

/// Edges of the comparison that were seen by `what`.
fn seen(map: &Value, what: &str) -> usize {
    map["rows"].as_array().into_iter().flatten().filter(|row| row["seen"] == what).count()
}

struct Summary {
    recorded: Value,
    sweep: Value,
    map: Value,
}

fn write_summary(steps: &Steps, summary: Summary, out: &std::path::Path) -> Result<(), String> {
    let languages = languages();
    let state: Value = json!(
        steps
            .seconds()
            .iter()
            .map(|(name, s)| (name.clone(), json!((s * 100.0).round() / 100.0)))
            .collect::<serde_json::Map<_, _>>()
    );
    let spaces: serde_json::Map<String, Value> = summary.sweep["spaces"].as_array().into_iter().flatten().map(|s| {
        (s["name"].as_str().unwrap_or_default().to_owned(), json!({"cases": s["cases"], "failures": s["failures"], "unknown": s["unknown"], "behaviours": s["patterns"], "seconds": s["seconds"]}))
    }).collect();
    let bugs: Vec<Value> = summary.sweep["bugs"].as_array().into_iter().flatten().map(|b| {
        json!({"name": b["name"], "title": b["title"], "minimal_fault_set": fault_texts(&b["again"]), "failing_cases": b["failing_cases"]})
    }).collect();
    let value = json!({
        "services": own_services()?, "languages": languages.len(), "language_names": languages,
        "events": summary.recorded["summary"]["events"], "gaps": summary.recorded["summary"]["gaps"],
        "map": {"both": seen(&summary.map, "both"), "sockets": seen(&summary.map, "sockets"), "messages": seen(&summary.map, "messages")},
        "spaces": spaces, "bugs_found": bugs, "stages": state, "commit": text("git", &["rev-parse", "--short", "HEAD"]),
    });
    let path = out.join("summary.json");
    std::fs::write(&path, format!("{value:#}\n")).map_err(|e| format!("{}: {e}", path.display()))
}

/// The texts of the faults in the command that reproduces a bug.
fn fault_texts(again: &Value) -> Vec<String> {
    again
        .as_str()
        .unwrap_or_default()
        .split("--fault '")
        .skip(1)
        .filter_map(|rest| rest.split('\'').next())
        .map(str::to_owned)
        .collect()
}

/// The lines of the target file that matter here; the tool itself has read and checked it before.
fn target_lines(key: &str) -> Result<Vec<String>, String> {
    let path: PathBuf = root().join(TARGET);
    let file = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(file.lines().filter_map(|l| l.trim().strip_prefix(key)).map(|v| v.trim().to_owned()).collect())
}

fn own_services() -> Result<usize, String> {
    Ok(target_lines("- name:")?.len() - target_lines("support: true")?.len())
}

fn languages() -> Vec<String> {
    let mut names: Vec<String> = target_lines("sdk:").unwrap_or_default().into_iter().filter(|l| l != "none").collect();
    names.sort();
    names.dedup();
    names
}
