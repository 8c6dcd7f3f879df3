//! Quality of the data: the source of a flow, the certainty of its owner, and losses.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How a flow was observed. Recorded on every flow, because each source misses different connections. Ordered from best
/// to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Counted in the kernel: includes every connection.
    Ebpf,
    /// Sockets and their owners read at intervals: misses connections that live between two polls.
    Polling,
    /// Sockets read at intervals, without permission to find the owners of other users' sockets.
    Tuples,
}

impl Source {
    /// Every source, best first.
    pub const ALL: [Source; 3] = [Source::Ebpf, Source::Polling, Source::Tuples];

    pub fn as_str(self) -> &'static str {
        match self {
            Source::Ebpf => "ebpf",
            Source::Polling => "polling",
            Source::Tuples => "tuples",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Source {
    type Err = UnknownSource;

    fn from_str(text: &str) -> Result<Source, UnknownSource> {
        Source::ALL.into_iter().find(|source| source.as_str() == text).ok_or(UnknownSource)
    }
}

/// A text that names no [`Source`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownSource;

/// How the owner of a flow was determined. Ordered from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attribution {
    /// The process was observed connecting, closing or holding the socket.
    Exact,
    /// Only the listener of the port is known: the connection was reset, or ended before it was accepted.
    Listener,
    /// Unknown.
    None,
}

/// Losses in a window. If all are zero, the window is complete within the limits of its [`Source`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Connections that were not counted because the kernel's table was full.
    #[serde(default)]
    pub table_full: u64,
    /// Events that the kernel skipped because another one was being handled on the same processor.
    #[serde(default)]
    pub recursion: u64,
    /// Windows dropped because no store accepted them and the queue was full.
    #[serde(default)]
    pub windows: u64,
    /// Processes whose sockets were not readable.
    #[serde(default)]
    pub unreadable: u64,
    /// Connections whose end no event reported: a comparison with the kernel's sockets found that they are gone. They
    /// are included in the closed ones.
    #[serde(default)]
    pub closed_unseen: u64,
    /// Ends of TCP connections that lived between two polls: the kernel counted them as opened, and no poll found them.
    /// At least so many; unlike the others a limit of the source, not a failure.
    #[serde(default)]
    pub between_polls: u64,
}

impl Losses {
    /// Whether flows may be missing. Unreadable processes only cause missing owners.
    pub fn flows_missing(&self) -> bool {
        self.table_full + self.recursion + self.windows > 0
    }

    pub fn add(&mut self, other: &Losses) {
        self.table_full += other.table_full;
        self.recursion += other.recursion;
        self.windows += other.windows;
        self.unreadable += other.unreadable;
        self.closed_unseen += other.closed_unseen;
        self.between_polls += other.between_polls;
    }
}
