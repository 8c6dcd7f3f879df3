//! The interface between a server under replay, which `break/replay` provides, and those that run it and read its
//! output.
//!
//! Pure formats: the input trace ([`InputTrace`]), the output records ([`OutputRecords`]), the shim's environment and
//! exit statuses. `docs/formats/replay.md` describes them.

mod input_trace;
mod output_records;
mod reader;

pub use input_trace::{ANSWERS, Answer, CONNECTIONS, InputTrace, Listener, Step, TRACE_BYTES};
pub use output_records::{MAGIC, OutputRecords, RECORD_BYTES, UNFRAMED};

use std::path::Path;

/// File name of the shim: the module that injections are kept out of.
pub const SHIM_NAME: &str = "faultloom-replay.so";

/// Path of the input trace.
pub const INPUT: &str = "FAULTLOOM_REPLAY_INPUT";
/// Number of the open descriptor that takes the output records.
pub const OUTPUT: &str = "FAULTLOOM_REPLAY_OUTPUT";
/// How many connections may have unread input at a time, 1 to 4096. Missing: 1.
pub const WIDTH: &str = "FAULTLOOM_REPLAY_WIDTH";
/// The scheduler picks threads at random from this seed. Missing or 0: in order.
pub const SEED: &str = "FAULTLOOM_REPLAY_SEED";

/// The exit status with which the shim ends a process; 0 is the end of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Ending {
    /// All threads wait for each other.
    Deadlock = 96,
    /// The server does not take the remaining input.
    Stuck = 97,
    /// The server made a call that cannot be replayed, such as a fork.
    Refused = 98,
    /// The shim cannot work: its environment or the trace is invalid.
    Unfit = 99,
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
