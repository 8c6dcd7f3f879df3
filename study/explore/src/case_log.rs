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
