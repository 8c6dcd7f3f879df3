//! Failing cases that will be one bug: same call site, same reply.
//!
//! A request that returned an error names the call that failed, whatever its position in a loop. A request that
//! succeeded with wrong content, or that got no reply at all, names none: there, each smallest failing set of faults
//! names the calls, and larger sets belong to it. Failing replies that differ are never one group.

use crate::cause::Cause;
use crate::oracle::call_rules;
use crate::runner::SpaceRun;
use model::sweep::{CallName, Case, Ending};
use model::{Fault, Verdict};
use std::collections::{BTreeSet, HashMap};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub failed: CallName,
    pub fallback_of: Option<String>,
    /// The failed call did its work: another damage than if it had not.
    pub worked: bool,
    /// What the callee of the failed call did is unknown.
    pub lost: bool,
    pub ending: Option<Ending>,
    pub status: Option<u32>,
    /// The faulted calls, if the reply does not show which call failed.
    pub faulted: Vec<String>,
    /// The rule about calls that was violated: no charge and two charges are different damages of one reply.
    pub rule: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub key: Key,
    pub cause: Cause,
    /// Of the simplest case.
    pub faults: Vec<Fault>,
    /// Smallest failing sets, each with the index of its space, if the reply does not show which call failed.
    minimal: Vec<(usize, Vec<u32>)>,
    pub failing_cases: u64,
    /// Fingerprints of its cases.
    pub behaviors: BTreeSet<u64>,
    pub spaces: Vec<String>,
}

/// Groups and failing cases that belong to none.
pub(crate) struct Groups {
    pub groups: Vec<Group>,
    pub without_cause: Vec<Group>,
}

/// Whether the trace of such a case shows the call that failed.
fn shows_failed_call(ending: Option<Ending>, cause: &Cause) -> bool {
    !cause.is_opaque() && matches!(ending, None | Some(Ending::ReturnedError | Ending::Crashed))
}

impl Key {
    /// `violation`: which condition the reply violated, and how.
    pub fn of(
        cause: &Cause,
        ending: Option<Ending>,
        status: Option<u32>,
        violation: Option<&str>,
        faults: &[Fault],
    ) -> Key {
        let mut faulted: Vec<String> = Vec::new();
        if !shows_failed_call(ending, cause) {
            let parts = |fault: &Fault| {
                let selector = &fault.selector;
                format!("{}->{}/{}", selector.caller, selector.callee, selector.call)
            };
            faulted = faults.iter().map(parts).collect();
            faulted.sort_unstable();
            faulted.dedup();
        }
        let shown = faulted.is_empty();
        Key {
            failed: cause.failed.clone(),
            fallback_of: cause.fallback_of.clone().filter(|_| shown),
            worked: cause.worked && shown,
            lost: cause.lost && shown,
            ending,
            status,
            faulted,
            rule: violation.and_then(call_rules::violated).map(str::to_owned),
        }
    }
}

impl Key {
    /// Whether the reply shows that the same call failed, whether or not its callee did its work.
    pub fn is_same_site(&self, other: &Key) -> bool {
        let faulted_is_empty = self.faulted.is_empty() && other.faulted.is_empty();
        let site = |key: &Key| (key.failed.clone(), key.fallback_of.clone(), key.ending, key.status, key.rule.clone());
        faulted_is_empty && site(self) == site(other)
    }
}

pub(crate) fn needs_timing(faults: &[Fault]) -> bool {
    faults.iter().any(|f| f.nth != 0 || !f.after.is_empty())
}

