//! Cases in flight: each is sent and assessed by a task of its own, so that cases which only wait do so concurrently.
//!
//! A completed case keeps its place among those in flight until it is taken with [`InFlight::completed`]. Its taker
//! stores it before it starts another one. So at any moment at most `concurrency` cases were sent and are not stored.

use crate::assess::{assess, fail_if_crashed, not_sent};
use crate::behavior_log::BehaviorLog;
use crate::case_log::{CaseRecord, Observation};
use crate::cause;
use crate::good_run::GoodRun;
use crate::runner::Sweeper;
use model::sweep::Case;
use model::trace::Trace;
use model::{Failure, Family, Fault, Verdict};
use requests::Sender;
use std::sync::Arc;
use tokio::task::JoinSet;

/// A case that is to be sent.
pub(crate) struct PlannedCase {
    pub space: usize,
    pub number: u64,
    /// In the order of `faults`.
    pub sites: Vec<u32>,
    pub faults: Vec<Fault>,
    /// Whether a call of the good run is faulted, so that a fault must fire.
    pub must_fire: bool,
}

/// What guided exploration needs of a trace, computed where the case was sent.
pub(crate) type Observe = Arc<dyn Fn(&PlannedCase, &Trace) -> Observation + Send + Sync>;

/// A case whose reply was assessed.
pub(crate) struct CompletedCase {
    pub record: CaseRecord,
    pub repeated: bool,
    /// Services whose crash this case detected.
    pub crashed: Vec<String>,
}

type Outcome = (Sender, Result<CompletedCase, Failure>);

pub(crate) struct InFlight<'a> {
    sweeper: &'a Sweeper,
    good: Arc<GoodRun>,
    behaviors: Arc<BehaviorLog>,
    observe: Option<Observe>,
    /// Of cases that have completed, with their connections.
    idle: Vec<Sender>,
    tasks: JoinSet<Outcome>,
}

impl<'a> InFlight<'a> {
    pub fn new(
        sweeper: &'a Sweeper,
        good: &Trace,
        behaviors: Arc<BehaviorLog>,
        observe: Option<Observe>,
    ) -> InFlight<'a> {
        let good = Arc::new(GoodRun::of(good));
        InFlight { sweeper, good, behaviors, observe, idle: Vec::new(), tasks: JoinSet::new() }
    }

    pub fn has_room(&self) -> bool {
        self.tasks.len() < self.sweeper.concurrency.max(1)
    }

    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    pub fn start(&mut self, case: PlannedCase) {
        let mut sender = self.idle.pop().unwrap_or_else(|| self.sweeper.sender());
        let (spec, oracle) = (self.sweeper.spec.clone(), self.sweeper.oracle.clone());
        let behaviors = self.behaviors.clone();
        let (recovery, good, observe) = (self.sweeper.recovery.clone(), self.good.clone(), self.observe.clone());
        self.tasks.spawn(async move {
            let sent = recovery.send(&mut sender, &spec, &case.faults).await;
            let completed = match sent {
                // a plan that is too large for its carrier is not sent
                Err(failure) if failure.family == Family::Unknown => {
                    let assessed = not_sent(case.space, case.number, case.sites.clone(), failure.what);
                    let observation = observe.is_some().then(|| Observation {
                        space: case.space,
                        case: case.number,
                        sites: case.sites.clone(),
                        candidates: Vec::new(),
                    });
                    let record = CaseRecord { case: in_site_order(assessed), cause: None, observation, behavior: None };
                    Ok(CompletedCase { record, repeated: false, crashed: Vec::new() })
                }
                Err(failure) => Err(failure),
                Ok(sent) => {
                    let trace = &sent.reply.trace;
                    let mut assessed = assess(&case, &sent.reply, &oracle);
                    fail_if_crashed(&mut assessed, &sent.crashed_by_faults);
                    let cause = (assessed.verdict == Verdict::Fail).then(|| cause::of(trace, &good, &case.faults));
                    assessed.cause =
                        cause.as_ref().and_then(|cause| cause::key(cause, &case.faults, assessed.fingerprint));
                    let observation = observe.map(|observe| observe(&case, trace));
                    let behavior = behaviors.record_if_new(assessed.cause_key(), trace, &case.faults);
                    let record = CaseRecord { case: in_site_order(assessed), cause, observation, behavior };
                    Ok(CompletedCase { record, repeated: sent.repeated, crashed: sent.crashed })
                }
            };
            (sender, completed)
        });
    }

    /// Waits for a case to complete and returns all that have; none if none is in flight.
    pub async fn completed(&mut self) -> Vec<Result<CompletedCase, Failure>> {
        let mut completed = Vec::new();
        let mut next = self.tasks.join_next().await;
        while let Some(joined) = next {
            match joined {
                Ok((sender, result)) => {
                    self.idle.push(sender);
                    if let Ok(done) = &result {
                        log_case(&done.record.case);
                    }
                    completed.push(result);
                }
                Err(error) => completed.push(Err(Failure::new(Family::Bug, format!("a case failed: {error}")))),
            }
            next = self.tasks.try_join_next();
        }
        completed
    }
}

fn in_site_order(mut case: Case) -> Case {
    case.sites.sort_unstable();
    case.fired.sort_unstable();
    case
}

fn log_case(case: &Case) {
    let Case { space, case, sites, fired, verdict, status, reason, .. } = case;
    tracing::debug!(space, case, ?sites, ?fired, %verdict, status, reason, "case");
}
