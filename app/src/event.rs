//! Events that a use case emits while it runs.

use model::campaign::Variant;
use model::sweep::Space;
use model::{KindName, RunId, Verdict};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// Serialized with the tag `event`, so that a client can read a stream of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The run was created in the store.
    Started {
        run: RunId,
        kind: KindName,
    },
    Progress(Progress),
    /// A result that counts on its own, such as a bug.
    Finding {
        title: String,
        detail: Vec<String>,
    },
    /// A problem that does not stop the use case.
    Warning {
        message: String,
    },
    /// A service keeps crashing and is not restarted any more.
    ServiceGivenUp {
        service: String,
        reason: String,
    },
    /// The run is finished and stored.
    Done {
        run: RunId,
        kind: KindName,
        verdict: Verdict,
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
    /// A service crashed on its own. It was restarted and the request was sent again.
    ServiceRestarted {
        service: String,
    },
    ServiceCrashed {
        service: String,
        status: String,
        log: PathBuf,
    },
    /// A crashed service is healthy again.
    ServiceRunning {
        service: String,
    },
    /// The request without faults, from which the faults of a sweep follow.
    Reference {
        request: String,
        calls: u64,
        services: u64,
        gaps: u64,
    },
    /// The observations of a range of time were read. The range is in whole minutes or hours.
    RangeObserved {
        from_ms: i64,
        to_ms: i64,
        hosts: u64,
    },
    /// Work that is counted. Without a total, `detail` alone is shown.
    Counts {
        name: String,
        done: u64,
        total: u64,
        /// Whether the total may still grow, so that it is a lower bound.
        #[serde(default)]
        may_grow: bool,
        detail: String,
    },
    SpaceFinished {
        space: Space,
        /// Cases that an interrupted sweep had completed before; the space's `seconds` are those of the others.
        #[serde(default)]
        stored: u64,
    },
    VariantFinished {
        variant: Box<Variant>,
    },
    /// A step that has no type of its own, as one line of text.
    Step {
        message: String,
    },
}

/// Receives events on the thread that does the work; it must not block.
pub type EventSink = Arc<dyn Fn(Event) + Send + Sync>;
