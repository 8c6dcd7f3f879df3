//! The cases of a sweep on disk: `cases.jsonl`, and `causes.jsonl` with one cause per failing behavior.
//!
//! Cases are appended while a space runs, so an interrupted sweep keeps them.

use crate::cause::Cause;
use model::Failure;
use model::sweep::Case;
use runs::{AppendFile, RunDir};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

const CASES: &str = "cases.jsonl";
const CAUSES: &str = "causes.jsonl";

/// The cause of a behavior, stored with the run: a resumed sweep does not repeat the cases that it comes from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BehaviorCause {
    #[serde(rename = "pattern")]
    pub fingerprint: u64,
    pub cause: Cause,
}

pub(crate) struct CaseLog {
    cases: AppendFile,
    causes: AppendFile,
}

impl CaseLog {
    pub fn open(dir: &RunDir) -> Result<CaseLog, Failure> {
        Ok(CaseLog { cases: dir.append_file(CASES)?, causes: dir.append_file(CAUSES)? })
    }

    /// After an error nothing more may be appended: it would follow a truncated line.
    pub fn append(&mut self, causes: &[BehaviorCause], cases: &[Case]) -> Result<(), Failure> {
        // causes first, so that a case on disk always has its cause there
        self.causes.append(causes)?;
        self.cases.append(cases)
    }
}

pub(crate) fn read_cases(dir: &RunDir, space: usize) -> Result<Vec<Case>, Failure> {
    Ok(dir.records::<Case>(CASES)?.into_iter().filter(|case| case.space == space).collect())
}

pub(crate) fn read_causes(dir: &RunDir) -> Result<HashMap<u64, Cause>, Failure> {
    Ok(dir.records::<BehaviorCause>(CAUSES)?.into_iter().map(|c| (c.fingerprint, c.cause)).collect())
}

/// Removes the cases of a space that is run from its beginning again. The file is replaced as a whole.
pub(crate) fn remove_cases(dir: &RunDir, space: usize) -> Result<(), Failure> {
    let (removed, kept): (Vec<Case>, Vec<Case>) =
        dir.records::<Case>(CASES)?.into_iter().partition(|case| case.space == space);
    if removed.is_empty() {
        return Ok(());
    }
    let mut bytes = Vec::new();
    for case in &kept {
        serde_json::to_writer(&mut bytes, case).map_err(|e| Failure::new(model::Family::Bug, e.to_string()))?;
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
