//! The cases of a sweep on disk. Each case is stored when it completes, before its worker sends another one, so an
//! interrupted sweep loses only the cases in flight and a resumed one never sends a stored case again.
//!
//! ```text
//! cases.jsonl      every completed case
//! causes.jsonl     one cause per failing behavior
//! guided.jsonl     per case of a guided space: where its request allows one more fault (see `guided.rs`)
//! behaviors.jsonl  one request per behavior (see `behavior_log.rs`)
//! ```

use crate::behavior_log::{BEHAVIORS, BehaviorLog, BehaviorTrace};
use crate::cause::Cause;
use model::sweep::{Case, Site};
use model::{Failure, Family};
use runs::{AppendFile, RunDir};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

const CASES: &str = "cases.jsonl";
const CAUSES: &str = "causes.jsonl";
const OBSERVATIONS: &str = "guided.jsonl";

/// The cause of a behavior, stored with the run: a resumed sweep does not repeat the cases that it comes from.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct BehaviorCause {
    #[serde(rename = "pattern")]
    fingerprint: u64,
    cause: Cause,
}

/// A call after the last fault of a case, where one more fault may be injected. The hashes identify what its caller had
/// done before; see `guided.rs`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Candidate {
    pub merged: u64,
    pub exact: u64,
    pub site: Site,
}

/// What guided exploration needs of a completed case to choose the next ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Observation {
    pub space: usize,
    pub case: u64,
    /// The sites of the case in the order of the plan.
    pub sites: Vec<u32>,
    pub candidates: Vec<Candidate>,
}

/// A completed case, and what else is stored with it.
pub(crate) struct CaseRecord {
    pub case: Case,
    /// Of a failing case.
    pub cause: Option<Cause>,
    /// Of a case of a guided space.
    pub observation: Option<Observation>,
    /// Of the first case of a behavior.
    pub behavior: Option<BehaviorTrace>,
}

pub(crate) struct CaseLog {
    cases: AppendFile,
    causes: AppendFile,
    observations: AppendFile,
    behavior_traces: AppendFile,
    pub behaviors: Arc<BehaviorLog>,
    /// One per failing behavior, in all spaces of the run.
    pub known_causes: HashMap<u64, Cause>,
}

impl CaseLog {
    pub fn open(dir: &RunDir) -> Result<CaseLog, Failure> {
        let causes: Vec<BehaviorCause> = dir.records(CAUSES)?;
        Ok(CaseLog {
            cases: dir.append_file(CASES)?,
            causes: dir.append_file(CAUSES)?,
            observations: dir.append_file(OBSERVATIONS)?,
            behaviors: Arc::new(BehaviorLog::open(dir)?),
            behavior_traces: dir.append_file(BEHAVIORS)?,
            known_causes: causes.into_iter().map(|known| (known.fingerprint, known.cause)).collect(),
        })
    }

    /// After an error nothing more may be appended: it would follow a truncated line.
    pub fn append(&mut self, records: &mut [CaseRecord]) -> Result<(), Failure> {
        let mut causes = Vec::new();
        let behaviors: Vec<BehaviorTrace> = records.iter_mut().filter_map(|record| record.behavior.take()).collect();
        for record in &mut *records {
            let fingerprint = record.case.cause_key();
            let Some(cause) = record.cause.take() else { continue };
            self.known_causes.entry(fingerprint).or_insert_with(|| {
                causes.push(BehaviorCause { fingerprint, cause: cause.clone() });
                cause
            });
        }
        let observations: Vec<&Observation> = records.iter().filter_map(|record| record.observation.as_ref()).collect();
        let cases: Vec<&Case> = records.iter().map(|record| &record.case).collect();
        // the cases last, so that a case on disk always has its cause and its observation there
        if !causes.is_empty() {
            self.causes.append(&causes)?;
        }
        if !observations.is_empty() {
            self.observations.append(&observations)?;
        }
        if !behaviors.is_empty() {
            self.behavior_traces.append(&behaviors)?;
        }
        self.cases.append(&cases)
    }
}

pub(crate) fn read_cases(dir: &RunDir, space: usize) -> Result<Vec<Case>, Failure> {
    Ok(dir.records::<Case>(CASES)?.into_iter().filter(|case| case.space == space).collect())
}

/// By the number of the case. A case that was in flight at an interruption may have two; the later one is returned.
pub(crate) fn read_observations(dir: &RunDir, space: usize) -> Result<HashMap<u64, Observation>, Failure> {
    let all = dir.records::<Observation>(OBSERVATIONS)?.into_iter();
    Ok(all.filter(|one| one.space == space).map(|one| (one.case, one)).collect())
}

/// Removes the cases of a space that `remove` selects. The file is replaced as a whole.
pub(crate) fn remove_cases(dir: &RunDir, space: usize, remove: impl Fn(&Case) -> bool) -> Result<(), Failure> {
    let (removed, kept): (Vec<Case>, Vec<Case>) =
        dir.records::<Case>(CASES)?.into_iter().partition(|case| case.space == space && remove(case));
    if removed.is_empty() {
        return Ok(());
    }
    let mut bytes = Vec::new();
    for case in &kept {
        serde_json::to_writer(&mut bytes, case).map_err(|e| Failure::new(Family::Bug, e.to_string()))?;
        bytes.push(b'\n');
    }
    dir.write(CASES, &bytes).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A resumed sweep reads these names in the causes that earlier versions stored.
    #[test]
    fn causes_of_0_1_0_are_read_and_written_as_before() {
        let runs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../app/tests/stores/0.1.0-findings/runs");
        let files = std::fs::read_dir(runs).unwrap().map(|run| run.unwrap().path().join(CAUSES));
        let [file] = &files.filter(|file| file.exists()).collect::<Vec<_>>()[..] else { panic!("one sweep") };
        let text = std::fs::read_to_string(file).unwrap();
        let causes: Vec<BehaviorCause> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut failed: Vec<String> =
            causes.iter().map(|c| format!("{} → {}", c.cause.failed.caller, c.cause.failed.callee)).collect();
        failed.sort_unstable();
        failed.dedup();
        assert_eq!(failed, ["cart → stock", "front → cart"]);
        assert!(causes.iter().all(|cause| cause.fingerprint > 0));
        let written: String = causes.iter().map(|c| serde_json::to_string(c).unwrap() + "\n").collect();
        assert_eq!(written, text);
    }
}
