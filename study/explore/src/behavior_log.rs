//! One request per behavior, stored with the run: cases with the same fingerprint made the same calls with the same
//! outcomes, so the first one shows what all of them did.
//!
//! ```text
//! behaviors.jsonl    {"fingerprint": …, "faults": […], "trace": {…}}
//! ```

use model::trace::Trace;
use model::{Failure, Fault};
use runs::RunDir;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::Mutex;

pub const BEHAVIORS: &str = "behaviors.jsonl";
/// Requests of further behaviors are not stored: a longer list would not be read to its end.
const BEHAVIORS_MAX: usize = 2_000;
/// Calls of all stored requests; about 500 bytes each.
const CALLS_MAX: usize = 200_000;

/// The first request that had a behavior.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BehaviorTrace {
    pub fingerprint: u64,
    /// The plan that [`model::trace::Call::fault`] points into.
    pub faults: Vec<Fault>,
    pub trace: Trace,
}

/// Decides which requests are stored. Shared by the tasks of cases.
pub(crate) struct BehaviorLog {
    kept: Mutex<Kept>,
}

struct Kept {
    fingerprints: HashSet<u64>,
    calls: usize,
}

impl BehaviorLog {
    /// Continues a log: behaviors that an earlier process, or an earlier space, stored are not stored again.
    pub fn open(dir: &RunDir) -> Result<BehaviorLog, Failure> {
        let mut kept = Kept { fingerprints: HashSet::new(), calls: 0 };
        if dir.file(BEHAVIORS).exists() {
            dir.each_record(BEHAVIORS, |stored: BehaviorTrace| {
                kept.fingerprints.insert(stored.fingerprint);
                kept.calls += stored.trace.walk().len();
            })?;
        }
        Ok(BehaviorLog { kept: Mutex::new(kept) })
    }

    /// The record of a request, if it is the first one with this behavior.
    pub fn record_if_new(&self, fingerprint: u64, trace: &Trace, faults: &[Fault]) -> Option<BehaviorTrace> {
        {
            let mut kept = self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if kept.fingerprints.len() >= BEHAVIORS_MAX || kept.calls >= CALLS_MAX {
                return None;
            }
            if !kept.fingerprints.insert(fingerprint) {
                return None;
            }
            kept.calls += trace.walk().len();
        }
        Some(BehaviorTrace { fingerprint, faults: faults.to_vec(), trace: trace.clone() })
    }
}

/// Fingerprints of the behaviors of which a request is stored.
pub fn stored(dir: &RunDir) -> Result<HashSet<u64>, Failure> {
    let mut fingerprints = HashSet::new();
    if dir.file(BEHAVIORS).exists() {
        dir.each_record(BEHAVIORS, |one: Fingerprint| {
            fingerprints.insert(one.fingerprint);
        })?;
    }
    Ok(fingerprints)
}

/// The stored request with this behavior.
pub fn find(dir: &RunDir, fingerprint: u64) -> Result<Option<BehaviorTrace>, Failure> {
    let mut found = None;
    if dir.file(BEHAVIORS).exists() {
        dir.each_record(BEHAVIORS, |one: BehaviorTrace| {
            if one.fingerprint == fingerprint {
                found.get_or_insert(one);
            }
        })?;
    }
    Ok(found)
}

/// A record without its request, which is slow to read.
#[derive(Deserialize)]
struct Fingerprint {
    fingerprint: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::trace::{Call, Outcome, Protocol};

    fn trace() -> Trace {
        let entry = Call {
            id: "1".into(),
            number: 0,
            caller: String::new(),
            callee: "web".into(),
            name: "GET /".into(),
            peer: "web:80".into(),
            protocol: Protocol::Http,
            sent_us: 0,
            ended_us: Some(1),
            outcome: Outcome::Replied { status: 200 },
            fault: None,
            inherited: false,
            connect_us: None,
            gap: false,
            unreadable: None,
            scope: None,
        };
        Trace { trace_id: "t".into(), entry }
    }

    #[test]
    fn only_the_first_request_of_a_behavior_is_stored() {
        let log = BehaviorLog { kept: Mutex::new(Kept { fingerprints: HashSet::new(), calls: 0 }) };
        assert!(log.record_if_new(7, &trace(), &[]).is_some());
        assert!(log.record_if_new(7, &trace(), &[]).is_none());
        assert!(log.record_if_new(8, &trace(), &[]).is_some());
    }

    #[test]
    fn the_number_of_stored_requests_is_bounded() {
        let log = BehaviorLog { kept: Mutex::new(Kept { fingerprints: HashSet::new(), calls: 0 }) };
        let stored = (0..3_000).filter(|fingerprint| log.record_if_new(*fingerprint, &trace(), &[]).is_some()).count();
        assert_eq!(stored, BEHAVIORS_MAX);
        let full = BehaviorLog { kept: Mutex::new(Kept { fingerprints: HashSet::new(), calls: CALLS_MAX }) };
        assert!(full.record_if_new(1, &trace(), &[]).is_none());
    }
}
