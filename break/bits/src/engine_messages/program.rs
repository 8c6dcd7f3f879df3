//! The program under study: how it is run, within which limits, and where it may be hit.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The program under study, and how it is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Absolute path of the executable, then its arguments.
    pub argv: Vec<String>,
    /// The whole environment; nothing is inherited.
    pub env: Vec<(String, String)>,
    /// Its standard input. None: empty.
    pub stdin: Option<PathBuf>,
    /// Files copied into the working directory of every run.
    pub files: Vec<PathBuf>,
    /// A server's input trace: it then runs under the replay shim.
    pub replay: Option<Replay>,
    pub limits: Limits,
    pub sites: Sites,
    pub stepper: Stepper,
}

impl Program {
    /// A program with an empty environment, no input and the default limits.
    pub fn new(argv: Vec<String>) -> Program {
        Program {
            argv,
            env: Vec::new(),
            stdin: None,
            files: Vec::new(),
            replay: None,
            limits: Limits::default(),
            sites: Sites::default(),
            stepper: Stepper::default(),
        }
    }

    /// The descriptor to which it writes the output that is compared: the shim's records, or standard output.
    pub fn output_descriptor(&self) -> i32 {
        if self.replay.is_some() { RECORDS_DESCRIPTOR } else { libc::STDOUT_FILENO }
    }
}

/// The descriptor to which the replay shim writes its records.
pub const RECORDS_DESCRIPTOR: i32 = 3;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// Path of the input trace; its format is in docs/formats/replay.md.
    pub input: PathBuf,
    /// How many connections may have unanswered input at a time.
    pub width: u32,
}

/// Limits of one run of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Address space.
    pub memory_bytes: u64,
    /// One file, and the output.
    pub file_bytes: u64,
    /// Threads of all concurrent runs.
    pub processes: u64,
    /// CPU time and wall time of an undisturbed run.
    #[serde(default = "seconds")]
    pub seconds: u64,
    /// Instructions of the golden run.
    pub instructions: u64,
    /// A run hangs after this many times the CPU time of the golden run, and at least `hang_ms`.
    pub hang_times: u32,
    pub hang_ms: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory_bytes: 4 << 30,
            file_bytes: 64 << 20,
            processes: 512,
            seconds: seconds(),
            instructions: 400_000_000,
            hang_times: 10,
            hang_ms: 100,
        }
    }
}

fn seconds() -> u64 {
    60
}

/// Which instructions may be hit. All given conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sites {
    /// Only in these functions, by name.
    pub symbols: Vec<String>,
    /// Only in these modules, by file name.
    pub libraries: Vec<String>,
    /// Only while one of these functions runs, with all it calls.
    pub handlers: Vec<String>,
    /// Not in these modules.
    pub except: Vec<String>,
    /// Only in the work for this reply, an index of [`super::Profile::replies`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stepper {
    /// Runs blocks of instructions in a code cache, many without a stop. Several threads, and programs of which only
    /// handlers are hit, are stepped as by [`Stepper::Block`].
    #[default]
    Cache,
    /// Runs each block of instructions to a breakpoint; branches are emulated.
    Block,
    /// Steps every instruction by the processor's trap flag: the oracle that blocks are compared with.
    Step,
}
