//! Builds this workspace: profile, features and test binaries.
//!
//! One command with one set of features builds everything that `make test` runs ([`build_tests`]). A second command
//! with other features would compile the same dependencies again. Benches build with the profile `bench-tool`, see
//! Cargo.toml.

use crate::shell::{combined, command, note, run};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Arguments that enable the non-default features of the tests. PostgreSQL is no default, because the demo does not
/// need it.
const FEATURES: [&str; 3] = ["--workspace", "--features", "faultloom/postgres"];

/// The profile of this program, which is also used for everything that it builds: `dev`, or `bench-tool` in benches.
fn profile() -> String {
    let own = std::env::current_exe().unwrap_or_default();
    let folder = own.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    match folder.as_deref() {
        None | Some("debug" | "deps") => "dev".to_owned(),
        Some(profile) => profile.to_owned(),
    }
}

/// Environment variable that `make test` sets for nested runs of this program, because it has built everything already.
pub const PREBUILT: &str = "FAULTLOOM_PREBUILT";
/// Like [`PREBUILT`], within this process.
static IS_PREBUILT: AtomicBool = AtomicBool::new(false);

/// Runs `cargo build` with `arguments` and the profile of this program.
pub fn build(arguments: &[&str]) -> Result<(), String> {
    if IS_PREBUILT.load(Ordering::Relaxed) || std::env::var_os(PREBUILT).is_some() {
        return Ok(());
    }
    run(&mut command("cargo", &[&["build", "--quiet", "--profile", &profile()], arguments].concat()))
}

pub fn clippy() -> Result<(), String> {
    let strict = ["--all-targets", "--", "--deny", "warnings"];
    run_and_capture(&[&["clippy", "--quiet"], &FEATURES[..], &strict].concat())
}

/// Builds and runs the unit tests of libraries and programs.
pub fn unit_tests() -> Result<String, String> {
    let mut call = command("cargo", &[&["test", "--quiet", "--lib", "--bins"], &FEATURES[..]].concat());
    match combined(&mut call)? {
        (true, output) => {
            let passed =
                output.lines().filter_map(|line| line.split("ok. ").nth(1)?.split(' ').next()?.parse::<u64>().ok());
            Ok(format!("{} unit tests", passed.sum::<u64>()))
        }
        (false, output) => Err(format!("failed: {}\n{output}", crate::shell::words(&call))),
    }
}

fn run_and_capture(arguments: &[&str]) -> Result<(), String> {
    let mut call = command("cargo", arguments);
    match combined(&mut call)? {
        (true, _) => Ok(()),
        (false, output) => Err(format!("failed: {}\n{output}", crate::shell::words(&call))),
    }
}

/// One test program: an integration test or the unit tests of a library or program.
pub struct TestBinary {
    pub package: String,
    /// Name of the target, such as `main` for `tests/main.rs`.
    pub target: String,
    pub path: PathBuf,
    /// The file of its outermost module.
    pub source: PathBuf,
    /// The working directory of its tests.
    pub folder: PathBuf,
    /// Whether it has the unit tests of a library or program.
    pub is_unit: bool,
}

/// Builds all tests, programs and examples of the workspace and returns the test binaries.
pub fn build_tests() -> Result<Vec<TestBinary>, String> {
    let arguments = [&["test", "--no-run", "--message-format", "json-render-diagnostics"], &FEATURES[..]].concat();
    let output = command("cargo", &arguments).output().map_err(|e| format!("cargo: {e}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    note(&errors);
    if !output.status.success() {
        return Err(format!("cargo test --no-run failed\n{errors}"));
    }
    IS_PREBUILT.store(true, Ordering::Relaxed);
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(messages.lines().filter_map(|line| test_binary(&serde_json::from_str(line).ok()?)).collect())
}

fn test_binary(message: &Value) -> Option<TestBinary> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let folder = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).ok()?;
    let package = manifest.lines().find_map(|l| l.strip_prefix("name = \"")?.strip_suffix('"'))?.to_owned();
    Some(TestBinary {
        package,
        target: message["target"]["name"].as_str()?.to_owned(),
        path: PathBuf::from(message["executable"].as_str()?),
        source: PathBuf::from(message["target"]["src_path"].as_str()?),
        folder,
        is_unit: message["target"]["kind"].as_array()?.iter().any(|kind| kind != "test" && kind != "example"),
    })
}

impl TestBinary {
    /// The command that runs it. `arguments` are those of the test harness.
    pub fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut call = command(&self.path.to_string_lossy(), arguments);
        // same working directory and variable as with `cargo test`
        call.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        call
    }

    /// `package` or `package/target`.
    pub fn name(&self) -> String {
        if self.is_unit { self.package.clone() } else { format!("{}/{}", self.package, self.target) }
    }
}
