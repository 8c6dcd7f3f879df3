//! A request fault: which call it affects, how, and from which moment of the request on.
//!
//! 3MileBeach §4.2.2 calls this a FIC (fault injection configuration) with TFIMetas. Ours selects by caller, callee and
//! call, which distinguishes two services that call a third, and adds `nth` and `max_fires`.

use serde::{Deserialize, Serialize};

/// The failure that the caller observes. The numbers are those of the wire format (`docs/formats/messages.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum FaultKind {
    Unavailable = 1,
    Status = 2,
    Deadline = 3,
    Reset = 4,
    Delay = 5,
    Hang = 6,
    LostReply = 7,
    EmptyReply = 8,
    CorruptReply = 9,
}

impl FaultKind {
    pub const ALL: [FaultKind; 9] = [
        FaultKind::Unavailable,
        FaultKind::Status,
        FaultKind::Deadline,
        FaultKind::Reset,
        FaultKind::Delay,
        FaultKind::Hang,
        FaultKind::LostReply,
        FaultKind::EmptyReply,
        FaultKind::CorruptReply,
    ];

    pub fn from_number(number: u8) -> Option<FaultKind> {
        FaultKind::ALL.into_iter().find(|k| *k as u8 == number)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            FaultKind::Unavailable => "unavailable",
            FaultKind::Status => "status",
            FaultKind::Deadline => "deadline",
            FaultKind::Reset => "reset",
            FaultKind::Delay => "delay",
            FaultKind::Hang => "hang",
            FaultKind::LostReply => "lost-reply",
            FaultKind::EmptyReply => "empty-reply",
            FaultKind::CorruptReply => "corrupt-reply",
        }
    }

    pub fn parse(text: &str) -> Option<FaultKind> {
        FaultKind::ALL.into_iter().find(|k| k.as_str() == text)
    }

    /// Whether the kind uses an argument.
    pub fn takes_arg(self) -> bool {
        self.needs_arg() || self == FaultKind::Hang
    }

    /// Whether the kind needs an argument: a status code, or milliseconds.
    pub fn needs_arg(self) -> bool {
        matches!(self, FaultKind::Status | FaultKind::Delay)
    }
}

/// Selects calls. An empty part matches anything; matching is defined in `docs/formats/messages.md`, "Deciding about a
/// send".
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Selector {
    pub caller: String,
    pub callee: String,
    pub call: String,
}

impl Selector {
    pub fn callee(callee: impl Into<String>) -> Selector {
        Selector { callee: callee.into(), ..Selector::default() }
    }
}

/// A temporal prerequisite: `times` matching calls have completed before (or, with [`AfterCounts::Sent`], were sent).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct After {
    #[serde(flatten)]
    pub selector: Selector,
    pub times: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AfterCounts {
    #[default]
    Completed,
    Sent,
}

/// One planned fault. `arg`, `nth` and `max_fires` are 0 when unset.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fault {
    pub kind: FaultKind,
    pub arg: u64,
    #[serde(flatten)]
    pub selector: Selector,
    /// Only the n-th matching call, counted from 1 over the whole request.
    pub nth: u64,
    pub max_fires: u64,
    pub after: Vec<After>,
    pub after_counts: AfterCounts,
}

impl Fault {
    pub fn new(kind: FaultKind, selector: Selector) -> Fault {
        Fault { kind, arg: 0, selector, nth: 0, max_fires: 0, after: Vec::new(), after_counts: AfterCounts::Completed }
    }

    pub fn arg(mut self, arg: u64) -> Fault {
        self.arg = arg;
        self
    }

    pub fn nth(mut self, nth: u64) -> Fault {
        self.nth = nth;
        self
    }

    pub fn after(mut self, selector: Selector, times: u64) -> Fault {
        self.after.push(After { selector, times });
        self
    }
}
