//! The order of guided exploration: which cases come next, given what completed cases did.
//!
//! Breadth first by the number of faults, so that small causes are found first. After a case, each call sent after its
//! last fault is a candidate for one more fault, also calls that only exist because of a fault. A candidate is skipped
//! if its caller has met this fault in the same local state before: the same calls so far with the same outcomes. At
//! first a row of equal calls counts as one call; later cases also distinguish their number.
//!
//! Cases complete in any order, and an interrupted exploration continues from stored observations. Its order must not
//! depend on either, so observations are evaluated in the order of the cases' numbers, and a number always belongs to
//! the same faults.

use crate::case_log::{Candidate, Observation};
use crate::fingerprint::siphash_1_3;
use model::sweep::Site;
use model::trace::{Call, Trace};
use model::{Failure, Family, Fault};
use request_faults::space::{Effect, SpaceKind, sites};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// A plan holds at most 64 faults; behaviors that need more than a few are not worth the runs.
const FAULTS_MAX: usize = 8;
const CASES_MAX: u64 = 10_000;
/// Candidates that differ only in the number of equal calls before them are run while there are fewer cases than this:
/// a loop of ten calls has 2^10 histories, and few callers distinguish the fourth call from the fifth.
const FINER_CASES_MAX: u64 = 64;

/// A case by its number and its sites, in the order of the plan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NextCase {
    pub number: u64,
    pub sites: Vec<u32>,
}

pub(crate) struct Exploration {
    sites: Vec<Site>,
    queue: VecDeque<Vec<u32>>,
    /// Cases whose caller's state is new only in the number of equal calls.
    finer: VecDeque<Vec<u32>>,
    /// Candidates met so far, with merged and with exact states.
    merged: HashSet<u64>,
    exact: HashSet<u64>,
    started: u64,
    evaluated: u64,
    /// The sites of cases that are not evaluated yet, by number.
    open: BTreeMap<u64, Vec<u32>>,
    /// Observations of cases that completed before an earlier one did.
    early: BTreeMap<u64, Observation>,
}

impl Exploration {
    pub fn new(good: &Trace, effect: Effect) -> Exploration {
        Exploration {
            sites: sites(SpaceKind::Guided, good, &[], effect),
            queue: VecDeque::from([Vec::new()]),
            finer: VecDeque::new(),
            merged: HashSet::new(),
            exact: HashSet::new(),
            started: 0,
            evaluated: 0,
            open: BTreeMap::new(),
            early: BTreeMap::new(),
        }
    }

    /// The next case. None if there is none, or none until a case in flight has been observed.
    pub fn next(&mut self) -> Option<NextCase> {
        if self.started >= CASES_MAX {
            return None;
        }
        if self.queue.is_empty() && self.open.is_empty() {
            let room = FINER_CASES_MAX.saturating_sub(self.started) as usize;
            self.queue.extend(self.finer.drain(..room.min(self.finer.len())));
        }
        let sites = self.queue.pop_front()?;
        let number = self.started;
        self.started += 1;
        self.open.insert(number, sites.clone());
        Some(NextCase { number, sites })
    }

    /// Adds the observation of a case that [`Exploration::next`] returned.
    ///
    /// # Errors
    /// Unknown, if it belongs to other faults than the case does: the stored exploration is damaged.
    pub fn observe(&mut self, observation: Observation) -> Result<(), Failure> {
        let number = observation.case;
        if self.open.get(&number) != Some(&observation.sites) {
            // not Environment: resuming would fail in the same way
            return Err(Failure::new(
                Family::Unknown,
                format!("guided.jsonl is damaged: case {number} has other faults there"),
            )
            .next("begin a new sweep"));
        }
        self.early.insert(number, observation);
        while let Some(observation) = self.early.remove(&self.evaluated) {
            self.open.remove(&self.evaluated);
            self.evaluated += 1;
            if observation.sites.len() < FAULTS_MAX {
                self.extend(observation);
            }
        }
        Ok(())
    }

    fn extend(&mut self, observation: Observation) {
        for Candidate { merged, exact, site } in observation.candidates {
            let is_new = self.merged.insert(merged);
            let is_finer = self.exact.insert(exact);
            if !is_new && !is_finer {
                continue;
            }
            let site = self.site_index(site);
            let extended = observation.sites.iter().copied().chain([site]).collect();
            if is_new { self.queue.push_back(extended) } else { self.finer.push_back(extended) }
        }
    }

    /// Drops the candidates that cannot lead to a case, which are most of them after the first cases.
    pub fn without_known_candidates(&self, observation: &mut Observation) {
        observation.candidates.retain(|one| !self.merged.contains(&one.merged) || !self.exact.contains(&one.exact));
    }

    fn site_index(&mut self, site: Site) -> u32 {
        let at = self.sites.iter().position(|other| other.fault == site.fault).unwrap_or_else(|| {
            self.sites.push(site);
            self.sites.len() - 1
        });
        at as u32
    }

    pub fn faults(&self, sites: &[u32]) -> Vec<Fault> {
        sites.iter().map(|site| self.sites[*site as usize].fault.clone()).collect()
    }

    /// Cases known to follow. Those in flight may add more.
    pub fn remaining(&self) -> u64 {
        let finer = (self.finer.len() as u64).min(FINER_CASES_MAX.saturating_sub(self.started));
        (self.queue.len() as u64 + finer).min(CASES_MAX - self.started)
    }

    /// Whether all cases have been observed, up to the limit of a space.
    pub fn is_complete(&self) -> bool {
        self.open.is_empty() && self.remaining() == 0
    }

    /// Cases beyond the limit of a space, known once no case is in flight.
    pub fn left_out(&self) -> u64 {
        if self.started >= CASES_MAX { self.queue.len() as u64 } else { 0 }
    }

    pub fn into_sites(self) -> Vec<Site> {
        self.sites
    }
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

/// The calls after the last fault of a case, each with the state of its caller.
pub(crate) fn candidates(trace: &Trace, effect: Effect) -> Vec<Candidate> {
    let calls = trace.walk();
    let after_last_fault = calls.iter().rposition(|c| c.fault.is_some()).map_or(0, |i| i + 1);
    let mut states: HashMap<&str, CallerState> = HashMap::new();
    let mut out = Vec::new();
    for (i, (call, site)) in calls.iter().zip(sites(SpaceKind::Guided, trace, &[], effect)).enumerate() {
        let state = states.entry(call.caller.as_str()).or_default();
        if i >= after_last_fault {
            let key = |state: &str| {
                siphash_1_3(format!("{}{state}!{}/{}", call.caller, call.callee, call.label()).as_bytes())
            };
            out.push(Candidate { merged: key(&state.merged_key()), exact: key(&state.exact), site });
        }
        state.push(call);
    }
    out
}
