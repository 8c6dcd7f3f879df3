//! The part of a service's log that a crash wrote.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogExcerpt {
    pub service: String,
    /// Where the whole log is. None if the service was not started by this tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// At most 10, each at most 200 characters.
    #[serde(default)]
    pub lines: Vec<String>,
    /// Why there are no lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}
