//! Observations of one agent in an interval, and the stored data of an interval.

use crate::{Flow, Host, Listener, Losses, Process, Service, Source};
use serde::{Deserialize, Serialize};

/// Activity since the last collection, with services: a [`Window`] without its interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    pub host: Host,
    /// Every service that is referenced below.
    pub services: Vec<Service>,
    /// Processes alive at the end.
    pub processes: Vec<Process>,
    /// All listeners, or none if they did not change since the last collection.
    pub listeners: Option<Vec<Listener>>,
    pub flows: Vec<Flow>,
    pub losses: Losses,
}

/// Observations of an agent in an interval. Counts are differences, so a window must be stored exactly once; `agent`
/// and `sequence` identify it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Id of this run of the agent.
    pub agent: uuid::Uuid,
    /// 1, 2, 3 … within this run of the agent.
    pub sequence: u64,
    /// Milliseconds since the epoch. The length comes from a monotonic clock, so a jump of the wall clock only moves
    /// it.
    pub from_ms: i64,
    pub to_ms: i64,
    pub host: Host,
    pub source: Source,
    /// Every service that is referenced below, except services described in earlier windows.
    pub services: Vec<Service>,
    pub processes: Vec<Process>,
    /// All listeners at the end of the window, or none if they did not change.
    pub listeners: Option<Vec<Listener>>,
    pub flows: Vec<Flow>,
    pub losses: Losses,
}

/// The data of an interval: the union of its windows with counts added up. Also the format of the data
/// that hosts exchange.
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
    /// End of the last window from this host, in milliseconds since the epoch.
    pub last_seen_ms: i64,
}
