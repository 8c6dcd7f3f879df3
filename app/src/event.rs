//! What a use case reports while it works.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Serialized with the tag `event`, so that a client can read a stream of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    Progress(Progress),
    /// Something that the user should know and that does not stop the work.
    Warning {
        message: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Progress {
    TargetStarting {
        target: String,
        services: u64,
    },
    /// All services of the target pass their health checks.
    TargetHealthy {
        seconds: f64,
    },
    /// A step that has no type of its own, as one line of text.
    Step {
        message: String,
    },
}

/// Receives events on the thread that does the work; it must not block.
pub type EventSink = Arc<dyn Fn(Event) + Send + Sync>;
