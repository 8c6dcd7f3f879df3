//! Guided exploration: as few runs as it takes to see every distinct behaviour of every caller.
//!
//! Breadth first by the number of faults, so that small causes come first. After a run, each call sent after its last fault is a
//! place for one more, also calls that only exist because of a fault. A place is skipped if its caller has met this fault in the same
//! local state before: the same calls so far with the same outcomes. What this assumes: services are deterministic and only the
//! success of a call, not the content of a fallback's reply, decides what a caller does next. Combinations across callers that none of
//! them can see are not all run.

use crate::cause;
use crate::judge::judge;
use crate::runner::{Progress, SpaceRun, Sweeper, recorded, summarise};
use model::sweep::{Case, Site};
use model::trace::Trace;
use model::{Failure, Fault, Verdict};
use request_faults::space::{Effect, SpaceKind, sites};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// A plan holds at most 64 faults; long before that the answer is clear.
const FAULTS_MAX: usize = 8;
const RUNS_MAX: u64 = 10_000;

impl Sweeper {
    pub async fn guided(
        &self,
        index: usize,
        name: String,
        effect: Effect,
        good: &Trace,
        mut progress: impl FnMut(Progress),
    ) -> Result<SpaceRun, Failure> {
        let begin = Instant::now();
        let mut sender = self.sender();
        let mut known = Sites { list: sites(SpaceKind::Guided, good, &[], effect) };
        let mut tried: HashSet<String> = HashSet::new();
        let mut queue: VecDeque<Vec<u32>> = VecDeque::from([Vec::new()]);
        let (mut cases, mut causes, mut repeated, mut crashed) = (Vec::<Case>::new(), HashMap::new(), 0, Vec::new());
        while let Some(set) = queue.pop_front() {
            if self.stop.load(Ordering::Relaxed) || cases.len() as u64 >= RUNS_MAX {
                queue.push_front(set);
                break;
            }
            let faults: Vec<Fault> = set.iter().map(|s| known.list[*s as usize].fault.clone()).collect();
            let sent = self.watch.send(&mut sender, &self.spec, &faults).await?;
            let reply = sent.reply;
            repeated += u64::from(sent.repeated);
            crashed.extend(sent.crashed);
            if set.len() < FAULTS_MAX {
                for site in branches(&reply.trace, effect, &mut known, &mut tried) {
                    let mut more = set.clone();
                    more.push(site);
                    queue.push_back(more);
                }
            }
            let case = judge(index, cases.len() as u64, set, &vec![false; known.list.len()], &reply, &self.oracle);
            if case.verdict == Verdict::Fail {
                causes.entry(case.pattern).or_insert_with(|| cause::of(&reply.trace));
            }
            cases.push(case);
            let failures = cases.iter().filter(|c| c.verdict == Verdict::Fail).count() as u64;
            progress(Progress {
                space: name.clone(),
                done: cases.len() as u64,
                total: (cases.len() + queue.len()) as u64,
                failures,
            });
        }
        for case in &mut cases {
            case.sites.sort_unstable();
        }
        let recorded = recorded(&known.list, good);
        for case in &mut cases {
            if case.fired.is_empty()
                && !case.sites.is_empty()
                && case.sites.iter().all(|s| recorded[*s as usize])
                && case.verdict == Verdict::Pass
            {
                case.verdict = Verdict::Unknown;
                case.reason = Some("no fault took effect though its call was recorded before".into());
            }
        }
        let space = summarise(name, known.list, &cases, begin.elapsed().as_secs_f64());
        Ok(SpaceRun { space, cases, causes, repeated, crashed, finished: queue.is_empty() })
    }
}

struct Sites {
    list: Vec<Site>,
}

impl Sites {
    fn index(&mut self, site: Site) -> u32 {
        let at = self.list.iter().position(|s| s.fault == site.fault).unwrap_or_else(|| {
            self.list.push(site);
            self.list.len() - 1
        });
        at as u32
    }
}

/// The sites worth one more fault after this run.
fn branches(trace: &Trace, effect: Effect, known: &mut Sites, tried: &mut HashSet<String>) -> Vec<u32> {
    let calls = trace.walk();
    let here = sites(SpaceKind::Guided, trace, &[], effect);
    let first = calls.iter().rposition(|c| c.fault.is_some()).map_or(0, |i| i + 1);
    let mut local: HashMap<&str, String> = HashMap::new();
    let mut out = Vec::new();
    for (i, (call, site)) in calls.iter().zip(here).enumerate() {
        let state = local.entry(call.caller.as_str()).or_default();
        if i >= first && tried.insert(format!("{}|{state}!{}/{}", call.caller, call.callee, call.label())) {
            out.push(known.index(site));
        }
        state.push_str(&format!("|{}/{}{}", call.callee, call.label(), if call.is_ok() { '+' } else { '-' }));
    }
    out
}
