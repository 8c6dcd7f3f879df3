//! `make soak`: tests that take hours. More seeds, fuzzing, the race detector, and repeated runs of every area on a
//! busy machine.

use super::binaries::binaries;
use super::counts::counted;
use super::{SET_UP, areas};
use crate::busy_loops::BusyLoops;
use crate::setup;
use crate::shell::{command, log_to, root, run, text};
use crate::steps::Steps;
use std::path::PathBuf;

/// Runs of each area under load. They find a test that fails once in ten runs with a probability of 65 %.
const REPEATS: usize = 10;

/// Runs all steps in order. Takes hours.
pub fn soak() -> Result<(), String> {
    super::test(&["set-up"])?;
    let mut steps = Steps::new();
    steps.run("mutants", || {
        let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |d| d.as_secs());
        crate::conform::mutants::compare(seed, crate::conform::mutants::MANY)
    })?;
    steps.run("go race", || {
        let mut go = command("go", &["test", "-race", "./..."]);
        counted(go.current_dir(root().join("sdk/go"))).map(|counts| counts.to_string())
    })?;
    steps.run("go fuzz", || fuzz_go("60s"))?;
    steps.run("properties", || {
        let mut cargo = command("cargo", &["test", "--workspace", "--lib"]);
        counted(cargo.env("PROPTEST_CASES", "200000")).map(|counts| counts.to_string())
    })?;
    steps.run("seeds", || {
        binaries(|test| test.package == "faultloom" && !test.is_unit, &[], &[("FAULTLOOM_SOAK", "1")])
    })?;
    steps.run("robust", || crate::bench::robust::bench().map(|()| "completed".into()))?;
    steps.run("python", || {
        setup::venv("out/python-sdk", "sdk/python/requirements-test.txt")?;
        let python = root().join("out/python-sdk/bin/python");
        let mut call = command(&python.to_string_lossy(), &["-m", "pytest", "-rs"]);
        counted(call.current_dir(root().join("sdk/python")).env("FAULTLOOM_SOAK", "1")).map(|counts| counts.to_string())
    })?;
    steps.run("flaky", flaky)
}

/// Runs every area [`REPEATS`] times under the load of three busy loops. The error has the output of each failed run;
/// the logs of all runs are in `out/soak`.
fn flaky() -> Result<String, String> {
    let logs = root().join("out/soak");
    std::fs::create_dir_all(&logs).map_err(|e| format!("{}: {e}", logs.display()))?;
    let _busy = BusyLoops::start(3)?;
    let (mut runs, mut failures) = (0, Vec::new());
    for area in areas().into_iter().filter(|area| !SET_UP.contains(&area.name)) {
        for repeat in 1..=REPEATS {
            runs += 1;
            log_to(&logs.join(format!("{}-{repeat}.log", area.name)))?;
            if let Err(e) = (area.work)() {
                println!("   {} failed in run {repeat} of {REPEATS}", area.name);
                failures.push(format!("{} (run {repeat}): {e}", area.name));
            }
        }
    }
    if failures.is_empty() { Ok(format!("{runs} runs, none failed")) } else { Err(failures.join("\n")) }
}

fn fuzz_go(each: &str) -> Result<String, String> {
    let folder = root().join("sdk/go");
    let found = text("grep", &["-rnoE", "--include=*_test.go", "func Fuzz[A-Za-z0-9_]+", &folder.to_string_lossy()]);
    let mut targets = 0;
    for line in found.lines() {
        let (Some(file), Some(name)) = (line.split(':').next(), line.rsplit(' ').next()) else { continue };
        let package = PathBuf::from(file).parent().map(PathBuf::from).unwrap_or_default();
        run(command("go", &["test", "-run", "^$", "-fuzz", &format!("^{name}$"), "-fuzztime", each, "."])
            .current_dir(package))?;
        targets += 1;
    }
    Ok(format!("{targets} targets, {each} each"))
}
