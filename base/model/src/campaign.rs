//! Results of a campaign of bit flips. Written by `study/campaign`, stored with the run, rendered by `study/report`.

mod logged;
mod tally;

use crate::flip::{BitPolicy, FlipGroup, FlipType};
pub use logged::{LiveFlip, Logged, Role};
use serde::{Deserialize, Serialize};
pub use tally::{Share, Tally, percent};

/// How a reply differs from the golden one, from its client's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviationKind {
    /// The output ends early, between two messages or within one.
    Short,
    /// An error message of the program.
    Error,
    /// Not a valid message, or not an answer to the request.
    Rejected,
    /// The message's checksum is wrong.
    Checksum,
    /// A wrong message that its client accepts.
    Corrupt,
}

impl DeviationKind {
    pub fn as_str(self) -> &'static str {
        match self {
            DeviationKind::Short => "cut short",
            DeviationKind::Error => "error message",
            DeviationKind::Rejected => "rejected",
            DeviationKind::Checksum => "wrong checksum",
            DeviationKind::Corrupt => "corrupt",
        }
    }
}

/// The first reply that is not golden, on the connection that decided the outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deviation {
    pub kind: DeviationKind,
    pub connection: String,
    /// Its number on the connection, from 0.
    pub reply: u64,
    /// How many replies the golden run has on that connection.
    pub replies: u64,
    /// Offset of the first differing byte in what the connection received.
    pub byte: u64,
    /// Both replies around that byte, escaped, at most [`Deviation::EXCERPT`] characters.
    pub golden: String,
    #[serde(rename = "seen")]
    pub actual: String,
    /// How many connections differ.
    pub connections: u32,
    /// After the detected error, the program sent a wrong reply that the client would have accepted, had it continued.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub corrupt_later: bool,
    /// How many replies the program wrote between the flip and this one, on all connections; until the program's end if
    /// this one is incomplete. None: the output is not ordered, as in files, or the time of the disturbance is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replies_since: Option<u64>,
}

impl Deviation {
    pub const EXCERPT: usize = 160;
}

/// A line of a table: a group or one of its types.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// `CF`, `DF`, `RD`, a type's name, or `external`.
    pub name: String,
    /// It is part of the group above it, which includes its counts.
    #[serde(default)]
    pub within: bool,
    pub tally: Tally,
    /// None without a manifested error.
    pub undetected: Option<Share>,
    pub hardening: Option<Share>,
    pub otherwise: Option<Share>,
}

/// Detection latency of a group's errors: replies that the program wrote between the flip and the first wrong one
/// ([`Deviation::replies_since`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    pub group: FlipGroup,
    /// Of undetected errors; otherwise of detected ones.
    pub undetected: bool,
    /// Errors with a known latency.
    pub errors: u64,
    /// Of these, errors with latency 0: the next reply was wrong.
    pub at_once: u64,
    pub median: u64,
    /// The 90th percentile.
    #[serde(rename = "nine_in_ten")]
    pub p90: u64,
    #[serde(rename = "most")]
    pub max: u64,
}

/// Outcomes by one property of the injection: an instruction class, a function, a bit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    pub group: FlipGroup,
    pub key: String,
    pub tally: Tally,
}

/// Fault-free forks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Controls {
    pub planned: u64,
    pub run: u64,
    /// Those whose output was not golden.
    pub deviating: u64,
}

/// One program of a campaign. Variants of a campaign share seed and sizes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    pub name: String,
    pub command: Vec<String>,
    /// Dynamic instructions of the golden run.
    pub instructions: u64,
    /// Distinct instructions.
    pub sites: u64,
    pub eligible: Vec<(FlipType, u64)>,
    pub connections: u64,
    pub replies: u64,
    pub golden_bytes: u64,
    /// CPU time of an undisturbed run, microseconds.
    pub golden_cpu_us: u64,
    pub remarks: Vec<String>,
    pub planned: u64,
    /// Planned runs that are not in the log. Must be 0, or the verdict is unknown.
    pub missing: u64,
    /// Points at which the golden process was not at the planned position. Must be 0, or the verdict is unknown. Not 0
    /// in stored campaigns only: the engine refuses such a program now.
    pub misses: u64,
    pub controls: Controls,
    /// System calls of disturbed programs that the sandbox refused.
    pub refused_calls: u64,
    /// All flips, or all disturbed runs.
    pub tally: Tally,
    /// Groups, each followed by its types where it has several.
    pub rows: Vec<Row>,
    /// The same for flips of bits below 32 only; empty if the policy allows no others.
    pub low32: Vec<Row>,
    pub by_class: Vec<Slice>,
    pub by_function: Vec<Slice>,
    pub by_bit: Vec<Slice>,
    /// By group, undetected errors first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency: Vec<Latency>,
    /// Undetected errors, at most [`Variant::STORIES`], by id.
    pub stories: Vec<Logged>,
    pub seconds: Seconds,
    /// Every flip during the work for one reply, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exhaustive: Option<Exhaustive>,
    /// A running process, without a sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveProcess>,
}

/// A running process in which bits were flipped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveProcess {
    pub pid: i32,
    /// The user's command that checks replies.
    pub check: Option<String>,
    /// At the end.
    #[serde(rename = "runs")]
    pub is_running: bool,
    /// The first flips, at most [`Variant::STORIES`], whatever their outcome.
    pub flips: Vec<Logged>,
}

impl Variant {
    pub const STORIES: usize = 200;
}

/// Every flip during the work for one reply, tried by equivalence classes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Exhaustive {
    /// Index of the reply, from 0.
    pub reply: u64,
    pub classes: u64,
    /// Fewer than `classes` if the golden process was not at the planned position.
    pub tried: u64,
    pub kinds: Vec<ExhaustiveKind>,
}

/// All flips of a type, and the outcomes of the campaign's draw in the same range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExhaustiveKind {
    pub kind: FlipType,
    pub flips: u64,
    /// Of these, flips that are known to have no effect and were not tried.
    pub idle: u64,
    pub exact: Exact,
    pub drawn: Tally,
    /// Whether every exact share is in the drawn one's 99.9 % interval.
    pub agrees: bool,
}

/// Shares of all flips, which sum to 1: the limit of a uniform draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Exact {
    pub none: f64,
    pub undetected: f64,
    pub hardening: f64,
    pub otherwise: f64,
    /// Nothing could be flipped, or the output could not be judged.
    pub unknown: f64,
}

impl Exact {
    /// As parts of `whole`.
    pub fn of(self, whole: f64) -> Exact {
        let part = |share: f64| if whole > 0.0 { share / whole } else { 0.0 };
        Exact {
            none: part(self.none),
            undetected: part(self.undetected),
            hardening: part(self.hardening),
            otherwise: part(self.otherwise),
            unknown: part(self.unknown),
        }
    }
}

/// Name of the row of runs during the user's own disturbance.
pub const EXTERNAL: &str = "external";

/// Where time was spent, in seconds of wall time; `run` and `cpu` are CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seconds {
    pub profile: f64,
    pub step: f64,
    pub fork: f64,
    pub run: f64,
    pub judge: f64,
    pub wall: f64,
    pub cpu: f64,
}

/// A finished campaign.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Campaign {
    pub protocol: String,
    /// The judge's rules can recognize detection by hardening.
    #[serde(default)]
    pub hardened: bool,
    pub seed: u64,
    pub bits: BitPolicy,
    /// Flips per type.
    pub types: Vec<(FlipType, u32)>,
    pub variants: Vec<Variant>,
}
