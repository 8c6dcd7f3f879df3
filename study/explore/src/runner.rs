//! Runs the cases of a space that are not stored yet, several at once, and stores each when it completes.

use crate::behavior_log::BehaviorLog;
use crate::case_log::{CaseLog, read_cases};
use crate::cause::Cause;
use crate::in_flight::{CompletedCase, InFlight, PlannedCase};
use crate::oracle::Oracle;
use crate::recovery::CrashRecovery;
use model::sweep::{Case, Site, Space};
use model::trace::Trace;
use model::{Failure, Fault, Verdict};
use request_faults::SpaceKind;
use request_faults::resolve::selects;
use requests::{Credentials, RequestSpec, Sender};
use runs::RunDir;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Power sets of more sites are refused: a million cases take too long to run.
pub const POWER_SET_SITES_MAX: usize = 20;

/// While all cases in flight wait, progress is reported this often.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// The state of a running space, for display.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    pub space: String,
    pub done: u64,
    pub total: u64,
    /// Whether `total` may still grow: guided exploration chooses its cases while it runs.
    pub may_grow: bool,
    pub failures: u64,
    /// Cases that were sent and have no reply yet.
    pub in_flight: u64,
}

#[derive(Clone)]
pub struct Sweeper {
    pub credentials: Credentials,
    pub run: [u8; 16],
    pub spec: RequestSpec,
    pub oracle: Oracle,
    pub concurrency: usize,
    pub recovery: Arc<CrashRecovery>,
    /// Set from outside to end the sweep after the cases in flight.
    pub stop: Arc<AtomicBool>,
}

/// A space to be swept. `index`: its position among the run's spaces.
pub struct SpacePlan {
    pub index: usize,
    pub kind: SpaceKind,
    pub name: String,
    pub sites: Vec<Site>,
    /// After this time no further case is started: cases that wait for deadlines may take long.
    pub time_max: Option<Duration>,
}

/// A swept space with its cases.
pub struct SpaceRun {
    pub space: Space,
    pub cases: Vec<Case>,
    pub causes: HashMap<u64, Cause>,
    /// Cases that an earlier process completed. The space's `seconds` are those of this process.
    pub stored: u64,
    pub repeated: u64,
    /// Services that crashed and were restarted, one entry per crash.
    pub crashed: Vec<String>,
    /// Cases that were not run because the space has a limit.
    pub left_out: u64,
    pub finished: bool,
}

impl Sweeper {
    pub fn sender(&self) -> Sender {
        Sender::new(self.credentials.clone(), Some(self.run))
    }

    /// Runs all cases of a space that are not stored in `dir` yet. Ends early, unfinished, when `stop` is set.
    ///
    /// Errors: a case could not be sent or stored. What completed before is stored.
    pub async fn sweep(
        &self,
        space: SpacePlan,
        good: &Trace,
        dir: &RunDir,
        mut progress: impl FnMut(Progress),
    ) -> Result<SpaceRun, Failure> {
        let SpacePlan { index, kind, name, sites, time_max } = space;
        let total = cases_of(kind, sites.len())?;
        let begin = Instant::now();
        let recorded: Vec<bool> = sites.iter().map(|site| is_recorded(&site.fault, good)).collect();
        let mut results = Results::new(CaseLog::open(dir)?, read_cases(dir, index)?);
        let stored: HashSet<u64> = results.cases.iter().map(|case| case.case).collect();
        tracing::info!(space = name, cases = total, stored = stored.len(), "running a space");
        let mut todo = (0..total).filter(|number| !stored.contains(number));
        let mut in_flight = InFlight::new(self, good, results.behaviors(), None);
        loop {
            let has_time = time_max.is_none_or(|limit| begin.elapsed() < limit);
            while self.may_continue(&results) && has_time && in_flight.has_room() {
                let Some(number) = todo.next() else { break };
                let case_sites = sites_of(kind, number);
                in_flight.start(PlannedCase {
                    space: index,
                    number,
                    faults: case_sites.iter().map(|site| sites[*site as usize].fault.clone()).collect(),
                    must_fire: case_sites.iter().any(|site| recorded[*site as usize]),
                    sites: case_sites,
                });
            }
            if let Ok(completed) = tokio::time::timeout(PROGRESS_EVERY, in_flight.completed()).await {
                if completed.is_empty() {
                    break;
                }
                results.store(completed);
            }
            let (done, failures, in_flight) = (results.cases.len() as u64, results.failures, in_flight.len() as u64);
            progress(Progress { space: name.clone(), done, total, may_grow: false, failures, in_flight });
        }
        let left_out = if self.may_continue(&results) { todo.count() as u64 } else { 0 };
        let finished = results.cases.len() as u64 + left_out == total;
        results.into_run(name, sites, begin, left_out, finished)
    }

