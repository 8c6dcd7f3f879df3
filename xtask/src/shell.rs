//! Running other programs, from the repository's root, with errors that name the command.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// A program of this workspace, beside this one: whoever sets a folder for builds sets it for all of them.
pub fn built(program: &str) -> String {
    let own = std::env::current_exe().unwrap_or_else(|_| root().join("target/debug/xtask"));
    own.with_file_name(program).to_string_lossy().into_owned()
}

pub fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}

pub fn words(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

/// Runs with the output passed through.
pub fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("{}: {e}", words(command)))?;
    if status.success() { Ok(()) } else { Err(format!("failed ({status}): {}", words(command))) }
}

/// Runs quietly; on failure the error holds what the command printed.
pub fn quiet(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|e| format!("{}: {e}", words(command)))?;
    if output.status.success() {
        return Ok(output);
    }
    Err(format!(
        "failed ({}): {}\n{}{}",
        output.status,
        words(command),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    ))
}

/// Standard output as text, trimmed; empty if the command fails or is not there.
pub fn text(program: &str, arguments: &[&str]) -> String {
    command(program, arguments)
        .output()
        .map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
        .unwrap_or_default()
}

pub fn have(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).any(|dir| dir.join(program).is_file())
}
