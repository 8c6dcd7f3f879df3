//! Guided exploration: as few cases as possible to observe every distinct behavior of every caller.
//!
//! Assumptions: services are deterministic, and only the success of a call, not the content of a fallback's reply,
//! decides what a caller does next. Not all combinations of faults across callers are run if no single caller can
//! observe them together.
//!
//! The order of the cases is in `exploration.rs`.

use crate::case_log::{CaseLog, Observation, read_cases, read_observations, remove_cases};
use crate::exploration::{Exploration, NextCase, candidates};
use crate::in_flight::{InFlight, PlannedCase};
use crate::runner::{PROGRESS_EVERY, Progress, Results, SpaceRun, Sweeper, is_recorded};
use model::Failure;
use model::sweep::Case;
use model::trace::Trace;
use request_faults::space::Effect;
use runs::RunDir;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

impl Sweeper {
    /// Runs the cases that are not stored in `dir` yet. What follows from stored cases is read from their observations;
    /// cases of earlier versions, which stored none, are removed and run again. Ends early, unfinished, when `stop` is
    /// set.
    ///
    /// Errors: a case could not be sent or stored. What completed before is stored.
    pub async fn guided(
        &self,
        index: usize,
        name: String,
        effect: Effect,
        good: &Trace,
        dir: &RunDir,
        mut progress: impl FnMut(Progress),
    ) -> Result<SpaceRun, Failure> {
        let begin = Instant::now();
        let mut observations = read_observations(dir, index)?;
        remove_cases(dir, index, |case| !observations.contains_key(&case.case))?;
        let mut stored: HashMap<u64, Case> =
            read_cases(dir, index)?.into_iter().map(|case| (case.case, case)).collect();
        tracing::info!(space = name, stored = stored.len(), "running a space");
        let mut results = Results::new(CaseLog::open(dir)?, Vec::new());
        let mut exploration = Exploration::new(good, effect);
        let mut in_flight = InFlight::new(
            self,
            good,
            results.behaviors(),
            Some(Arc::new(move |case: &PlannedCase, trace: &Trace| Observation {
                space: case.space,
                case: case.number,
                sites: case.sites.clone(),
                candidates: candidates(trace, effect),
            })),
        );
        loop {
            while self.may_continue(&results) && in_flight.has_room() {
                let Some(NextCase { number, sites }) = exploration.next() else { break };
                if let (Some(case), Some(observation)) = (stored.remove(&number), observations.remove(&number)) {
                    results.add_stored(case);
                    exploration.observe(observation)?;
                    continue;
                }
                let faults = exploration.faults(&sites);
                let must_fire = faults.iter().any(|fault| is_recorded(fault, good));
                in_flight.start(PlannedCase { space: index, number, sites, faults, must_fire });
            }
            let mut completed = match tokio::time::timeout(PROGRESS_EVERY, in_flight.completed()).await {
                Ok(completed) if completed.is_empty() => break,
                Ok(completed) => completed,
                Err(_) => Vec::new(),
            };
            let mut observed = Vec::new();
            for done in completed.iter_mut().flatten() {
                if let Some(observation) = &mut done.record.observation {
                    exploration.without_known_candidates(observation);
                    observed.push(observation.clone());
                }
            }
            results.store(completed);
            for observation in observed {
                exploration.observe(observation)?;
            }
            progress(Progress {
                space: name.clone(),
                done: results.cases.len() as u64,
                total: results.cases.len() as u64 + in_flight.len() as u64 + exploration.remaining(),
                may_grow: true,
                failures: results.failures,
                in_flight: in_flight.len() as u64,
            });
        }
        let (left_out, finished) = (exploration.left_out(), exploration.is_complete());
        results.into_run(name, exploration.into_sites(), begin, left_out, finished)
    }
}