    pub(crate) fn may_continue(&self, results: &Results) -> bool {
        results.failed.is_none() && !self.stop.load(Ordering::Relaxed)
    }
}

/// The completed cases of a space, which are stored as they arrive.
pub(crate) struct Results {
    log: CaseLog,
    pub cases: Vec<Case>,
    pub failures: u64,
    stored: u64,
    repeated: u64,
    crashed: Vec<String>,
    /// The first failure. No further case is started.
    pub failed: Option<Failure>,
    /// The disk is full, for example: nothing more is written.
    is_log_broken: bool,
}

impl Results {
    /// `stored`: the cases that an earlier process completed.
    pub fn new(log: CaseLog, stored: Vec<Case>) -> Results {
        let failures = stored.iter().filter(|case| case.verdict == Verdict::Fail).count() as u64;
        Results {
            log,
            failures,
            stored: stored.len() as u64,
            cases: stored,
            repeated: 0,
            crashed: Vec::new(),
            failed: None,
            is_log_broken: false,
        }
    }

    pub fn behaviors(&self) -> Arc<BehaviorLog> {
        self.log.behaviors.clone()
    }

    /// Adds a case that an earlier process completed.
    pub fn add_stored(&mut self, case: Case) {
        self.stored += 1;
        self.failures += u64::from(case.verdict == Verdict::Fail);
        self.cases.push(case);
    }

    /// Stores cases, also those that complete after another one failed.
    pub fn store(&mut self, completed: Vec<Result<CompletedCase, Failure>>) {
        let mut records = Vec::with_capacity(completed.len());
        for result in completed {
            match result {
                Ok(CompletedCase { record, repeated, crashed }) => {
                    self.repeated += u64::from(repeated);
                    self.crashed.extend(crashed);
                    records.push(record);
                }
                Err(failure) => {
                    self.failed.get_or_insert(failure);
                }
            }
        }
        if self.is_log_broken {
            return;
        }
        if let Err(failure) = self.log.append(&mut records) {
            self.is_log_broken = true;
            self.failed = Some(failure);
            return;
        }
        for record in records {
            self.failures += u64::from(record.case.verdict == Verdict::Fail);
            self.cases.push(record.case);
        }
    }

    pub fn into_run(
        mut self,
        name: String,
        sites: Vec<Site>,
        begin: Instant,
        left_out: u64,
        finished: bool,
    ) -> Result<SpaceRun, Failure> {
        if let Some(failure) = self.failed {
            return Err(failure);
        }
        self.cases.sort_by_key(|case| case.case);
        let space = summarize(name, sites, &self.cases, begin.elapsed().as_secs_f64());
        let (cases, causes) = (self.cases, self.log.known_causes);
        let Results { stored, repeated, crashed, .. } = self;
        Ok(SpaceRun { space, cases, causes, stored, repeated, crashed, left_out, finished })
    }
}

/// Whether the call that a fault selects is part of the good run.
pub(crate) fn is_recorded(fault: &Fault, good: &Trace) -> bool {
    good.walk().iter().any(|call| selects(&fault.selector, call))
}

pub fn summarize(name: String, sites: Vec<Site>, cases: &[Case], seconds: f64) -> Space {
    let count = |verdict| cases.iter().filter(|c| c.verdict == verdict).count() as u64;
    Space {
        name,
        sites,
        cases: cases.len() as u64,
        failures: count(Verdict::Fail),
        passes: count(Verdict::Pass),
        unaffected: cases
            .iter()
            .filter(|c| c.verdict == Verdict::Pass && c.fired.is_empty() && !c.sites.is_empty())
            .count() as u64,
        unknown: count(Verdict::Unknown),
        // a case that was not sent has no behavior
        behaviors: cases
            .iter()
            .map(|c| c.fingerprint)
            .filter(|it| *it != 0)
            .collect::<std::collections::HashSet<_>>()
            .len() as u64,
        seconds,
        minimal: crate::minimal::failing_sets(cases.iter()),
    }
}

/// The number of cases of a space. Errors: a power set that is too large to run.
pub fn cases_of(kind: SpaceKind, sites: usize) -> Result<u64, Failure> {
    if !kind.is_power_set() {
        return Ok(sites as u64);
    }
    if sites > POWER_SET_SITES_MAX {
        return Err(Failure::request(format!("the space '{}' has {sites} sites, 2^{sites} cases", kind.as_str()))
            .why(format!("all subsets can be run for at most {POWER_SET_SITES_MAX} sites"))
            .next("use --space guided: it finds the distinct behaviors in few runs"));
    }
    Ok(1 << sites)
}

fn sites_of(kind: SpaceKind, number: u64) -> Vec<u32> {
    if kind.is_power_set() { (0..64).filter(|i| number >> i & 1 == 1).collect() } else { vec![number as u32] }
}
