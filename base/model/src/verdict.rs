//! Verdicts and exit codes. A verdict is pass, fail or *unknown*: after a crashed checker, a dropped event, or a fault
//! that never took effect it is unknown, never pass.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Pass,
    Fail,
    Unknown,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::Unknown => "unknown",
        }
    }

    pub fn parse(text: &str) -> Option<Verdict> {
        Some(match text {
            "pass" => Verdict::Pass,
            "fail" => Verdict::Fail,
            "unknown" => Verdict::Unknown,
            _ => return None,
        })
    }

    pub fn exit(self) -> Exit {
        match self {
            Verdict::Pass => Exit::Pass,
            Verdict::Fail => Exit::Fail,
            Verdict::Unknown => Exit::Unknown,
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Exit codes of every command (DESIGN §2). Stable: scripts and CI rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Pass = 0,
    Fail = 1,
    Usage = 2,
    Environment = 3,
    Aborted = 4,
    Unknown = 5,
}

impl Exit {
    pub fn code(self) -> u8 {
        self as u8
    }
}
