//! A minimal program around the supervisor. Tests kill it by SIGTERM and by SIGKILL.
//!
//! `target-up up TARGET STATE_DIR` starts and waits for SIGTERM or SIGINT; `target-up down STATE_DIR` stops it from
//! another process; `target-up reaper` is the reaper that it starts.

use model::Failure;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use target::{ReaperCommand, StartOptions, Supervisor, Target};
use tokio::signal::unix::{SignalKind, signal};

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if words.first() == Some(&"reaper") {
        target::reaper_main();
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: {error}");
            return 3.into();
        }
    };
    let outcome = runtime.block_on(async {
        match words.as_slice() {
            ["up", target, state_dir] => up(target, Path::new(state_dir)).await,
            ["down", state_dir] => target::down(Path::new(state_dir)).await.map(|done| println!("{done:?}")),
            _ => Err(Failure::request("usage: target-up up TARGET STATE_DIR | down STATE_DIR | reaper")),
        }
    });
    match outcome {
        Ok(()) => 0.into(),
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit().code().into()
        }
    }
}

/// Ignores errors: the reader of the output may have ended.
fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

async fn up(file: &str, state_dir: &Path) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| Failure::environment("cannot catch signals").why(error.to_string());
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    let options = StartOptions {
        state_dir: state_dir.to_owned(),
        kept_trust: None,
        sdks: target::SdkPaths::default(),
        reaper: ReaperCommand::own_binary("reaper"),
        on_event: Arc::new(|event| print(&event.to_string())),
    };
    let target = Target::load(file)?;
    let stopped = Failure::new(model::Family::Aborted, "stopped before everything was healthy");
    let supervisor = tokio::select! {
        started = Supervisor::start(target, options) => started?,
        _ = terminate.recv() => return Err(stopped),
        _ = interrupt.recv() => return Err(stopped),
    };
    print("up");
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    supervisor.stop().await
}
