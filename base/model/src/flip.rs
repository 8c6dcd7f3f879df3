//! Bit flips and their effects. The terms are those of the SEI paper, §7.

mod output;

pub use output::{Output, Stream, base64_bytes};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The part of an instruction that a fault hits (SEI, table 1), and two types beyond the paper's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum FlipType {
    /// A bit of the instruction pointer.
    Cf,
    /// A register, after it was written.
    Wreg,
    /// Memory, after it was written.
    Wval,
    /// The address of a write: the value is written elsewhere, and the right address keeps its content.
    Waddr,
    /// The address of a read: the value is read from elsewhere.
    Raddr,
    /// A register, before it is read.
    Rreg,
    /// Memory, before it is read.
    Rval,
    /// A bit of the instruction's code, which stays wrong (SEI §3, transient text-segment corruption).
    Text,
    /// Arbitrary values in several variables at once (SEI §3, arbitrary state corruption).
    Asc,
}

impl FlipType {
    pub const ALL: [FlipType; 9] = [
        FlipType::Cf,
        FlipType::Wreg,
        FlipType::Wval,
        FlipType::Waddr,
        FlipType::Raddr,
        FlipType::Rreg,
        FlipType::Rval,
        FlipType::Text,
        FlipType::Asc,
    ];
    /// The seven of the paper's table 1.
    pub const PAPER: &'static [FlipType] = FlipType::ALL.split_at(7).0;

    pub fn as_str(self) -> &'static str {
        match self {
            FlipType::Cf => "CF",
            FlipType::Wreg => "WREG",
            FlipType::Wval => "WVAL",
            FlipType::Waddr => "WADDR",
            FlipType::Raddr => "RADDR",
            FlipType::Rreg => "RREG",
            FlipType::Rval => "RVAL",
            FlipType::Text => "TEXT",
            FlipType::Asc => "ASC",
        }
    }

    pub fn parse(text: &str) -> Option<FlipType> {
        FlipType::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(text))
    }

    /// The group whose shares the paper reports.
    pub fn group(self) -> FlipGroup {
        match self {
            FlipType::Cf => FlipGroup::Cf,
            FlipType::Wreg | FlipType::Wval | FlipType::Waddr | FlipType::Raddr => FlipGroup::Df,
            FlipType::Rreg | FlipType::Rval => FlipGroup::Rd,
            FlipType::Text => FlipGroup::Text,
            FlipType::Asc => FlipGroup::Asc,
        }
    }
}

impl fmt::Display for FlipType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Control flow, data flow, direct corruption before a read; and the two beyond the paper's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum FlipGroup {
    Cf,
    Df,
    Rd,
    Text,
    Asc,
}

impl FlipGroup {
    pub fn as_str(self) -> &'static str {
        match self {
            FlipGroup::Cf => "CF",
            FlipGroup::Df => "DF",
            FlipGroup::Rd => "RD",
            FlipGroup::Text => "TEXT",
            FlipGroup::Asc => "ASC",
        }
    }
}

/// Which bits of an operand may flip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BitPolicy {
    /// Every bit of the operand's width; 64 of an address or the instruction pointer.
    #[default]
    Full,
    /// At most the lowest 32 bits. Upper bits of an address nearly always cause a crash, which hides other effects.
    Low32,
}

impl BitPolicy {
    /// How many bits of an operand of `width` bits may flip.
    pub fn bits(self, width: u32) -> u32 {
        match self {
            BitPolicy::Full => width,
            BitPolicy::Low32 => width.min(32),
        }
    }
}

/// One planned flip, with everything needed to repeat it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Injection {
    /// Its number within the campaign's variant, from 0. Ids follow from seed and sizes alone.
    pub id: u32,
    pub kind: FlipType,
    /// How many instructions ran from the program's entry to this one. A `rep` instruction counts once.
    pub position: u64,
    /// Iterations of a `rep` instruction that ran before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub iteration: u64,
    /// Index of the operand among those of the type, in the decoder's order.
    pub operand: u8,
    pub bit: u16,
    /// Arbitrary values are derived from this.
    pub seed: u64,
    pub ip: u64,
    /// Such as `mov [rbp-0E0h],rax`.
    pub instruction: String,
    /// A coarse kind: `move`, `arithmetic`, `logic`, `compare`, `branch`, `call`, `stack`, `string`, `vector`,
    /// `system`, `other`.
    pub class: String,
    /// File name of the program or library; empty for memory without one.
    pub module: String,
    /// Offset in that module's file image.
    pub offset: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// `file.c:123`, where the module has debug information.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// How a disturbed program ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    Exit(i32),
    Signal(i32),
    /// It neither ended nor made progress within its limits.
    Hang,
}

/// Where a signal was raised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crash {
    pub signal: i32,
    pub ip: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
}

/// The externally visible effect of an injection, from which the judge determines the [`Outcome`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// What was hit, with its value before and after: `rax 0x10 -> 0x14`.
    pub hit: String,
    /// False: nothing could be flipped, for the reason in `hit`. Never counted as "no effect".
    pub activated: bool,
    pub ending: Ending,
    /// The first signal, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crash: Option<Crash>,
    /// CPU time from the flip to the end, microseconds.
    pub cpu_us: u64,
    /// System calls that the sandbox refused.
    #[serde(default)]
    pub refused_calls: u32,
}

/// The paper's four columns. Only the last three are manifested errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The output trace is golden, including crashes after complete output.
    None,
    /// A corrupt output that a client would accept.
    Undetected,
    /// The hardening library stopped the program, or a client detects a wrong checksum.
    Hardening,
    /// Crash, hang, error message or truncated message.
    Otherwise,
}

impl Outcome {
    pub fn manifested(self) -> bool {
        self != Outcome::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_their_names_are_one_to_one() {
        for kind in FlipType::ALL {
            assert_eq!(FlipType::parse(kind.as_str()), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        assert_eq!(FlipType::PAPER.len(), 7);
    }

    #[test]
    fn groups_are_those_of_the_papers_tables() {
        let of = |group| FlipType::PAPER.iter().filter(|kind| kind.group() == group).count();
        assert_eq!([FlipGroup::Cf, FlipGroup::Df, FlipGroup::Rd].map(of), [1, 4, 2]);
    }
}
