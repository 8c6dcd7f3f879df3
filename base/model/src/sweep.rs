//! The result of a sweep. Written by `study/explore`, stored with the run, rendered by `study/report`.

mod harm;
mod log_excerpt;

pub use harm::{Ending, Harm};
pub use log_excerpt::LogExcerpt;

use crate::trace::Trace;
use crate::{Fault, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A call, or a moment of the request, at which a space may inject a fault. `label` is short and unique within its
/// space: `currency`, `GetAds`, `Convert#3`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Site {
    pub label: String,
    pub fault: Fault,
}

/// One case of a space: the sites that were faulted, which of them were reached, and the outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Index into [`Sweep::spaces`].
    pub space: usize,
    pub case: u64,
    /// Indices into [`Space::sites`], ascending; empty for the case without a fault.
    pub sites: Vec<u32>,
    /// Those of `sites` whose fault fired at least once. A site may be unreachable because an earlier fault changed
    /// what the request did next, or because the request never makes that call.
    pub fired: Vec<u32>,
    pub verdict: Verdict,
    /// HTTP status, or gRPC code; None without a reply.
    pub status: Option<u32>,
    pub latency_us: u64,
    /// Why the verdict is fail or unknown, in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How a failing case ended. Earlier versions did not store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// How long the caller waited at the first call that was made to hang, if it gave up by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_us: Option<u64>,
    /// Equal for cases whose requests made the same calls with the same outcomes. Computed by `explore::fingerprint`.
    #[serde(rename = "pattern")]
    pub fingerprint: u64,
    /// The key of its cause, if that is not the fingerprint: the same calls with the same outcomes have another cause
    /// if a callee did its work and only its reply was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<u64>,
}

impl Case {
    pub fn cause_key(&self) -> u64 {
        self.cause.unwrap_or(self.fingerprint)
    }
}

/// One fault space, swept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Space {
    /// `services`, `all-services`, `temporal`, `crash-points` or `guided`.
    pub name: String,
    pub sites: Vec<Site>,
    pub cases: u64,
    pub failures: u64,
    pub passes: u64,
    /// Passes in which no planned fault was reached: the request does not depend on what was faulted.
    pub unaffected: u64,
    pub unknown: u64,
    /// Number of distinct fingerprints.
    #[serde(rename = "patterns")]
    pub behaviors: u64,
    pub seconds: f64,
    /// Failing site sets none of whose failing subsets was run; smallest first.
    pub minimal: Vec<Vec<u32>>,
}

/// A call of a trace, by the names that people use for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CallName {
    pub caller: String,
    pub callee: String,
    pub call: String,
}

/// The result of repeating a bug with services that are stopped for real instead of injected faults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum RealStop {
    /// The request failed with them, too.
    Confirmed { stopped: Vec<String>, violation: String },
    /// The request passed.
    NotConfirmed { stopped: Vec<String> },
    /// It was not done, or its moment was missed.
    NotPossible { reason: String },
}

impl RealStop {
    pub fn describe(&self) -> String {
        match self {
            RealStop::Confirmed { stopped, violation } => {
                format!("Confirmed with {} stopped for real: {violation}", stopped.join(", "))
            }
            RealStop::NotConfirmed { stopped } => {
                format!("Not confirmed: with {} stopped for real, the request passed", stopped.join(", "))
            }
            RealStop::NotPossible { reason } => format!("Not repeated with a real stop: {reason}"),
        }
    }
}

/// Several failing cases with one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bug {
    /// By the paper's taxonomy: Simple (one fault) or Deep (several), RLFI (no timing needed) or TFI (needs a moment).
    pub name: String,
    /// One line: `currency fails after GetCurrencies has answered`.
    pub title: String,
    /// The usual kind of programming error, if the trace shows it: `time of check to time of use`. May be empty.
    pub mistake: String,
    /// None in sweeps of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harm: Option<Harm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// Calls that change state and had succeeded when the user got an error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<CallName>,
    /// Of the service that crashed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogExcerpt>,
    /// The smallest set of faults that reproduces it.
    pub faults: Vec<Fault>,
    /// The call whose failure was not handled.
    pub failed: CallName,
    /// What its caller did next, one sentence per step.
    pub story: Vec<String>,
    /// Which condition the reply violated, and how: `call rule 'at most 1 payment/Charge': 2 such calls`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub violation: String,
    /// Whether it was repeated with real stops of services, if that was wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real_stop: Option<RealStop>,
    /// The command that reproduces it.
    pub again: String,
    /// Cases of all swept spaces that fail for this reason.
    pub failing_cases: u64,
    /// Keys of the causes of those cases ([`Case::cause_key`]). Earlier versions did not store them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub behaviors: BTreeSet<u64>,
    pub spaces: Vec<String>,
    /// The request with exactly these faults.
    pub trace: Trace,
}

impl Bug {
    /// Whether it is only listed among the calls that the request needs.
    pub fn is_hard_dependency(&self) -> bool {
        self.harm == Some(Harm::HardDependency)
    }
}

/// Failing cases that belong to no bug.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unexplained {
    /// Why they belong to none: they did not fail again, for example.
    pub reason: String,
    /// Of the case with the fewest.
    pub faults: Vec<Fault>,
    /// The command that sends that case again.
    pub again: String,
    pub failing_cases: u64,
    pub spaces: Vec<String>,
}

/// The whole result of a sweep run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// The swept request: `GET http://127.0.0.1:8080/`.
    pub request: String,
    /// When a reply is correct: `status below 500`.
    pub oracle: String,
    pub good: Trace,
    pub spaces: Vec<Space>,
    /// The most harmful first.
    pub bugs: Vec<Bug>,
    /// Every failing case belongs to a bug or is listed here. Earlier versions did not list them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unexplained: Vec<Unexplained>,
    /// Cases that were sent again because a service crashed.
    pub repeated: u64,
}
