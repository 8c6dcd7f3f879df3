//! Runs other programs in the root of the repository. Errors include the command line.
//!
//! A thread may have a log file ([`log_to`]). The output of its commands is then appended to the log instead of printed
//! on the terminal. `make test` uses this to give each area its own log.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

thread_local! {
    static LOG: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Path of a program of this workspace. All programs are in the folder of this one, so CARGO_TARGET_DIR applies to all
/// of them.
pub fn built(program: &str) -> String {
    let own = std::env::current_exe().unwrap_or_else(|_| root().join("target/debug/xtask"));
    own.with_file_name(program).to_string_lossy().into_owned()
}

/// A command with the repository's root as working directory and an empty standard input.
pub fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}

/// The command line, for messages.
pub fn words(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

/// Redirects the output of this thread's commands to `path`, which is created or truncated.
pub fn log_to(path: &Path) -> Result<(), String> {
    File::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
    LOG.with_borrow_mut(|log| *log = Some(path.to_owned()));
    Ok(())
}

/// This thread's log, opened for appending.
fn log() -> Option<File> {
    LOG.with_borrow(|path| path.as_ref().and_then(|path| File::options().append(true).open(path).ok()))
}

/// Prints a line: to this thread's log if it has one, else to the terminal.
pub fn note(line: &str) {
    match log() {
        Some(mut log) => drop(writeln!(log, "{line}")),
        None => println!("{line}"),
    }
}

/// Runs the command with its output on the terminal or in the log.
pub fn run(command: &mut Command) -> Result<(), String> {
    if let Some(log) = log() {
        let copy = log.try_clone().map_err(|e| e.to_string())?;
        command.stdout(log).stderr(copy);
    }
    let status = command.status().map_err(|e| format!("{}: {e}", words(command)))?;
    if status.success() { Ok(()) } else { Err(format!("failed ({status}): {}", words(command))) }
}

/// Runs the command without output on the terminal. If it fails, the error includes its output.
pub fn quiet(command: &mut Command) -> Result<Output, String> {
    note_command(command);
    let output = command.output().map_err(|e| format!("{}: {e}", words(command)))?;
    if let Some(mut log) = log() {
        let _ = log.write_all(&output.stdout).and_then(|()| log.write_all(&output.stderr));
    }
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

/// Runs the command with standard output and error in one stream. Returns whether it succeeded, and the stream.
///
/// The stream is a file, not a pipe: a process that the command leaves behind cannot delay the return.
pub fn combined(command: &mut Command) -> Result<(bool, String), String> {
    note_command(command);
    let path = LOG.with_borrow(Clone::clone).unwrap_or_else(|| root().join("out/command.log"));
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    std::fs::create_dir_all(root().join("out")).map_err(failed)?;
    let stream = File::options().create(true).append(true).open(&path).map_err(failed)?;
    let begin = stream.metadata().map_err(failed)?.len();
    command.stdout(stream.try_clone().map_err(failed)?).stderr(stream);
    let status = command.status().map_err(|e| format!("{}: {e}", words(command)))?;
    let mut file = File::open(&path).map_err(failed)?;
    let mut output = Vec::new();
    file.seek(SeekFrom::Start(begin)).and_then(|_| file.read_to_end(&mut output)).map_err(failed)?;
    Ok((status.success(), String::from_utf8_lossy(&output).into_owned()))
}

fn note_command(command: &Command) {
    if let Some(mut log) = log() {
        let _ = writeln!(log, "$ {}", words(command));
    }
}

/// Trimmed standard output of a command. Empty if it cannot be started.
pub fn text(program: &str, arguments: &[&str]) -> String {
    command(program, arguments)
        .output()
        .map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
        .unwrap_or_default()
}

pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).any(|dir| dir.join(program).is_file())
}
