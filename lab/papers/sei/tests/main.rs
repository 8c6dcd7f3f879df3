//! The program as campaigns call it: equal inputs on every call, as many commands as requested.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn output(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sei-inputs-{name}-{}", std::process::id()))
}

/// Runs the program and returns its summary and the bytes of the trace.
fn write(arguments: &[&str], output: &Path) -> (Value, Vec<u8>) {
    let run = Command::new(env!("CARGO_BIN_EXE_sei-inputs")).args(arguments).arg(output).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let bytes = std::fs::read(output).unwrap();
    let _ = std::fs::remove_file(output);
    (serde_json::from_slice(&run.stdout).unwrap(), bytes)
}

#[test]
fn a_trace_is_the_same_in_every_run() {
    let (summary, first) = write(&["memcached", "--commands", "100"], &output("first"));
    assert_eq!((summary["commands"].as_u64(), summary["bytes"].as_u64()), (Some(100), Some(first.len() as u64)));
    let (_, second) = write(&["memcached", "--commands", "100"], &output("second"));
    assert!(first == second, "the seed does not determine the trace");
    let (_, longer) = write(&["memcached", "--commands", "200"], &output("longer"));
    assert!(longer.len() > first.len());
}

#[test]
fn a_path_that_cannot_be_written_is_reported() {
    let run = Command::new(env!("CARGO_BIN_EXE_sei-inputs")).args(["pair", "/nonexistent/pair"]).output().unwrap();
    assert_eq!(run.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&run.stderr).starts_with("error: /nonexistent/pair: "));
}
