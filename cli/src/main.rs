//! The `faultloom` command: parses arguments, calls use cases, and renders their events and results.

/// As the standard macros, but without a panic if the reader has closed its end, and escaped (`output.rs`).
macro_rules! println {
    ($($text:tt)*) => {{ $crate::output::write(&mut std::io::stdout(), format_args!("{}\n", format_args!($($text)*))); }};
}
macro_rules! print {
    ($($text:tt)*) => {{ $crate::output::write(&mut std::io::stdout(), format_args!($($text)*)); }};
}
macro_rules! eprintln {
    ($($text:tt)*) => {{ $crate::output::write(&mut std::io::stderr(), format_args!("{}\n", format_args!($($text)*))); }};
}

mod args;
mod browser;
mod commands;
mod context;
mod first_steps;
mod logging;
mod output;
mod render;
mod signals;
mod version;

use model::{Exit, Failure};
use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args_os().len() == 1 {
        print!("{}", first_steps::text(std::path::Path::new(".")));
        return ExitCode::from(Exit::Pass.code());
    }
    let args = match args::Args::parse_words(std::env::args_os().collect()) {
        Ok(args) => args,
        Err(e) => {
            if e.use_stderr() && std::env::args_os().any(|a| a == "--json") {
                let text = e.render().to_string();
                let what = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
                print_error(&Failure::request(what).next("`faultloom help` lists the verbs and their flags"));
            }
            print_clap(&e);
            return ExitCode::from(if e.use_stderr() { Exit::Usage.code() } else { Exit::Pass.code() });
        }
    };
    let json = args.common.json;
    logging::init(args.common.verbose);
    match commands::run(args) {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => {
            report(&failure, json);
            ExitCode::from(failure.exit().code())
        }
    }
}

/// With clap's colors, unless it repeats an argument with characters that must be escaped.
fn print_clap(error: &clap::Error) {
    let text = error.render().to_string();
    if text.chars().any(|c| model::is_deceptive(c) && c != '\n' && c != '\t') {
        eprintln!("{text}");
    } else {
        let _ = error.print();
    }
}

/// Errors go to standard error as text; with --json also to standard output as an object, for scripts.
fn report(failure: &Failure, json: bool) {
    if json {
        print_error(failure);
    }
    eprintln!("{failure}");
    if failure.exit() == Exit::Unknown {
        eprintln!("  (verdict: unknown, exit 5)");
    }
}

fn print_error(failure: &Failure) {
    let mut error = serde_json::json!({
        "what": failure.what, "why": failure.why, "next": failure.next, "exit": failure.exit().code(),
    });
    if let Some(field) = failure.field {
        error["field"] = field.into();
    }
    println!("{}", serde_json::json!({"error": error}));
}
