//! Guided exploration: as few runs as it takes to see every distinct behaviour of every caller.
//!
//! Breadth first by the number of faults, so that small causes come first. After a run, each call sent after its last fault is a
//! place for one more, also calls that only exist because of a fault. A place is skipped if its caller has met this fault in the same
//! local state before: the same calls so far with the same outcomes, equal neighbours taken together first and told apart afterwards. What this assumes: services are deterministic and only the
//! success of a call, not the content of a fallback's reply, decides what a caller does next. Combinations across callers that none of
//! them can see are not all run.

use crate::cause;
use crate::judge::{brought_down, judge};
use crate::runner::{Progress, SpaceRun, Sweeper, recorded, summarise};
use model::sweep::{Case, Site};
use model::trace::{Call, Trace};
use model::{Failure, Fault, Verdict};
use request_faults::space::{Effect, SpaceKind, sites};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// A plan holds at most 64 faults; long before that the answer is clear.
const FAULTS_MAX: usize = 8;
const RUNS_MAX: u64 = 10_000;
/// Places that differ only in how many equal calls came before are looked at while there are fewer runs than this: a loop of ten calls
/// has 2^10 histories, and a caller that tells the fourth from the fifth is rare.
const FINER_RUNS_MAX: usize = 64;

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
        let mut tried = Tried::default();
        let mut queue: VecDeque<Vec<u32>> = VecDeque::from([Vec::new()]);
        let mut finer: VecDeque<Vec<u32>> = VecDeque::new();
        let (mut cases, mut causes, mut repeated, mut crashed) = (Vec::<Case>::new(), HashMap::new(), 0, Vec::new());
        while let Some(set) = queue.pop_front().or_else(|| finer.pop_front().filter(|_| cases.len() < FINER_RUNS_MAX)) {
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
                let more = |site| set.iter().copied().chain([site]).collect();
                let found = branches(&reply.trace, effect, &mut known, &mut tried);
                queue.extend(found.new.into_iter().map(more));
                finer.extend(found.finer.into_iter().map(more));
            }
            let mut case = judge(index, cases.len() as u64, set, &vec![false; known.list.len()], &reply, &self.oracle);
            brought_down(&mut case, &sent.brought_down);
            if case.verdict == Verdict::Fail {
                causes.entry(case.pattern).or_insert_with(|| cause::of(&reply.trace));
            }
            cases.push(case);
            let failures = cases.iter().filter(|c| c.verdict == Verdict::Fail).count() as u64;
            progress(Progress {
                space: name.clone(),
                done: cases.len() as u64,
                total: (cases.len() + queue.len() + finer.len().min(FINER_RUNS_MAX.saturating_sub(cases.len()))) as u64,
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
                && case.sites.iter().any(|s| recorded[*s as usize])
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

/// Places for one more fault after a run.
#[derive(Default)]
struct Branches {
    /// Their caller has not been disturbed here in such a state before.
    new: Vec<u32>,
    /// Only the count of equal calls before them is new.
    finer: Vec<u32>,
}

#[derive(Default)]
struct Tried {
    exact: HashSet<String>,
    coarse: HashSet<String>,
}

/// What a caller has seen so far in this request.
#[derive(Default)]
struct Local {
    exact: String,
    /// Equal neighbours are one entry with the outcomes that occurred among them: `Convert+-`.
    coarse: Vec<(String, bool, bool)>,
}

impl Local {
    fn key(&self) -> String {
        let entry = |(name, good, bad): &(String, bool, bool)| {
            format!("|{name}{}{}", if *good { "+" } else { "" }, if *bad { "-" } else { "" })
        };
        self.coarse.iter().map(entry).collect()
    }

    fn push(&mut self, call: &Call) {
        let name = format!("{}/{}", call.callee, call.label());
        let good = call.is_ok() && call.fault.is_none();
        self.exact.push_str(&format!("|{name}{}", if good { '+' } else { '-' }));
        match self.coarse.last_mut() {
            Some((last, plus, minus)) if *last == name => {
                *plus |= good;
                *minus |= !good;
            }
            _ => self.coarse.push((name, good, !good)),
        }
    }
}

fn branches(trace: &Trace, effect: Effect, known: &mut Sites, tried: &mut Tried) -> Branches {
    let calls = trace.walk();
    let here = sites(SpaceKind::Guided, trace, &[], effect);
    let first = calls.iter().rposition(|c| c.fault.is_some()).map_or(0, |i| i + 1);
    let mut local: HashMap<&str, Local> = HashMap::new();
    let mut out = Branches::default();
    for (i, (call, site)) in calls.iter().zip(here).enumerate() {
        let state = local.entry(call.caller.as_str()).or_default();
        if i >= first {
            let place = |state: &str| format!("{}{state}!{}/{}", call.caller, call.callee, call.label());
            let is_new = tried.coarse.insert(place(&state.key()));
            let is_finer = tried.exact.insert(place(&state.exact));
            if is_new {
                out.new.push(known.index(site));
            } else if is_finer {
                out.finer.push(known.index(site));
            }
        }
        state.push(call);
    }
    out
}
