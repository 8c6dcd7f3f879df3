//! What the servers of SEI's campaigns are asked (SEI §7.1), written as input traces of the replay shim.
//!
//! The paper's traces are not published; what ours hold is in `README.md`. Each command says in one JSON line what it wrote.

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
    /// Commands for memcached, more than a megabyte of its memory holds
    Memcached {
        #[arg(long, default_value_t = 1_200)]
        commands: u32,
        /// Where the trace goes
        output: PathBuf,
    },
    /// What memcached itself counts when it plays a trace undisturbed: evictions, hits, misses
    Counts {
        trace: PathBuf,
        /// The server and its arguments
        #[arg(last = true, required = true)]
        server: Vec<String>,
    },
    /// Two sets and a get, of which every flip is tried
    Pair {
        /// Where the trace goes
        output: PathBuf,
    },
    /// Questions for dnscache, the zone's answers, and the files that it reads
    Dnscache {
        #[arg(long, default_value_t = 400)]
        questions: u32,
        /// A folder: `input`, `seed` and `root` go there
        output: PathBuf,
    },
}

fn main() -> ExitCode {
    let told = match Inputs::parse() {
        Inputs::Memcached { commands, output } => memcached::write(commands, &output),
        Inputs::Pair { output } => memcached::write_pair(&output),
        Inputs::Counts { trace, server } => memcached::counts(&trace, &server),
        Inputs::Dnscache { questions, output } => zone::write(questions, &output),
    };
    match told {
        Ok(told) => {
            println!("{told}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

/// An error that names the file.
fn named<T>(path: &Path, result: io::Result<T>) -> Result<T, String> {
    result.map_err(|e| format!("{}: {e}", path.display()))
}
