//! Runs the cases of a space: workers share only the counter of the next case, and one collector stores the results.

use crate::assess::{assess, fail_if_crashed};
use crate::case_log::{BehaviorCause, CaseLog, read_cases, read_causes};
use crate::cause::{self, Cause};
use crate::oracle::Oracle;
use crate::recovery::CrashRecovery;
use model::sweep::{Case, Site, Space};
use model::trace::Trace;
use model::{Failure, Fault, Verdict};
use request_faults::SpaceKind;
use request_faults::resolve::selects;
use requests::{Credentials, RequestSpec, Sender};
use runs::RunDir;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Power sets of more sites are refused: a million cases take too long to run.
pub const POWER_SET_SITES_MAX: usize = 20;
const APPEND_EVERY: Duration = Duration::from_millis(250);

/// The state of a running space, for display.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    pub space: String,
    pub done: u64,
    pub total: u64,
    pub failures: u64,
}

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
}

/// A swept space with its cases.
pub struct SpaceRun {
    pub space: Space,
    pub cases: Vec<Case>,
    pub causes: HashMap<u64, Cause>,
    pub repeated: u64,
    /// Services that crashed and were restarted, one entry per crash.
    pub crashed: Vec<String>,
    pub finished: bool,
}

struct CaseResult {
    case: Case,
    cause: Option<Cause>,
    repeated: bool,
    crashed: Vec<String>,
}

impl Sweeper {
    pub fn sender(&self) -> Sender {
        Sender::new(self.credentials.clone(), Some(self.run))
    }

    /// Runs all cases of a space that are not stored in `dir` yet. Ends early, unfinished, when `stop` is set.
    pub async fn sweep(
        &self,
        space: SpacePlan,
        good: &Trace,
        dir: &RunDir,
        mut progress: impl FnMut(Progress),
    ) -> Result<SpaceRun, Failure> {
        let SpacePlan { index, kind, name, sites } = space;
        let total = cases_of(kind, sites.len())?;
        let begin = Instant::now();
        let recorded = recorded(&sites, good);
        let mut cases = read_cases(dir, index)?;
        let mut causes = read_causes(dir)?;
        let done: std::collections::HashSet<u64> = cases.iter().map(|c| c.case).collect();
        let todo: Vec<u64> = (0..total).filter(|n| !done.contains(n)).collect();
        tracing::info!(space = name, cases = total, stored = cases.len(), "running a space");
        let mut log = CaseLog::open(dir)?;
        let work = Arc::new(Work {
            index,
            kind,
            sites,
            recorded,
            todo,
            next: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        });

        let (results, mut received) = mpsc::channel::<Result<CaseResult, Failure>>(1024);
        let mut workers = Vec::new();
        for _ in 0..self.concurrency.max(1) {
            let worker = Worker {
                sender: self.sender(),
                spec: self.spec.clone(),
                oracle: self.oracle.clone(),
                recovery: self.recovery.clone(),
                stop: self.stop.clone(),
                work: work.clone(),
                results: results.clone(),
            };
            workers.push(tokio::spawn(worker.run()));
        }
        drop(results);

        let (mut repeated, mut crashed) = (0, Vec::new());
        let mut failures = cases.iter().filter(|c| c.verdict == Verdict::Fail).count() as u64;
        let mut pending: Vec<Case> = Vec::new();
        let mut new_causes: Vec<BehaviorCause> = Vec::new();
        let mut failed = None;
        let mut last = Instant::now();
        loop {
            let result = received.recv().await;
            if let Some(result) = result {
                match result {
                    Ok(CaseResult { case, cause, repeated: was_repeated, crashed: services }) => {
                        repeated += u64::from(was_repeated);
                        crashed.extend(services);
                        failures += u64::from(case.verdict == Verdict::Fail);
                        if let Some(cause) = cause
                            && !causes.contains_key(&case.fingerprint)
                        {
                            causes.insert(case.fingerprint, cause.clone());
                            new_causes.push(BehaviorCause { fingerprint: case.fingerprint, cause });
                        }
                        pending.push(case);
                    }
                    Err(failure) => {
                        work.failed.store(true, Ordering::Relaxed);
                        failed.get_or_insert(failure);
                    }
                }
                if last.elapsed() < APPEND_EVERY {
                    continue;
                }
            } else if pending.is_empty() && new_causes.is_empty() {
                break;
            }
            if failed.is_none()
                && let Err(failure) = log.append(&new_causes, &pending)
            {
                work.failed.store(true, Ordering::Relaxed);
                failed = Some(failure);
            }
            new_causes.clear();
            cases.append(&mut pending);
            progress(Progress { space: name.clone(), done: cases.len() as u64, total, failures });
            last = Instant::now();
        }
        for worker in workers {
            let _ = worker.await;
        }
        if let Some(failure) = failed {
            return Err(failure);
        }
        cases.sort_by_key(|c| c.case);
        let finished = cases.len() as u64 == total;
        let sites = Arc::try_unwrap(work).map_or_else(|w| w.sites.clone(), |w| w.sites);
        let space = summarize(name, sites, &cases, begin.elapsed().as_secs_f64());
        Ok(SpaceRun { space, cases, causes, repeated, crashed, finished })
    }
}

struct Work {
    index: usize,
    kind: SpaceKind,
    sites: Vec<Site>,
    recorded: Vec<bool>,
    todo: Vec<u64>,
    next: AtomicU64,
    /// The space cannot be completed, so that no further case is needed.
    failed: AtomicBool,
}

struct Worker {
    sender: Sender,
    spec: RequestSpec,
    oracle: Oracle,
    recovery: Arc<CrashRecovery>,
    stop: Arc<AtomicBool>,
    work: Arc<Work>,
    results: mpsc::Sender<Result<CaseResult, Failure>>,
}

impl Worker {
    async fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) && !self.work.failed.load(Ordering::Relaxed) {
            let at = self.work.next.fetch_add(1, Ordering::Relaxed) as usize;
            let Some(number) = self.work.todo.get(at).copied() else {
                return;
            };
            let sites = sites_of(self.work.kind, number);
            let result = self.run_case(number, sites).await;
            if self.results.send(result).await.is_err() {
                return;
            }
        }
    }

    async fn run_case(&mut self, number: u64, sites: Vec<u32>) -> Result<CaseResult, Failure> {
        let faults: Vec<Fault> = sites.iter().map(|s| self.work.sites[*s as usize].fault.clone()).collect();
        let sent = self.recovery.send(&mut self.sender, &self.spec, &faults).await?;
        let mut case = assess(self.work.index, number, sites, &self.work.recorded, &sent.reply, &self.oracle);
        fail_if_crashed(&mut case, &sent.crashed_by_faults);
        log_case(&case);
        let cause = (case.verdict == Verdict::Fail).then(|| cause::of(&sent.reply.trace));
        Ok(CaseResult { case, cause, repeated: sent.repeated, crashed: sent.crashed })
    }
}

pub(crate) fn log_case(case: &Case) {
    let Case { space, case, sites, fired, verdict, status, reason, .. } = case;
    tracing::debug!(space, case, ?sites, ?fired, %verdict, status, reason, "case");
}

/// For each site, whether its call is part of the good run.
pub fn recorded(sites: &[Site], good: &Trace) -> Vec<bool> {
    let calls = good.walk();
    sites.iter().map(|site| calls.iter().any(|call| selects(&site.fault.selector, call))).collect()
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
        behaviors: cases.iter().map(|c| c.fingerprint).collect::<std::collections::HashSet<_>>().len() as u64,
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
