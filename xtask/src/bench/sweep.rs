//! `make bench-sweep`: duration and CPU time of the three fault spaces of the shop's home page.
//!
//! Rounds are repeated on one running shop; the result is the median. CPU time is measured per process, so that other
//! load on the machine affects it less. The bench also checks interference: hundreds of different plans run at once,
//! and each outcome is compared with the outcome of the same plan run alone.

use super::statistics::median_interval;
use super::{Goal, finish};
use crate::setup::{self, MEMCACHED};
use crate::shell::{built, command, quiet, words};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const TARGET: &str = "lab/shop/target.yaml";
const HOME: &str = "out/bench/sweep-home";
const URL: &str = "http://127.0.0.1:8080/";
const SEED: u64 = 20_211_101;
const TICKS_PER_SECOND: f64 = 100.0;

pub fn bench() -> Result<(), String> {
    let quick = std::env::var("FAULTLOOM_BENCH").is_ok_and(|v| v == "quick");
    setup::packages(&[&MEMCACHED])?;
    setup::build_tool()?;
    setup::build_shop()?;
    crate::cargo::build(&["--package", "explore", "--examples"])?;
    let up = setup::Up::start(TARGET, Some(HOME))?;
    let result = measure(&up.state, if quick { 1 } else { 5 }, if quick { 50 } else { 400 });
    let stopped = up.stop();
    let (goals, figures) = result?;
    stopped?;
    finish(if quick { "quick-sweep" } else { "sweep" }, SEED, &goals, figures)
}

