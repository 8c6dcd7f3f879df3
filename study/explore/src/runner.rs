//! Running the cases of a space: workers that share nothing but the next case's number, one collector that writes them down.

use crate::cause::{self, Cause};
use crate::judge::{brought_down, judge};
use crate::oracle::Oracle;
use crate::watch::Watch;
use model::sweep::{Case, Site, Space};
use model::trace::Trace;
use model::{Failure, Fault, Verdict};
use request_faults::SpaceKind;
use request_faults::resolve::selects;
use requests::{Credentials, RequestSpec, Sender};
use runs::RunDir;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Power sets beyond this many sites are refused: a million cases is where exhaustion stops being an answer.
pub const POWER_SET_SITES_MAX: usize = 20;
const APPEND_EVERY: Duration = Duration::from_millis(250);

/// What the user sees while it runs.
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
    pub watch: Arc<Watch>,
    pub stop: Arc<AtomicBool>,
}

/// A cause per pattern, kept with the run so that a resumed sweep knows the causes of the cases it need not repeat.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PatternCause {
    pub pattern: u64,
    pub cause: Cause,
}

/// A space to be swept: its place among the run's spaces, and its sites.
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
    /// Services that crashed for real and were restarted, one entry per crash.
    pub crashed: Vec<String>,
    pub finished: bool,
}

pub struct Outcome {
    pub case: Case,
    pub cause: Option<Cause>,
    repeated: bool,
    crashed: Vec<String>,
}

impl Sweeper {
    pub fn sender(&self) -> Sender {
        Sender::new(self.credentials.clone(), Some(self.run))
    }

    /// Runs all cases of a space that `dir` does not have yet. Stops early, unfinished, when `stop` is set.
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
        let mut cases: Vec<Case> =
            dir.records::<Case>("cases.jsonl")?.into_iter().filter(|c| c.space == index).collect();
        let mut causes: HashMap<u64, Cause> =
            dir.records::<PatternCause>("causes.jsonl")?.into_iter().map(|p| (p.pattern, p.cause)).collect();
        let done: std::collections::HashSet<u64> = cases.iter().map(|c| c.case).collect();
        let todo: Arc<Vec<u64>> = Arc::new((0..total).filter(|n| !done.contains(n)).collect());
        let (mut segment, mut cause_segment) = (dir.segment("cases.jsonl")?, dir.segment("causes.jsonl")?);
        let work = Arc::new(Work { index, kind, sites, recorded, todo, next: AtomicU64::new(0) });

        let (sent, mut received) = mpsc::channel::<Result<Outcome, Failure>>(1024);
        let mut workers = Vec::new();
        for _ in 0..self.concurrency.max(1) {
            let worker = Worker {
                sender: self.sender(),
                spec: self.spec.clone(),
                oracle: self.oracle.clone(),
                watch: self.watch.clone(),
                stop: self.stop.clone(),
                work: work.clone(),
                sent: sent.clone(),
            };
            workers.push(tokio::spawn(worker.run()));
        }
        drop(sent);

