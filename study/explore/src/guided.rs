//! Guided exploration: as few runs as possible to observe every distinct behavior of every caller.
//!
//! Breadth first by the number of faults, so that small causes are found first. After a run, each call sent after its
//! last fault is a candidate for one more fault, also calls that only exist because of a fault. A candidate is skipped
//! if its caller has met this fault in the same local state before: the same calls so far with the same outcomes. At
//! first a row of equal calls counts as one call; later runs also distinguish their number.
//!
//! Assumptions: services are deterministic, and only the success of a call, not the content of a fallback's reply,
//! decides what a caller does next. Not all combinations of faults across callers are run if no single caller can
//! observe them together.

use crate::assess::{NO_FAULT_TOOK_EFFECT, assess, fail_if_crashed};
use crate::case_log::{BehaviorCause, CaseLog, remove_cases};
use crate::cause::{self, Cause};
use crate::runner::{Progress, SpaceRun, Sweeper, log_case, recorded, summarize};
use model::sweep::{Case, Site};
use model::trace::{Call, Trace};
use model::{Failure, Fault, Verdict};
use request_faults::space::{Effect, SpaceKind, sites};
use runs::RunDir;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// A plan holds at most 64 faults; behaviors that need more than a few are not worth the runs.
const FAULTS_MAX: usize = 8;
const RUNS_MAX: u64 = 10_000;
/// Candidates that differ only in the number of equal calls before them are run while there are fewer runs than this: a
/// loop of ten calls has 2^10 histories, and few callers distinguish the fourth call from the fifth.
const FINER_RUNS_MAX: usize = 64;

impl Sweeper {
    /// Appends each case to the run's `cases.jsonl` as it completes. What to run next depends on the traces of earlier
    /// runs, which are not stored, so a resumed run explores this space from its beginning and replaces its cases.
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
        let mut sender = self.sender();
        tracing::info!(space = name, "running a space");
        remove_cases(dir, index)?;
        let mut log = CaseLog::open(dir)?;
        let mut all_sites = SiteList { sites: sites(SpaceKind::Guided, good, &[], effect) };
        let mut explored = ExploredStates::default();
        let mut queue: VecDeque<Vec<u32>> = VecDeque::from([Vec::new()]);
        let mut finer: VecDeque<Vec<u32>> = VecDeque::new();
        let mut causes: HashMap<u64, Cause> = HashMap::new();
        let (mut cases, mut failures, mut repeated, mut crashed) = (Vec::<Case>::new(), 0, 0, Vec::new());
        while let Some(set) = queue.pop_front().or_else(|| finer.pop_front().filter(|_| cases.len() < FINER_RUNS_MAX)) {
            if self.stop.load(Ordering::Relaxed) || cases.len() as u64 >= RUNS_MAX {
                queue.push_front(set);
                break;
            }
            let faults: Vec<Fault> = set.iter().map(|s| all_sites.sites[*s as usize].fault.clone()).collect();
            let sent = self.recovery.send(&mut sender, &self.spec, &faults).await?;
            let reply = sent.reply;
            repeated += u64::from(sent.repeated);
            crashed.extend(sent.crashed);
            if set.len() < FAULTS_MAX {
                let extended = |site| set.iter().copied().chain([site]).collect();
                let candidates = candidates(&reply.trace, effect, &mut all_sites, &mut explored);
                queue.extend(candidates.new.into_iter().map(extended));
                finer.extend(candidates.finer.into_iter().map(extended));
            }
            let recorded = recorded(&all_sites.sites, good);
            let not_required = vec![false; recorded.len()];
            let mut case = assess(index, cases.len() as u64, set, &not_required, &reply, &self.oracle);
            fail_if_crashed(&mut case, &sent.crashed_by_faults);
            case.sites.sort_unstable();
            if case.verdict == Verdict::Pass
                && case.fired.is_empty()
                && case.sites.iter().any(|site| recorded[*site as usize])
            {
                case.verdict = Verdict::Unknown;
                case.reason = Some(NO_FAULT_TOOK_EFFECT.to_owned());
            }
            log_case(&case);
            let mut new_causes = Vec::new();
            if case.verdict == Verdict::Fail {
                failures += 1;
                causes.entry(case.fingerprint).or_insert_with(|| {
                    let cause = cause::of(&reply.trace);
                    new_causes.push(BehaviorCause { fingerprint: case.fingerprint, cause: cause.clone() });
                    cause
                });
            }
            log.append(&new_causes, std::slice::from_ref(&case))?;
            cases.push(case);
            progress(Progress {
                space: name.clone(),
                done: cases.len() as u64,
                total: (cases.len() + queue.len() + finer.len().min(FINER_RUNS_MAX.saturating_sub(cases.len()))) as u64,
                failures,
            });
        }
        let space = summarize(name, all_sites.sites, &cases, begin.elapsed().as_secs_f64());
        Ok(SpaceRun { space, cases, causes, repeated, crashed, finished: queue.is_empty() })
    }
}