/// The groups of all spaces, those with the fewest faults first.
pub(crate) fn of(runs: &[SpaceRun]) -> Groups {
    let mut groups: Vec<Group> = Vec::new();
    let mut without_cause: Vec<Group> = Vec::new();
    let mut index: HashMap<Key, usize> = HashMap::new();
    for (space, run) in runs.iter().enumerate() {
        let mut failing: Vec<&Case> = run.cases.iter().filter(|case| case.verdict == Verdict::Fail).collect();
        failing.sort_by_key(|case| (case.fired.len(), case.case));
        for case in failing {
            let faults = faults_of(run, &case.fired);
            let Some(cause) = run.causes.get(&case.cause_key()) else {
                add_without_cause(&mut without_cause, run, case, faults);
                continue;
            };
            let shown = shows_failed_call(case.ending, cause);
            if !shown && let Some(at) = smaller_set(&groups, space, case) {
                groups[at].count(run, case);
                continue;
            }
            let key = Key::of(cause, case.ending, case.status, case.reason.as_deref(), &faults);
            let at = *index.entry(key.clone()).or_insert_with(|| {
                groups.push(Group::new(key, cause.clone(), faults.clone()));
                groups.len() - 1
            });
            let group = &mut groups[at];
            group.count(run, case);
            if !shown {
                group.minimal.push((space, case.fired.clone()));
            }
            if rank(cause, &faults) < rank(&group.cause, &group.faults) {
                (group.cause, group.faults) = (cause.clone(), faults);
            }
        }
    }
    let has_reached_callee = |group: &Group| group.key.worked || group.key.lost;
    groups.sort_by_key(|group| (group.faults.len(), needs_timing(&group.faults), has_reached_callee(group)));
    Groups { groups, without_cause }
}

/// The case that represents a group is one that did the most harm, by the fewest faults.
fn rank(cause: &Cause, faults: &[Fault]) -> (bool, usize, bool) {
    (!cause.changed, faults.len(), needs_timing(faults))
}

/// The group of a failing set that this case contains and that ended in the same way.
fn smaller_set(groups: &[Group], space: usize, case: &Case) -> Option<usize> {
    groups.iter().position(|group| {
        let rule = case.reason.as_deref().and_then(call_rules::violated);
        (group.key.ending, group.key.status, group.key.rule.as_deref()) == (case.ending, case.status, rule)
            && group
                .minimal
                .iter()
                .any(|(in_space, set)| *in_space == space && set.iter().all(|site| case.fired.contains(site)))
    })
}

fn faults_of(run: &SpaceRun, sites: &[u32]) -> Vec<Fault> {
    let mut faults: Vec<Fault> = sites.iter().map(|site| run.space.sites[*site as usize].fault.clone()).collect();
    faults.sort_by_key(ToString::to_string);
    faults
}

fn add_without_cause(groups: &mut Vec<Group>, run: &SpaceRun, case: &Case, faults: Vec<Fault>) {
    let failed = CallName { caller: String::new(), callee: String::new(), call: String::new() };
    let cause = Cause {
        failed,
        trusted: false,
        tolerated: Default::default(),
        fallback_of: None,
        changed: false,
        worked: false,
        lost: false,
        hidden: false,
    };
    let key = Key { faulted: Vec::new(), ..Key::of(&cause, case.ending, case.status, None, &[]) };
    let at = groups.iter().position(|group| group.key == key).unwrap_or_else(|| {
        groups.push(Group::new(key, cause, faults));
        groups.len() - 1
    });
    groups[at].count(run, case);
}

impl Group {
    fn new(key: Key, cause: Cause, faults: Vec<Fault>) -> Group {
        Group {
            key,
            cause,
            faults,
            minimal: Vec::new(),
            failing_cases: 0,
            behaviors: BTreeSet::new(),
            spaces: Vec::new(),
        }
    }

