//! `make soak`: more of what `make test` does a little of.

use super::counts::counted;
use super::set_up;
use crate::setup;
use crate::shell::{command, root, run, text};
use crate::stage::Stages;
use std::path::PathBuf;

/// Fuzzing of everything that parses, more seeds, the sanitised Go suite. Half an hour or so.
pub fn soak() -> Result<(), String> {
    let mut stages = Stages::new();
    stages.run("set-up", set_up)?;
    stages.run("mutants", || {
        let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |d| d.as_secs());
        crate::conform::mutants::compare(seed, crate::conform::mutants::MANY)
    })?;
    stages.run("go race", || counted(command("go", &["test", "-race", "./..."]).current_dir(root().join("sdk/go"))))?;
    stages.run("go fuzz", || fuzz_go("60s"))?;
    stages.run("properties", || {
        counted(command("cargo", &["test", "--workspace", "--lib"]).env("PROPTEST_CASES", "200000"))
    })?;
    stages.run("seeds", || {
        counted(command("cargo", &["test", "--package", "faultloom", "--tests"]).env("FAULTLOOM_SOAK", "1"))
    })?;
    stages.run("python", || {
        setup::venv("out/python-sdk", "sdk/python/requirements-test.txt")?;
        let python = root().join("out/python-sdk/bin/python");
        let mut call = command(&python.to_string_lossy(), &["-m", "pytest", "-rs"]);
        counted(call.current_dir(root().join("sdk/python")).env("FAULTLOOM_SOAK", "1"))
    })
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
