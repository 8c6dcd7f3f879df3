//! The bookstore as a new user tries it: from the first start to a tree of each page, and what the trees lack.

use super::Size;
use crate::bench::Goal;
use crate::bench::statistics::Interval;
use crate::setup;
use crate::shell::{built, command, quiet, root};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const TARGET: &str = "lab/bookstore/target.yaml";
const STOREFRONT: &str = "http://127.0.0.1:9300";
/// Longer than the delivery service needs to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

fn home() -> PathBuf {
    root().join("out/bench/bookstore")
}

fn tool(arguments: &[&str]) -> Command {
    let mut call = command(&built("faultloom"), &["--target", TARGET]);
    call.arg("--home").arg(home()).args(arguments);
    call
}

pub fn measure(size: &Size) -> Result<Value, String> {
    setup::build_tool()?;
    setup::build_agent()?;
    setup::build_node_sdk()?;
    setup::build_bookstore()?;
    let rounds = if size.quick { 1 } else { 5 };
    let mut seconds = Vec::new();
    let mut last = Value::Null;
    for _ in 0..rounds {
        let _ = std::fs::remove_dir_all(home());
        let begin = Instant::now();
        quiet(&mut tool(&["up", "--detach"]))?;
        let measured = record_pages(begin);
        quiet(&mut tool(&["down"]))?;
        let (to_first_tree, figures) = measured?;
        seconds.push(to_first_tree);
        last = figures;
    }
    let interval = Interval::of(&seconds);
    println!(" seconds from `up` to the first tree: {:.2}", interval.median);
    println!(" {last}");
    last["seconds_to_first_tree"] = json!(interval);
    last["rounds"] = json!(rounds);
    Ok(last)
}

fn record(path: &str, more: &[&str]) -> Result<Value, String> {
    let output = quiet(tool(&["record", "--json", "-q", &format!("{STOREFRONT}{path}")]).args(more))?;
    serde_json::from_slice(&output.stdout).map_err(|e| format!("record {path}: {e}"))
}

/// Seconds to the tree of the home page, and what the trees of three pages have.
fn record_pages(begin: Instant) -> Result<(f64, Value), String> {
    let home_page = record("/", &[])?;
    let to_first_tree = begin.elapsed().as_secs_f64();
    let doctor = quiet(&mut tool(&["doctor", "--json"]))?;
    let doctor: Value = serde_json::from_slice(&doctor.stdout).map_err(|e| format!("doctor: {e}"))?;
    let services = doctor["services"].as_array().map_or(&[][..], Vec::as_slice);
    let instrumented = services.iter().filter(|service| service["ok"] == true).count();

    // the first estimates take longer than their deadline
    let cold = record("/books/1", &[])?;
    let begin = Instant::now();
    let book = loop {
        let page = record("/books/1", &[])?;
        if page["body"].as_str().is_some_and(|body| body.contains("delivery_days")) {
            break page;
        }
        if begin.elapsed() > START_TIMEOUT {
            return Err("the delivery service never answers within the deadline".to_owned());
        }
    };
    let form = ["-X", "POST", "-H", "Content-Type: application/json", "-d", r#"{"customer": "ada", "book": "1"}"#];
    let order = record("/orders", &form)?;

    // by the source: what each page calls, as the README of the bookstore lists it
    let made = [(&home_page, 5), (&book, 6), (&order, 7)];
    let mut missing = 0;
    for (page, calls) in made {
        let shown = page["summary"]["calls"].as_u64().unwrap_or(0);
        missing += i64::from(calls) - (shown + counted(&page["trace"]["entry"])) as i64;
    }
    let figures = json!({
        "services": services.len(),
        "instrumented": instrumented,
        "pages": made.len(),
        "calls": made.iter().map(|(_, calls)| calls).sum::<i32>(),
        "inherited": made.iter().map(|(page, _)| inherited(&page["trace"]["entry"])).sum::<u64>(),
        "counted": made.iter().map(|(page, _)| counted(&page["trace"]["entry"])).sum::<u64>(),
        "unmarked_missing_calls": missing,
        "first_estimate_within_deadline": cold["body"].as_str().is_some_and(|body| body.contains("delivery_days")),
    });
    Ok((to_first_tree, figures))
}

fn sum_calls(call: &Value, of: &dyn Fn(&Value) -> u64) -> u64 {
    let inside = call["scope"]["calls"].as_array().into_iter().flatten();
    of(call) + inside.map(|call| sum_calls(call, of)).sum::<u64>()
}

fn inherited(entry: &Value) -> u64 {
    sum_calls(entry, &|call| u64::from(call["inherited"] == true))
}

fn counted(entry: &Value) -> u64 {
    sum_calls(entry, &|call| {
        call["scope"]["unscoped"].as_array().into_iter().flatten().filter_map(|calls| calls["count"].as_u64()).sum()
    })
}

pub fn goals(figures: &Value) -> Vec<Goal> {
    let figure = |name: &str| figures[name].as_f64().unwrap_or(f64::NAN);
    vec![
        Goal::equals("bookstore_instrumented", figure("instrumented"), 8.0),
        Goal::equals("bookstore_missing_calls", figure("unmarked_missing_calls"), 0.0),
    ]
}
