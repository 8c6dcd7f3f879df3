//! SIGKILL at random moments of tool, supervisor, reaper, engine and services, over every verb and space. The scenarios
//! are a test of the tool, `cli/tests/kills.rs`.

use super::{Goal, Size};
use crate::cargo::build_tests;
use crate::shell::{combined, root};
use serde_json::{Value, json};

const KILLS_MIN: u64 = 300;
const KILLS_QUICK: u64 = 20;
const TEST: &str = "kills::a_kill_at_any_moment_leaves_nothing_behind_and_loses_and_repeats_nothing";
const RESULT: &str = "out/bench/robust-kills.json";

/// Lists with a text for each problem; their lengths are the figures.
const PROBLEMS: [&str; 4] = ["left_behind", "lost_cases", "repeated_cases", "failures"];

pub fn measure(size: &Size) -> Result<Value, String> {
    let tests = build_tests()?;
    let is_tool = |package: &str| package == "faultloom";
    let test = tests.iter().find(|test| is_tool(&test.package) && !test.is_unit).ok_or("the tool has no tests")?;
    let file = root().join(RESULT);
    std::fs::create_dir_all(root().join("out/bench")).map_err(|e| e.to_string())?;
    let _ = std::fs::remove_file(&file);
    let mut call = test.command(&["--exact", TEST, "--nocapture"]);
    call.env("FAULTLOOM_KILLS", size.of(KILLS_QUICK, KILLS_MIN).to_string())
        .env("FAULTLOOM_KILLS_RESULT", &file)
        .env("FAULTLOOM_TEST_SEED", size.seed.to_string());
    // it fails if there is a problem, which is a figure here
    let (_, output) = combined(&mut call)?;
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}\n{output}", file.display()))?;
    let mut result: Value = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))?;
    println!("  {} kills", result["kills"]);
    for (victim, kills) in result["by_victim"].as_object().into_iter().flatten() {
        println!("  {victim:<20} {kills:>6}");
    }
    for key in PROBLEMS {
        let texts = result[key].as_array().cloned().unwrap_or_default();
        for text in texts.iter().filter_map(Value::as_str) {
            println!("    {key}: {text}");
        }
        result[format!("{key}_examples")] = texts.iter().take(5).cloned().collect();
        result[key] = json!(texts.len());
    }
    Ok(result)
}

pub fn goals(figures: &Value, size: &Size) -> Vec<Goal> {
    let figure = |key: &str| figures[key].as_f64().unwrap_or(f64::NAN);
    let mut goals = vec![Goal::at_least("kills", figure("kills"), size.of(KILLS_QUICK, KILLS_MIN) as f64)];
    goals.extend(PROBLEMS.map(|key| Goal::equals(key, figure(key), 0.0)));
    goals
}
