//! Comparison of two views of one application: recorded calls and observed connections.

use serde::{Deserialize, Serialize};

/// Which views contain a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObservedBy {
    Both,
    Sockets,
    Messages,
}

/// One dependency in both views.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    pub from: String,
    pub to: String,
    #[serde(rename = "seen")]
    pub observed_by: ObservedBy,
    /// Number of recorded calls.
    pub calls: u64,
    /// Number of connections opened in the map's range or open at its end.
    pub connections: u64,
    /// Why only one view contains it; empty if both do.
    #[serde(rename = "why")]
    pub reason: String,
}
