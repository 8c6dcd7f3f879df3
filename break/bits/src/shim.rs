//! The replay shim: preloaded into an unmodified server, it plays an input trace to it over virtual connections and records
//! what the server says to each.
//!
//! SEI §7 changed memcached to read commands from a file and to write its responses into another. Here the server stays as
//! it is, and everything that a fork would share (sockets, epoll, pipes, threads) is ordinary memory of the process. The
//! sources are `shim/`, the formats `docs/formats/replay.md`.

use model::Failure;
use std::path::{Path, PathBuf};

/// The shared object.
pub const SHIM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/replay.so"));

/// Its file name: the module that injections may be kept out of.
pub const NAME: &str = "faultloom-replay.so";

/// Path of the input trace.
pub const INPUT: &str = "FAULTLOOM_REPLAY_INPUT";
/// Number of the open descriptor that takes the output records.
pub const OUTPUT: &str = "FAULTLOOM_REPLAY_OUTPUT";
/// How many connections may have sent what the server has not read, 1 to 4096. Missing: 1.
pub const WIDTH: &str = "FAULTLOOM_REPLAY_WIDTH";
/// Threads are picked by chance, from this number. Missing or 0: in order.
pub const SEED: &str = "FAULTLOOM_REPLAY_SEED";

/// How the shim ends a process; 0 is the end of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Ending {
    /// All threads wait for each other.
    Deadlock = 96,
    /// Input is left that the server does not take.
    Stuck = 97,
    /// The server asked for what cannot be replayed, such as a fork.
    Refused = 98,
    /// The shim cannot work: its environment or the trace is wrong.
    Unfit = 99,
}

/// Writes the shared object into a folder and returns where it is. A file of that name is replaced.
pub fn write(folder: &Path) -> Result<PathBuf, Failure> {
    let path = folder.join(NAME);
    std::fs::write(&path, SHIM).map_err(|e| {
        Failure::environment(format!("the replay shim cannot be written to {}", path.display()))
            .why(e.to_string())
            .next("make the folder writable, or give another")
    })?;
    Ok(path)
}

/// The environment that makes a program replay a trace. `descriptor` must be open in it.
pub fn environment(shim: &Path, input: &Path, descriptor: i32, width: u32) -> Vec<(String, String)> {
    vec![
        ("LD_PRELOAD".to_owned(), shim.display().to_string()),
        (INPUT.to_owned(), input.display().to_string()),
        (OUTPUT.to_owned(), descriptor.to_string()),
        (WIDTH.to_owned(), width.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_those_of_the_source() {
        let source = include_str!("../shim/records.h");
        for (name, ending) in [
            ("END_DEADLOCK", Ending::Deadlock),
            ("END_STUCK", Ending::Stuck),
            ("END_REFUSED", Ending::Refused),
            ("END_UNFIT", Ending::Unfit),
        ] {
            assert!(source.contains(&format!("{name} = {},", ending as i32)), "{name}");
        }
    }

    #[test]
    fn settings_are_those_of_the_source() {
        let source = include_str!("../shim/start.c");
        for name in [INPUT, OUTPUT, WIDTH, SEED] {
            assert!(source.contains(&format!("(\"{name}\"")), "{name}");
        }
    }
}