fn run_json(arguments: &[&str]) -> Result<Value, String> {
    let mut call = command(&built("faultloom"), &["--home", HOME, "--target", TARGET, "--json"]);
    call.args(arguments);
    let output = call.output().map_err(|e| format!("{}: {e}", words(&call)))?;
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(format!("{}\n{}", words(&call), String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("{}: {e}", words(&call)))
}

/// CPU ticks by service name, and of the tool as `faultloom`: the child processes of this one.
fn ticks(up: &Value) -> BTreeMap<String, f64> {
    let stat = |path: String, fields: [usize; 2]| -> f64 {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let rest: Vec<&str> = text.rsplit_once(')').map(|(_, r)| r.split_whitespace().collect()).unwrap_or_default();
        fields.iter().filter_map(|f| rest.get(f - 3)?.parse::<f64>().ok()).sum()
    };
    let mut all = BTreeMap::new();
    for service in up["services"].as_array().into_iter().flatten() {
        let name = service["name"].as_str().unwrap_or_default().to_owned();
        all.insert(name, stat(format!("/proc/{}/stat", service["process"]["pid"]), [14, 15]));
    }
    all.insert("faultloom".to_owned(), stat("/proc/self/stat".to_owned(), [16, 17]));
    all
}

fn measure(up: &Value, rounds: usize, plans: usize) -> Result<(Vec<Goal>, Value), String> {
    run_json(&["sweep", "--space", "services"])?; // warm-up
    let mut seconds: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut counts: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
    let mut cpu_us: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for round in 0..rounds {
        let before = ticks(up);
        let sweep =
            run_json(&["sweep", "--space", "services", "--space", "all-services", "--space", "temporal"])?["sweep"]
                .clone();
        let after = ticks(up);
        let mut cases = 0;
        for space in sweep["spaces"].as_array().into_iter().flatten() {
            let name = space["name"].as_str().unwrap_or_default().to_owned();
            let number = |key: &str| space[key].as_u64().unwrap_or(0);
            let current = (number("cases"), number("failures"), number("unknown"));
            if *counts.entry(name.clone()).or_insert(current) != current {
                return Err(format!(
                    "round {round}: counts of {name} differ from earlier rounds: {current:?}, {counts:?}"
                ));
            }
            cases += current.0;
            seconds.entry(name).or_default().push(space["seconds"].as_f64().unwrap_or(f64::NAN));
        }
        for (process, ticks) in after {
            let used = (ticks - before.get(&process).unwrap_or(&0.0)) / TICKS_PER_SECOND;
            cpu_us.entry(process).or_default().push(used * 1e6 / cases as f64);
        }
    }
    let interference = interference(plans)?;
    table(&seconds, &counts, &cpu_us, &interference);
    let median = |name: &str| seconds.get(name).map_or(f64::NAN, |s| median_interval(s).1);
    let cases = |name: &str| counts.get(name).map_or(0, |c| c.0) as f64;
    let differences = interference["differences"].as_array().map_or(f64::NAN, |d| d.len() as f64);
    let rate = cases("temporal") / median("temporal");
    let goals = vec![
        Goal::equals("tfi_cases", cases("temporal"), 16384.0),
        Goal::at_most("tfi_seconds", median("temporal"), 30.0),
        Goal::equals("rlfi_cases", cases("services"), 16.0),
        Goal::equals("rlfi_all_cases", cases("all-services"), 512.0),
        Goal::equals("interference", differences, 0.0),
        Goal { name: "cases_per_second".into(), value: rate, goal: "≥ 1000 (stretch)".into(), met: rate >= 1000.0 },
    ];
    let spaces: BTreeMap<&String, Value> = counts.iter().map(|(name, (cases, failures, unknown))| {
        let (low, middle, high) = median_interval(&seconds[name]);
        (name, json!({"cases": cases, "failures": failures, "unknown": unknown, "seconds_median": middle, "seconds_interval": [low, high], "cases_per_second": *cases as f64 / middle}))
    }).collect();
    let cpu: BTreeMap<&String, f64> =
        cpu_us.iter().map(|(process, values)| (process, median_interval(values).1)).collect();
    Ok((goals, json!({"rounds": rounds, "spaces": spaces, "cpu_us_per_case": cpu, "interference": interference})))
}

fn interference(plans: usize) -> Result<Value, String> {
    let trust = format!("{HOME}/up/trust");
    let output =
        quiet(&mut command(&built("examples/interference"), &[URL, &trust, &plans.to_string(), &SEED.to_string()]))?;
    serde_json::from_slice(&output.stdout).map_err(|e| format!("interference: {e}"))
}

fn table(
    seconds: &BTreeMap<String, Vec<f64>>,
    counts: &BTreeMap<String, (u64, u64, u64)>,
    cpu_us: &BTreeMap<String, Vec<f64>>,
    interference: &Value,
) {
    println!(
        "\n{:<14} {:>7} {:>9} {:>8} {:>10} {:>18} {:>9}",
        "space", "cases", "failures", "unknown", "median s", "95 % interval s", "cases/s"
    );
    for (name, (cases, failures, unknown)) in counts {
        let (low, middle, high) = median_interval(&seconds[name]);
        println!(
            "{name:<14} {cases:>7} {failures:>9} {unknown:>8} {middle:>10.3} {:>18} {:>9.0}",
            format!("{low:.3} … {high:.3}"),
            *cases as f64 / middle
        );
    }
    let mut costs: Vec<(&String, f64)> =
        cpu_us.iter().map(|(process, values)| (process, median_interval(values).1)).collect();
    costs.sort_by(|a, b| b.1.total_cmp(&a.1));
    let total: f64 = costs.iter().map(|c| c.1).sum();
    println!("\nCPU time per case: {total:.0} µs");
    for (process, us) in costs.iter().filter(|c| c.1 >= 1.0) {
        println!("  {process:<14} {us:>8.0} µs  {:>5.1} %", us * 100.0 / total);
    }
    println!(
        "\n{} concurrent plans with {} distinct outcomes, and {} requests without faults: {} differences",
        interference["plans"],
        interference["distinct_outcomes"],
        interference["clean_requests"],
        interference["differences"].as_array().map_or(0, Vec::len)
    );
}
