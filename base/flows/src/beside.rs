//! Two views of one application side by side: calls that messages recorded, connections that sockets showed.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SeenBy {
    Both,
    Sockets,
    Messages,
}

/// One dependency as both views know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beside {
    pub from: String,
    pub to: String,
    pub seen: SeenBy,
    /// Recorded calls.
    pub calls: u64,
    /// Connections begun in the map's range or open at its end.
    pub connections: u64,
    /// Why only one view has it; empty if both do.
    pub why: String,
}
