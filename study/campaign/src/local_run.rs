//! One run of a program as the current user, without a sandbox: its output and how it ended.

use bit_flips::engine_messages::Program;
use model::Failure;
use model::flip::{Crash, Effect, Ending};
use model::flip::{Output, Stream};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use target::CommandGuard;

const STDERR_MAX: u64 = 16 << 10;
/// Output of a check command.
const STDOUT_MAX: u64 = 1 << 20;
const FILES_MAX: usize = 256;
const POLL: Duration = Duration::from_millis(1);

pub struct LocalRun {
    pub output: Output,
    pub effect: Effect,
    pub stderr: Vec<u8>,
}

/// Runs a program in a new folder with its files. Blocks until it ends or is killed after `timeout`; neither is an
/// error.
pub fn run_program(guard: &CommandGuard, program: &Program, timeout: Duration) -> Result<LocalRun, Failure> {
    let temp = std::env::temp_dir();
    let folder = guard.create_folder().map_err(|e| {
        Failure::environment(format!("no folder for the program can be made in {}: {e}", temp.display()))
    })?;
    for file in &program.files {
        let to = folder.path().join(file.file_name().unwrap_or_default());
        std::fs::copy(file, &to)
            .and_then(|_| sandbox::set_start_time(&to))
            .map_err(|e| Failure::request(format!("{} cannot be copied: {e}", file.display())))?;
    }
    let [name, arguments @ ..] = program.argv.as_slice() else {
        return Err(Failure::request("no program is given"));
    };
    let stdin = match &program.stdin {
        None => Stdio::null(),
        Some(path) => {
            let file =
                File::open(path).map_err(|e| Failure::request(format!("{} cannot be read: {e}", path.display())))?;
            file.into()
        }
    };
    let mut command = Command::new(name);
    command.args(arguments).env_clear().envs(program.env.iter().cloned()).current_dir(folder.path()).stdin(stdin);
    let most = program.limits.file_bytes;
    let mut run = run_command(guard, &mut command, most, timeout)
        .map_err(|e| Failure::request(format!("{name} cannot be started: {e}")))?;
    run.output.streams.extend(files(folder.path(), most));
    Ok(run)
}

/// Runs the user's shell command in the current directory with the current environment.
pub fn run_shell(guard: &CommandGuard, command: &str, timeout: Duration) -> Result<LocalRun, Failure> {
    let mut shell = Command::new("sh");
    guard.mark(shell.args(["-c", command]).stdin(Stdio::null()));
    run_command(guard, &mut shell, STDOUT_MAX, timeout)
        .map_err(|e| Failure::environment(format!("'{command}' cannot be started: {e}")))
}

/// Runs a command and kills it, with its process group, after `timeout`.
fn run_command(guard: &CommandGuard, command: &mut Command, most: u64, timeout: Duration) -> std::io::Result<LocalRun> {
    let begin = Instant::now();
    let mut guarded = guard.spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let child = &mut guarded.child;
    let stdout = child.stdout.take().map(|from| std::thread::spawn(move || bounded(from, most)));
    let stderr = child.stderr.take().map(|from| std::thread::spawn(move || bounded(from, STDERR_MAX)));
    let ending = ending(wait(child, timeout));
    let cpu_us = begin.elapsed().as_micros() as u64;
    // whatever it started must not keep the pipes open
    end(child);
    let read =
        |thread: Option<std::thread::JoinHandle<Vec<u8>>>| thread.and_then(|t| t.join().ok()).unwrap_or_default();
    let output = Output { streams: vec![Stream { name: "stdout".to_owned(), bytes: read(stdout) }] };
    let crash = match ending {
        Ending::Signal(signal) => Some(Crash { signal, ip: 0, symbol: None }),
        _ => None,
    };
    let effect = Effect { hit: String::new(), activated: true, ending, crash, cpu_us, refused_calls: 0 };
    Ok(LocalRun { output, effect, stderr: read(stderr) })
}

fn bounded(from: impl Read, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut from = from;
    let _ = from.by_ref().take(most).read_to_end(&mut bytes);
    // further output is discarded, so that the writer does not block
    let _ = std::io::copy(&mut from, &mut std::io::sink());
    bytes
}

/// None: it was killed after the timeout.
fn wait(child: &mut Child, timeout: Duration) -> Option<ExitStatus> {
    let begin = Instant::now();
    while begin.elapsed() < timeout {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        std::thread::sleep(POLL);
    }
    end(child);
    let _ = child.wait();
    None
}

fn end(child: &Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

fn ending(status: Option<ExitStatus>) -> Ending {
    match status {
        None => Ending::Hang,
        Some(status) => status.signal().map_or_else(|| Ending::Exit(status.code().unwrap_or(0)), Ending::Signal),
    }
}

fn files(folder: &Path, most: u64) -> Vec<Stream> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file())).take(FILES_MAX);
    let mut streams: Vec<Stream> = files
        .filter_map(|entry| {
            let bytes = bounded(File::open(entry.path()).ok()?, most);
            Some(Stream { name: entry.file_name().to_string_lossy().into_owned(), bytes })
        })
        .collect();
    streams.sort_by(|a, b| a.name.cmp(&b.name));
    streams
}
