//! What one agent saw in a stretch of time, and what is known of a stretch of time.

use crate::{Flow, Host, Listener, Losses, Process, Service, Source};
use serde::{Deserialize, Serialize};

/// What was seen since the last look, with services: a [`Window`] without its place in time.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub host: Host,
    /// Every service that is named below.
    pub services: Vec<Service>,
    /// Those that live at the end.
    pub processes: Vec<Process>,
    /// All, or none if they are those of the look before.
    pub listeners: Option<Vec<Listener>>,
    pub flows: Vec<Flow>,
    pub losses: Losses,
}

/// What an agent saw between two moments. Counts are differences, so a window must be kept exactly once: `agent` and
/// `sequence` tell whether it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// This run of the agent.
    pub agent: uuid::Uuid,
    /// 1, 2, 3 … within this run of the agent.
    pub sequence: u64,
    /// Milliseconds since the epoch. Length is measured by a clock that never jumps, so only `from_ms` shifts with the wall clock.
    pub from_ms: i64,
    pub to_ms: i64,
    pub host: Host,
    pub source: Source,
    /// Every service that is named below; those named in earlier windows may be left out.
    pub services: Vec<Service>,
    pub processes: Vec<Process>,
    /// All listeners at the end of the window, or none if they did not change.
    pub listeners: Option<Vec<Listener>>,
    pub flows: Vec<Flow>,
    pub losses: Losses,
}

/// What a database knows of a range of time: the union of its windows, counts added. What hosts tell each other, too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    pub from_ms: i64,
    pub to_ms: i64,
    pub hosts: Vec<HostSlice>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostSlice {
    pub host: Host,
    pub services: Vec<Service>,
    pub processes: Vec<Process>,
    pub listeners: Vec<Listener>,
    pub flows: Vec<Flow>,
    pub losses: Losses,
    /// When something of this host was last heard, milliseconds since the epoch.
    pub last_seen_ms: i64,
}