        let (mut repeated, mut crashed) = (0, Vec::new());
        let mut failures = cases.iter().filter(|c| c.verdict == Verdict::Fail).count() as u64;
        let mut pending: Vec<Case> = Vec::new();
        let mut new_causes: Vec<PatternCause> = Vec::new();
        let mut failed = None;
        let mut last = Instant::now();
        loop {
            let outcome = received.recv().await;
            if let Some(outcome) = outcome {
                match outcome {
                    Ok(outcome) => {
                        repeated += u64::from(outcome.repeated);
                        crashed.extend(outcome.crashed);
                        failures += u64::from(outcome.case.verdict == Verdict::Fail);
                        if let Some(cause) = outcome.cause
                            && !causes.contains_key(&outcome.case.pattern)
                        {
                            causes.insert(outcome.case.pattern, cause.clone());
                            new_causes.push(PatternCause { pattern: outcome.case.pattern, cause });
                        }
                        pending.push(outcome.case);
                    }
                    Err(failure) => {
                        self.stop.store(true, Ordering::Relaxed);
                        failed.get_or_insert(failure);
                    }
                }
                if last.elapsed() < APPEND_EVERY {
                    continue;
                }
            } else if pending.is_empty() && new_causes.is_empty() {
                break;
            }
            // causes first: a case on disk always has its cause there
            // after an error nothing is appended any more: it would stand behind a line that was cut off
            if failed.is_none()
                && let Err(failure) = cause_segment.append(&new_causes).and_then(|()| segment.append(&pending))
            {
                self.stop.store(true, Ordering::Relaxed);
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
        let space = summarise(name, sites, &cases, begin.elapsed().as_secs_f64());
        Ok(SpaceRun { space, cases, causes, repeated, crashed, finished })
    }
}

struct Work {
    index: usize,
    kind: SpaceKind,
    sites: Vec<Site>,
    recorded: Vec<bool>,
    todo: Arc<Vec<u64>>,
    next: AtomicU64,
}

struct Worker {
    sender: Sender,
    spec: RequestSpec,
    oracle: Oracle,
    watch: Arc<Watch>,
    stop: Arc<AtomicBool>,
    work: Arc<Work>,
    sent: mpsc::Sender<Result<Outcome, Failure>>,
}

impl Worker {
    async fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            let at = self.work.next.fetch_add(1, Ordering::Relaxed) as usize;
            let Some(number) = self.work.todo.get(at).copied() else {
                return;
            };
            let sites = sites_of(self.work.kind, number);
            let outcome = self.case(number, sites).await;
            if self.sent.send(outcome).await.is_err() {
                return;
            }
        }
    }

    async fn case(&mut self, number: u64, sites: Vec<u32>) -> Result<Outcome, Failure> {
        let faults: Vec<Fault> = sites.iter().map(|s| self.work.sites[*s as usize].fault.clone()).collect();
        let sent = self.watch.send(&mut self.sender, &self.spec, &faults).await?;
        let mut case = judge(self.work.index, number, sites, &self.work.recorded, &sent.reply, &self.oracle);
        brought_down(&mut case, &sent.brought_down);
        let cause = (case.verdict == Verdict::Fail).then(|| cause::of(&sent.reply.trace));
        Ok(Outcome { case, cause, repeated: sent.repeated, crashed: sent.crashed })
    }
}

/// Whether the call of a site was seen in the good run.
pub fn recorded(sites: &[Site], good: &Trace) -> Vec<bool> {
    let calls = good.walk();
    sites.iter().map(|site| calls.iter().any(|call| selects(&site.fault.selector, call))).collect()
}

pub fn summarise(name: String, sites: Vec<Site>, cases: &[Case], seconds: f64) -> Space {
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
        patterns: cases.iter().map(|c| c.pattern).collect::<std::collections::HashSet<_>>().len() as u64,
        seconds,
        minimal: crate::minimal::failing_sets(cases.iter()),
    }
}

/// How many cases a space has; refuses what cannot be exhausted.
pub fn cases_of(kind: SpaceKind, sites: usize) -> Result<u64, Failure> {
    if !kind.is_power_set() {
        return Ok(sites as u64);
    }
    if sites > POWER_SET_SITES_MAX {
        return Err(Failure::request(format!("the space '{}' has {sites} sites, 2^{sites} cases", kind.as_str()))
            .why(format!("at most {POWER_SET_SITES_MAX} sites can be exhausted"))
            .next("use --space guided: it finds what is distinct in few runs"));
    }
    Ok(1 << sites)
}

fn sites_of(kind: SpaceKind, number: u64) -> Vec<u32> {
    if kind.is_power_set() { (0..64).filter(|i| number >> i & 1 == 1).collect() } else { vec![number as u32] }
}
