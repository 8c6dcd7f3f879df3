//! The `faultloom` command: see a request whole, and break it on purpose.

mod args;
mod commands;
mod context;
mod render;
mod stage;

use clap::Parser;
use model::{Exit, Failure};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(e) => {
            let _ = e.print();
            return ExitCode::from(if e.use_stderr() { Exit::Usage.code() } else { Exit::Pass.code() });
        }
    };
    let json = args.common.json;
    match commands::run(args) {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => {
            report(&failure, json);
            ExitCode::from(failure.exit().code())
        }
    }
}

/// Errors go to standard error in words; with --json also to standard output as an object, so that a script has them.
fn report(failure: &Failure, json: bool) {
    if json {
        println!(
            "{}",
            serde_json::json!({"error": {"what": failure.what, "why": failure.why, "next": failure.next, "exit": failure.exit().code()}})
        );
    }
    eprintln!("{failure}");
    if failure.exit() == Exit::Unknown {
        eprintln!("  (verdict: unknown, exit 5)");
    }
}