struct SiteList {
    sites: Vec<Site>,
}

impl SiteList {
    /// The index of a site, which is added if it is new.
    fn index(&mut self, site: Site) -> u32 {
        let at = self.sites.iter().position(|s| s.fault == site.fault).unwrap_or_else(|| {
            self.sites.push(site);
            self.sites.len() - 1
        });
        at as u32
    }
}

/// Sites for one more fault after a run.
#[derive(Default)]
struct Candidates {
    /// Their caller has not met this fault in such a state before.
    new: Vec<u32>,
    /// Only the number of equal calls before them is new.
    finer: Vec<u32>,
}

/// Combinations of a caller's state and the call to be faulted next, with exact and with merged states.
#[derive(Default)]
struct ExploredStates {
    exact: HashSet<String>,
    merged: HashSet<String>,
}

/// The calls that a caller has made so far in this request, and their outcomes.
#[derive(Default)]
struct CallerState {
    exact: String,
    /// A row of equal calls is one entry with the outcomes that occurred in it: `Convert+-`.
    merged: Vec<(String, bool, bool)>,
}

impl CallerState {
    fn merged_key(&self) -> String {
        let entry = |(name, good, bad): &(String, bool, bool)| {
            format!("|{name}{}{}", if *good { "+" } else { "" }, if *bad { "-" } else { "" })
        };
        self.merged.iter().map(entry).collect()
    }

    fn push(&mut self, call: &Call) {
        let name = format!("{}/{}", call.callee, call.label());
        let good = call.is_ok() && call.fault.is_none();
        self.exact.push_str(&format!("|{name}{}", if good { '+' } else { '-' }));
        match self.merged.last_mut() {
            Some((last, plus, minus)) if *last == name => {
                *plus |= good;
                *minus |= !good;
            }
            _ => self.merged.push((name, good, !good)),
        }
    }
}

fn candidates(trace: &Trace, effect: Effect, all_sites: &mut SiteList, explored: &mut ExploredStates) -> Candidates {
    let calls = trace.walk();
    let sites = sites(SpaceKind::Guided, trace, &[], effect);
    let after_last_fault = calls.iter().rposition(|c| c.fault.is_some()).map_or(0, |i| i + 1);
    let mut states: HashMap<&str, CallerState> = HashMap::new();
    let mut out = Candidates::default();
    for (i, (call, site)) in calls.iter().zip(sites).enumerate() {
        let state = states.entry(call.caller.as_str()).or_default();
        if i >= after_last_fault {
            let key = |state: &str| format!("{}{state}!{}/{}", call.caller, call.callee, call.label());
            let is_new = explored.merged.insert(key(&state.merged_key()));
            let is_finer = explored.exact.insert(key(&state.exact));
            if is_new {
                out.new.push(all_sites.index(site));
            } else if is_finer {
                out.finer.push(all_sites.index(site));
            }
        }
        state.push(call);
    }
    out
}
