//! What a sweep found. Written by `study/explore`, stored with the run, drawn by `study/report`.

use crate::trace::Trace;
use crate::{Fault, Verdict};
use serde::{Deserialize, Serialize};

/// One place where a space may put a fault. `label` is short and unique within its space: `currency`, `GetAds`, `Convert#3`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Site {
    pub label: String,
    pub fault: Fault,
}

/// One case of a space: the sites that were faulted, which of them were reached, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Index into [`Sweep::spaces`].
    pub space: usize,
    pub case: u64,
    /// Indices into [`Space::sites`], ascending; empty for the case without a fault.
    pub sites: Vec<u32>,
    /// Those of `sites` whose fault fired at least once. A site may be out of reach because an earlier fault changed what
    /// the request did next, or because the request never goes there.
    pub fired: Vec<u32>,
    pub verdict: Verdict,
    /// HTTP status, or gRPC code; None if no reply came.
    pub status: Option<u32>,
    pub latency_us: u64,
    /// Why the verdict is fail or unknown, in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Equal for cases whose requests did the same thing, call for call.
    pub pattern: u64,
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
    pub patterns: u64,
    pub seconds: f64,
    /// Failing site sets none of whose failing subsets was run; smallest first.
    pub minimal: Vec<Vec<u32>>,
}

/// A call of a trace, by the words people use for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CallName {
    pub caller: String,
    pub callee: String,
    pub call: String,
}

/// Several failing cases with one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bug {
    /// By the paper's taxonomy: Simple (one fault) or Deep (several), RLFI (no timing needed) or TFI (needs a moment).
    pub name: String,
    /// One line: `currency fails after GetCurrencies has answered`.
    pub title: String,
    /// What kind of mistake this usually is: `time of check to time of use`.
    pub mistake: String,
    /// The smallest set of faults that brings it about.
    pub faults: Vec<Fault>,
    /// The call whose failure was not handled.
    pub failed: CallName,
    /// What its caller did next, sentence by sentence.
    pub story: Vec<String>,
    /// The command that reproduces it.
    pub again: String,
    /// Cases of all swept spaces that fail for this reason.
    pub failing_cases: u64,
    pub spaces: Vec<String>,
    /// The request with exactly these faults.
    pub trace: Trace,
}

/// The whole result of a sweep run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// What was asked for: `GET http://127.0.0.1:8080/`.
    pub request: String,
    /// How a reply is judged, in words: `status below 500`.
    pub oracle: String,
    pub good: Trace,
    pub spaces: Vec<Space>,
    pub bugs: Vec<Bug>,
    /// Cases that were run again because a service crashed for real.
    pub repeated: u64,
}