    fn count(&mut self, run: &SpaceRun, case: &Case) {
        self.failing_cases += 1;
        self.behaviors.insert(case.cause_key());
        if !self.spaces.contains(&run.space.name) {
            self.spaces.push(run.space.name.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::sweep::{Site, Space};
    use model::{FaultKind, Selector};

    /// A failing case: the sites that fired, what the failed call is a substitute for, how it ended.
    type Failing<'a> = (&'a [u32], Option<&'a str>, Ending, u32);

    /// All fail at frontend → currency/Convert.
    fn run(failing: &[Failing]) -> SpaceRun {
        let sites = ["GetCurrencies", "Convert#1", "Convert#2", "GetAds"].map(|label| Site {
            label: label.into(),
            fault: Fault::new(FaultKind::Unavailable, Selector::callee(label)).nth(1),
        });
        let (mut cases, mut causes) = (Vec::new(), HashMap::new());
        for (number, (fired, fallback_of, ending, status)) in failing.iter().enumerate() {
            let failed = CallName { caller: "frontend".into(), callee: "currency".into(), call: "Convert".into() };
            let cause = Cause {
                failed,
                trusted: fired.len() == 1,
                tolerated: BTreeSet::new(),
                fallback_of: fallback_of.map(str::to_owned),
                changed: false,
                worked: false,
                lost: false,
                hidden: false,
            };
            causes.insert(number as u64, cause);
            cases.push(Case {
                space: 0,
                case: number as u64,
                sites: fired.to_vec(),
                fired: fired.to_vec(),
                verdict: Verdict::Fail,
                status: Some(*status),
                latency_us: 1,
                reason: None,
                ending: Some(*ending),
                deadline_us: None,
                fingerprint: number as u64,
                cause: None,
            });
        }
        let minimal = crate::minimal::failing_sets(cases.iter());
        let space = Space {
            name: "temporal".into(),
            sites: sites.to_vec(),
            cases: cases.len() as u64,
            failures: cases.len() as u64,
            passes: 0,
            unaffected: 0,
            unknown: 0,
            behaviors: cases.len() as u64,
            seconds: 0.0,
            minimal,
        };
        SpaceRun { space, cases, causes, stored: 0, repeated: 0, crashed: Vec::new(), left_out: 0, finished: true }
    }

    /// Faults and failing cases of each group.
    fn sizes(failing: &[Failing]) -> Vec<(usize, u64)> {
        of(&[run(failing)]).groups.iter().map(|group| (group.faults.len(), group.failing_cases)).collect()
    }

    const ERROR: Ending = Ending::ReturnedError;

    #[test]
    fn one_call_site_is_one_group_whatever_the_occurrence() {
        let cases: [Failing; 3] = [(&[1], None, ERROR, 500), (&[2], None, ERROR, 500), (&[2, 3], None, ERROR, 500)];
        assert_eq!(sizes(&cases), [(1, 3)]);
    }

    #[test]
    fn a_superset_of_a_failing_set_may_fail_at_another_call_site() {
        let cases: [Failing; 2] = [(&[1], None, ERROR, 500), (&[0, 1, 3], Some("ads/GetAds"), ERROR, 500)];
        assert_eq!(sizes(&cases), [(1, 1), (3, 1)]);
    }

    #[test]
    fn failing_replies_that_differ_are_different_groups() {
        let cases: [Failing; 3] =
            [(&[1], None, ERROR, 500), (&[2], None, ERROR, 503), (&[3], None, Ending::WrongContent, 200)];
        assert_eq!(sizes(&cases), [(1, 1), (1, 1), (1, 1)]);
    }

    #[test]
    fn one_reply_that_violates_different_rules_is_several_groups() {
        let wrong = Ending::WrongContent;
        let mut run = run(&[(&[1], None, wrong, 200), (&[2], None, wrong, 200), (&[1, 2], None, wrong, 200)]);
        let reasons = ["'at least 1 currency/Convert': 0 such calls", "'at most 1 currency/Convert': 2 such calls"];
        for (case, rule) in run.cases.iter_mut().zip([0, 1, 1]) {
            case.reason = Some(format!("call rule {}", reasons[rule]));
        }
        let groups = of(&[run]).groups;
        let found: Vec<_> = groups.iter().map(|group| (group.key.rule.as_deref(), group.failing_cases)).collect();
        let rules = ["at least 1 currency/Convert", "at most 1 currency/Convert"].map(Some);
        assert_eq!(found, [(rules[0], 1), (rules[1], 2)]);
    }

    /// The last failed call of a page that tolerates all of them is not why it is incomplete.
    #[test]
    fn wrong_content_belongs_to_the_smallest_set() {
        let wrong = Ending::WrongContent;
        let cases: [Failing; 3] =
            [(&[1], None, wrong, 200), (&[1, 3], None, wrong, 200), (&[0, 1, 3], None, wrong, 200)];
        assert_eq!(sizes(&cases), [(1, 3)]);
    }
}
