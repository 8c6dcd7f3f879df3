//! Writes the input traces of SEI's campaigns (SEI §7.1) for replay.
//!
//! The paper's traces are not published; `README.md` describes these. Each command prints a summary as one line of
//! JSON.

mod memcached;
mod undisturbed;
mod zone;

use clap::Parser;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Parser)]
#[command(about = "Input traces of SEI's campaigns")]
enum Inputs {
    /// Commands for memcached, with more data than its memory holds
    Memcached {
        #[arg(long, default_value_t = 1_200)]
        commands: u32,
        /// Path of the trace
        output: PathBuf,
    },
    /// memcached's own counters after it has run a trace undisturbed: evictions, hits, misses
    Counts {
        trace: PathBuf,
        /// The server and its arguments
        #[arg(last = true, required = true)]
        server: Vec<String>,
    },
    /// Two sets and a get, for exhaustive campaigns
    Pair {
        /// Path of the trace
        output: PathBuf,
    },
    /// Questions for dnscache, the zone's answers, and dnscache's files
    Dnscache {
        #[arg(long, default_value_t = 400)]
        questions: u32,
        /// A folder for `input`, `seed` and `root`
        output: PathBuf,
    },
}

fn main() -> ExitCode {
    let result = match Inputs::parse() {
        Inputs::Memcached { commands, output } => memcached::write(commands, &output),
        Inputs::Pair { output } => memcached::write_pair(&output),
        Inputs::Counts { trace, server } => memcached::counts(&trace, &server),
        Inputs::Dnscache { questions, output } => zone::write(questions, &output),
    };
    match result {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Adds the path to an error.
fn named<T>(path: &Path, result: io::Result<T>) -> Result<T, String> {
    result.map_err(|e| format!("{}: {e}", path.display()))
}
