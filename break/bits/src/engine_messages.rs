//! The messages between the tool and the flip engine, one JSON object per line.
//!
//! The engine is a separate process, the first in its own namespaces: a corrupted child can reach nothing outside them,
//! and when the engine dies, the kernel kills every process in them.

mod program;

use model::Failure;
use model::flip::{BitPolicy, Effect, FlipType, Injection, Output, base64_bytes};
pub use program::{Limits, Program, RECORDS_DESCRIPTOR, Replay, Sites, Stepper};
use serde::{Deserialize, Serialize};

/// The flips to draw: a number per type, uniform over the eligible instructions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Draw {
    pub seed: u64,
    pub bits: BitPolicy,
    pub types: Vec<(FlipType, u32)>,
    /// Fault-free forks, evenly spread: their output must be golden. Their ids follow those of the flips.
    pub controls: u32,
}

/// The process that a fault is injected into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// A fork of one golden process at the point.
    #[default]
    Fork,
    /// A fresh process, stepped to the point.
    Fresh,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// The first request: runs the program undisturbed (twice natively, and once or twice to record its path). Reply:
    /// [`Reply::Profile`].
    Begin(Box<Program>),
    /// Tries every flip of the types during the work for one reply (an index of [`Profile::replies`]). Replies:
    /// [`Reply::Totals`], one [`Reply::Injected`] per class, [`Reply::Done`]. Without `classes`, every flip is tried by
    /// itself, as an oracle of classes.
    Exhaust { reply: usize, types: Vec<FlipType>, bits: BitPolicy, classes: bool, skip: Vec<u32>, only: Vec<u32> },
    /// Runs a fresh process to one flip and stops it there for a debugger, right before the flip or right after it.
    /// Replies: [`Reply::Held`], and [`Reply::Done`] when the process has ended.
    Hold { draw: Draw, id: u32, after: bool },
    /// Injects the drawn flips. Replies: one [`Reply::Injected`] per flip, in any order, then [`Reply::Done`]. `only`:
    /// just these ids; empty: all.
    Inject {
        draw: Draw,
        #[serde(rename = "way")]
        method: Method,
        skip: Vec<u32>,
        only: Vec<u32>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    Profile(Box<Profile>),
    /// The request was not carried out: why, and what can be done.
    Refused {
        what: String,
        why: Option<String>,
        next: Option<String>,
        /// The request is wrong, not the environment.
        #[serde(default)]
        request: bool,
    },
    Injected(Box<Injected>),
    Totals(Totals),
    Held(Box<Held>),
    /// The position of the golden process, in instructions of its whole run.
    Progress {
        position: u64,
        of: u64,
    },
    Done(Timings),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Dynamic instructions from the program's entry to its end.
    pub instructions: u64,
    /// Distinct instructions.
    pub sites: u64,
    /// How many dynamic instructions are eligible for each type, after the filter.
    pub eligible: Vec<(FlipType, u64)>,
    /// How many instructions had run when each reply was written: a server's records, otherwise writes to standard
    /// output.
    pub replies: Vec<u64>,
    pub golden: Output,
    /// The exit status of an undisturbed run.
    #[serde(default)]
    pub exit_status: i32,
    /// What that run wrote to standard error, up to a limit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// CPU time of one undisturbed run, microseconds.
    pub cpu_us: u64,
    pub seconds: f64,
    /// Remarks for readers of the results, such as on threads or stripped programs.
    pub remarks: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Injected {
    /// None: a fault-free control with this `id`.
    pub injection: Option<Injection>,
    pub id: u32,
    /// In an exhaustive campaign: the equivalent flips that this one represents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stands_for: Vec<Weight>,
    pub effect: Effect,
    /// None: golden.
    pub output: Option<Output>,
    /// When a deviating output was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<WriteOrder>,
    #[serde(with = "base64_bytes")]
    pub stderr: Vec<u8>,
}

/// The order in which an output was written, and how much of it before the flip. Files that a program left behind have
/// no order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteOrder {
    /// All streams are ordered, because they are connections of a server. Otherwise only the first is: standard output.
    pub connections: bool,
    /// Index of a stream, and how many of its bytes were written next.
    pub pieces: Vec<(u32, u64)>,
    /// How many bytes of all pieces had been written at the time of the flip.
    pub before: u64,
}

/// A process that is stopped at a flip and not traced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// Its pid in the sandbox; [`sandbox::host_pid`] returns the one that a debugger needs.
    pub pid: i32,
    /// The thread that is hit, with the process's pid if it is the first one; see [`sandbox::host_thread`].
    pub thread: i32,
    /// The address at which it resumes.
    pub ip: u64,
    pub injection: Injection,
    /// What was hit, with its value before and after. None: it is stopped before the flip.
    pub hit: Option<String>,
    /// The undelivered signal that the flip raised. 0: none.
    pub signal: i32,
}

/// A number of flips of one type.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weight {
    pub kind: FlipType,
    pub flips: u64,
    /// Their share of a uniform draw, in eligible instructions: a flip has 1 / (operands × bits × iterations).
    pub share: f64,
}

/// All flips within a range of the golden run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// How many classes must be tried.
    pub classes: u64,
    pub kinds: Vec<TypeTotals>,
}

/// All flips of a type, and those of them that have no effect and need no trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TypeTotals {
    pub kind: FlipType,
    pub flips: u64,
    pub share: f64,
    /// The bit is written, or the program ends, before anything reads it.
    #[serde(rename = "gone")]
    pub dead: u64,
    #[serde(rename = "gone_share")]
    pub dead_share: f64,
    /// The other address has the same value.
    pub same: u64,
    pub same_share: f64,
}

impl Profile {
    /// The instructions from the end of the previous reply to the end of this one. Fails if the program does not write
    /// that reply.
    pub fn work_for(&self, reply: usize) -> Result<std::ops::Range<u64>, Failure> {
        let Some(&end) = self.replies.get(reply) else {
            return Err(Failure::request(format!("there is no reply {reply}"))
                .why(format!("the program writes {} replies; the first is number 0", self.replies.len()))
                .next("name one of them with --reply"));
        };
        Ok(reply.checked_sub(1).map_or(0, |before| self.replies[before])..end)
    }
}

impl TypeTotals {
    pub fn of(kind: FlipType) -> TypeTotals {
        TypeTotals { kind, flips: 0, share: 0.0, dead: 0, dead_share: 0.0, same: 0, same_share: 0.0 }
    }
}

/// Where time was spent, in seconds of wall time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timings {
    pub profile: f64,
    pub step: f64,
    pub fork: f64,
    /// CPU time of the disturbed children.
    pub run: f64,
    pub judge: f64,
    pub wall: f64,
    /// CPU time of the engine and all its children, after the profile.
    pub cpu: f64,
}
