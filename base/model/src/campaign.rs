//! What a campaign of bit flips found. Written by `study/campaign`, stored with the run, drawn by `study/report`.

mod logged;
mod tally;

use crate::flip::{BitPolicy, FlipGroup, FlipType};
pub use logged::{LiveFlip, Logged, Role};
use serde::{Deserialize, Serialize};
pub use tally::{Share, Tally, percent};

/// How a reply differs from the golden one, as its client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviationKind {
    /// The output ends early, between two messages or within one.
    Short,
    /// The program says itself that something went wrong.
    Error,
    /// No message, or none that answers what was asked.
    Rejected,
    /// The message's check sum is wrong.
    Checksum,
    /// A message that its client takes for good.
    Corrupt,
}

impl DeviationKind {
    pub fn as_str(self) -> &'static str {
        match self {
            DeviationKind::Short => "cut short",
            DeviationKind::Error => "error message",
            DeviationKind::Rejected => "rejected",
            DeviationKind::Checksum => "wrong check sum",
            DeviationKind::Corrupt => "corrupt",
        }
    }
}

/// The first reply that is not the golden one, on the connection that decided the outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deviation {
    pub kind: DeviationKind,
    pub connection: String,
    /// Its number on the connection, from 0.
    pub reply: u64,
    /// How many the golden run has on that connection.
    pub replies: u64,
    /// Offset of the first differing byte in what the connection received.
    pub byte: u64,
    /// Both replies around that byte, printable, at most [`Deviation::EXCERPT`] characters.
    pub golden: String,
    pub seen: String,
    /// How many connections differ.
    pub connections: u32,
    /// After what the client noticed came a wrong reply that it would have taken for good, had it gone on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub corrupt_later: bool,
    /// How many replies the program wrote between the flip and this one, on all connections; if it never came whole, until the
    /// program's end. None: what was written has no order, as in files, or nothing says when it was disturbed.
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
    /// It belongs to the group above it, which counts it too.
    #[serde(default)]
    pub within: bool,
    pub tally: Tally,
    /// None without a manifested error.
    pub undetected: Option<Share>,
    pub hardening: Option<Share>,
    pub otherwise: Option<Share>,
}

/// How soon errors of a group showed, in replies that the program wrote between the flip and the first wrong one
/// ([`Deviation::replies_since`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    pub group: FlipGroup,
    /// Those that nobody noticed; else those that were detected.
    pub undetected: bool,
    /// Errors of which it is known.
    pub errors: u64,
    /// Of these: none in between, the next reply was the wrong one.
    pub at_once: u64,
    pub median: u64,
    /// Nine in ten have at most so many.
    pub nine_in_ten: u64,
    pub most: u64,
}

/// Outcomes by one property of what was hit: an instruction class, a function, a bit.
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
    /// Those whose output was not the golden one.
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
    /// Planned, and not in the log. Anything but 0 makes the verdict unknown.
    pub missing: u64,
    /// Points at which the golden process was elsewhere than planned. Anything but 0 makes the verdict unknown.
    pub misses: u64,
    pub controls: Controls,
    /// System calls of disturbed programs that containment refused.
    pub refused_calls: u64,
    /// All flips, or all disturbed runs.
    pub tally: Tally,
    /// Groups, each followed by its types where it has several.
    pub rows: Vec<Row>,
    /// The same of flips of bits below 32 alone; empty if the policy allows no others.
    pub low32: Vec<Row>,
    pub by_class: Vec<Slice>,
    pub by_function: Vec<Slice>,
    pub by_bit: Vec<Slice>,
    /// By group, undetected ones first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency: Vec<Latency>,
    /// Undetected ones, at most [`Variant::STORIES`], in the order of their ids.
    pub stories: Vec<Logged>,
    pub seconds: Seconds,
    /// Every flip of the work for one reply, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exhaustive: Option<Exhaustive>,
    /// It ran already, and nothing was contained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveProcess>,
}

/// A process that ran already and was struck.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveProcess {
    pub pid: i32,
    /// The user's command that says whether replies are right.
    pub check: Option<String>,
    /// At the end.
    pub runs: bool,
    /// The first ones, at most [`Variant::STORIES`], whatever came of them.
    pub flips: Vec<Logged>,
}

impl Variant {
    pub const STORIES: usize = 200;
}

/// Every flip there is in the work for one reply, tried by classes that come to the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Exhaustive {
    /// Which reply, from 0.
    pub reply: u64,
    pub classes: u64,
    /// Fewer than `classes`: the golden process was elsewhere than planned.
    pub tried: u64,
    pub kinds: Vec<ExhaustiveKind>,
}

/// All flips of a type, and what the campaign's draw in the same work came to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExhaustiveKind {
    pub kind: FlipType,
    pub flips: u64,
    /// Of these: known to be without effect, and not tried.
    pub idle: u64,
    pub exact: Exact,
    pub drawn: Tally,
    /// Every exact share lies in the drawn one's 99.9 % interval.
    pub agrees: bool,
}

/// Shares of all flips, together 1: what a uniform draw would give with infinitely many draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Exact {
    pub none: f64,
    pub undetected: f64,
    pub hardening: f64,
    pub otherwise: f64,
    /// Nothing could be flipped, or the judge could not say.
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

/// Name of the row of runs that a disturbance of the user's own acted on.
pub const EXTERNAL: &str = "external";

/// Where the time went, seconds of wall time; `run` and `cpu` are CPU time.
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
    /// The judge was told how hardening shows.
    #[serde(default)]
    pub hardened: bool,
    pub seed: u64,
    pub bits: BitPolicy,
    /// Flips per type.
    pub types: Vec<(FlipType, u32)>,
    pub variants: Vec<Variant>,
}
