//! How sure we are: by which means a flow was seen, how its owner is known, and what was lost.

use serde::{Deserialize, Serialize};
use std::fmt;

/// By which means a flow was seen. Stands on every flow, because each misses something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Counted in the kernel: every connection.
    Ebpf,
    /// Sockets asked for at intervals, their owners looked up: misses what lives between two polls.
    Polling,
    /// Sockets asked for at intervals, without rights to look up owners of other users.
    Tuples,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Source::Ebpf => "ebpf",
            Source::Polling => "polling",
            Source::Tuples => "tuples",
        })
    }
}

/// How the owner of a flow is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attribution {
    /// It was seen to connect, to close, or to hold the socket.
    Exact,
    /// Only who listens on the port is known: the connection was reset, or ended before anybody accepted it.
    Listener,
    /// Nobody is known.
    None,
}

/// What was lost in a window. All zero: the window is complete, as far as its [`Source`] sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Connections that found the kernel's table full.
    #[serde(default)]
    pub table_full: u64,
    /// Events the kernel did not hand to us because one was being handled on the same processor.
    #[serde(default)]
    pub recursion: u64,
    /// Windows that were dropped because nothing could take them: the spool was full.
    #[serde(default)]
    pub windows: u64,
    /// Processes whose sockets could not be read.
    #[serde(default)]
    pub unreadable: u64,
}

impl Losses {
    /// Whether flows may be missing. Unreadable processes only lose owners.
    pub fn flows_missing(&self) -> bool {
        self.table_full + self.recursion + self.windows > 0
    }

    pub fn add(&mut self, other: &Losses) {
        self.table_full += other.table_full;
        self.recursion += other.recursion;
        self.windows += other.windows;
        self.unreadable += other.unreadable;
    }
}
