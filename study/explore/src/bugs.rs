//! From failing cases to bugs: one bug per cause, with the plainest fault set that brings it about, tried out before it is told.
//!
//! Names follow the taxonomy of 3MileBeach §5.3: *Simple* needs one fault, *Deep* several at once; *RLFI* needs no timing (the services
//! are down from the start), *TFI* needs a moment.

use crate::cause::{self, Cause};
use crate::runner::{SpaceRun, Sweeper};
use model::sweep::{Bug, Case};
use model::trace::Trace;
use model::{Failure, Fault, FaultKind, Selector, Verdict};
use request_faults::resolve::callee_at_sender;
use requests::{Reply, Sender};
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// Causes beyond this many are counted, not told: nobody reads the hundredth before the first is mended.
const BUGS_MAX: usize = 50;

struct Group {
    cause: Cause,
    faults: Vec<Fault>,
}

/// A group that was tried out.
struct Tried {
    bug: Bug,
    causes: Vec<Cause>,
}

/// `record` is the command that repeats the request, without faults: `faultloom record http://…`.
pub async fn find(sweeper: &Sweeper, good: &Trace, runs: &[SpaceRun], record: &str) -> Result<Vec<Bug>, Failure> {
    let mut sender = sweeper.sender();
    let mut found: Vec<Tried> = Vec::new();
    for group in groups(runs) {
        if found.len() >= BUGS_MAX {
            break;
        }
        if sweeper.stop.load(Ordering::Relaxed) {
            return Err(Failure::new(model::Family::Aborted, "the sweep was stopped while its bugs were tried out"));
        }
        let Some(tried) = try_out(sweeper, &mut sender, good, &group, record).await? else {
            continue;
        };
        match found.iter_mut().find(|t| same_set(&t.bug.faults, &tried.bug.faults)) {
            Some(same) => same.causes.push(group.cause),
            None => found.push(tried),
        }
    }
    count(&mut found, runs);
    let mut names: HashMap<String, u32> = HashMap::new();
    for tried in &mut found {
        let n = names.entry(tried.bug.name.clone()).or_default();
        *n += 1;
        if *n > 1 {
            tried.bug.name = format!("{} {n}", tried.bug.name);
        }
    }
    Ok(found.into_iter().map(|t| t.bug).collect())
}

/// One group per cause that no other cause explains, each with the fewest faults that were seen to lead to it, plainest first.
///
/// Causes, not minimal failing sets: a set may contain a smaller failing one and still fail for a reason of its own, as when the first
/// conversion fails because nobody checked it, and as the only conversion of a fallback. Only where the request came back without a
/// history there is no cause to go by, and each minimal set is told by itself.
fn groups(runs: &[SpaceRun]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for run in runs {
        let faults_of = |sites: &[u32]| {
            let mut faults: Vec<Fault> = sites.iter().map(|s| run.space.sites[*s as usize].fault.clone()).collect();
            faults.sort_by_key(ToString::to_string);
            faults
        };
        for (case, cause) in plainest_cases(run) {
            let faults = faults_of(&case.fired);
            match groups.iter_mut().find(|group| group.cause.explains(cause)) {
                // the same cause in plainer words
                Some(group) if group.cause == *cause && plainer(&faults, &group.faults) => group.faults = faults,
                Some(_) => {}
                None => {
                    groups.retain(|group| !cause.explains(&group.cause));
                    groups.push(Group { cause: cause.clone(), faults });
                }
            }
        }
        for set in &run.space.minimal {
            let case = run.cases.iter().find(|c| c.fired == *set && c.verdict == Verdict::Fail);
            let cause = case.and_then(|c| run.causes.get(&c.pattern)).filter(|cause| cause.is_opaque());
            let (Some(cause), faults) = (cause, faults_of(set)) else { continue };
            if !groups.iter().any(|group| group.cause == *cause && group.faults == faults) {
                groups.push(Group { cause: cause.clone(), faults });
            }
        }
    }
    groups.sort_by_key(|group| (group.faults.len(), needs_timing(&group.faults)));
    groups
}

/// Of each behaviour that failed and says why, the case with the fewest faults; those with the fewest first.
fn plainest_cases(run: &SpaceRun) -> Vec<(&Case, &Cause)> {
    let mut plainest: HashMap<u64, &Case> = HashMap::new();
    for case in run.cases.iter().filter(|c| c.verdict == Verdict::Fail) {
        let best = plainest.entry(case.pattern).or_insert(case);
        if case.fired.len() < best.fired.len() {
            *best = case;
        }
    }
    let cause = |case: &'_ Case| run.causes.get(&case.pattern).filter(|cause| !cause.is_opaque());
    let mut cases: Vec<_> = plainest.into_values().filter_map(|case| Some((case, cause(case)?))).collect();
    cases.sort_by_key(|(case, _)| (case.fired.len(), case.case));
    cases
}

fn plainer(faults: &[Fault], than: &[Fault]) -> bool {
    (faults.len(), needs_timing(faults)) < (than.len(), needs_timing(than))
}

async fn try_out(
    sweeper: &Sweeper,
    sender: &mut Sender,
    good: &Trace,
    group: &Group,
    record: &str,
) -> Result<Option<Tried>, Failure> {
    let send = async |sender: &mut Sender, faults: &[Fault]| {
        sweeper.watch.send(sender, &sweeper.spec, faults).await.map(|sent| sent.reply)
    };
    let fails_alike = |reply: &Reply| {
        let cause = cause::of(&reply.trace);
        sweeper.oracle.objection(reply).is_some()
            && cause.failed == group.cause.failed
            && cause.tolerated.is_superset(&group.cause.tolerated)
    };
    let first = send(sender, &group.faults).await?;
    if sweeper.oracle.objection(&first).is_none() {
        return Ok(None); // did not fail again; the case stays counted as a failure in its space
    }
    let (mut faults, mut reply, mut timed) = (group.faults.clone(), first, needs_timing(&group.faults));
    if timed {
        for (simpler, is_timed) in simpler(&group.faults, &group.cause.failed.caller, &reply.trace) {
            let attempt = send(sender, &simpler).await?;
            if fails_alike(&attempt) {
                (faults, reply, timed) = (simpler, attempt, is_timed);
                break;
            }
        }
    }
    // what the set does not need is no part of the bug
    let mut at = 0;
    while faults.len() > 1 && at < faults.len() {
        let mut fewer = faults.clone();
        fewer.remove(at);
        let attempt = send(sender, &fewer).await?;
        let cause = cause::of(&attempt.trace);
        let same = !timed || (cause.failed == group.cause.failed && cause.trusted == group.cause.trusted);
        if sweeper.oracle.objection(&attempt).is_some() && same {
            (faults, reply) = (fewer, attempt);
        } else {
            at += 1;
        }
    }
    let bug = describe(faults, timed, &reply.trace, good, record);
    Ok(Some(Tried { bug, causes: vec![group.cause.clone()] }))
}

/// Spaces may have found a set in different orders.
fn same_set(a: &[Fault], b: &[Fault]) -> bool {
    a.len() == b.len() && a.iter().all(|fault| b.contains(fault))
}

fn needs_timing(faults: &[Fault]) -> bool {
    faults.iter().any(|f| f.nth != 0 || !f.after.is_empty())
}

/// Fault sets that say the same in plainer words, plainest first: the services simply down; down for this caller; one service down from a
/// moment on.
fn simpler(faults: &[Fault], caller: &str, trace: &Trace) -> Vec<(Vec<Fault>, bool)> {
    let mut down: Vec<Fault> = Vec::new();
    for fault in faults {
        let plain = Fault {
            nth: 0,
            max_fires: 0,
            after: Vec::new(),
            selector: Selector::callee(&fault.selector.callee),
            ..fault.clone()
        };
        if !down.contains(&plain) {
            down.push(plain);
        }
    }
    // two spaces may have found the same set in different orders
    down.sort_by_key(ToString::to_string);
    let mut out = vec![(down.clone(), false)];
    if let [one] = down.as_slice() {
        let selector = Selector { caller: caller.to_owned(), ..one.selector.clone() };
        out.push((vec![Fault { selector, ..one.clone() }], false));
    }
    let before = cause::answered_before(trace);
    if let ([one], false) = (down.as_slice(), before.is_empty()) {
        let mut from_then_on = one.clone();
        // one answered call usually is what the caller concluded from; all of them are the fallback
        let callee = &one.selector.callee;
        let call = |name: &str| Selector { callee: callee.clone(), call: name.to_owned(), ..Selector::default() };
        from_then_on = from_then_on.after(call(&before[0].0), before[0].1.min(1));
        out.push((vec![from_then_on], true));
        if before.len() > 1 || before[0].1 > 1 {
            let all = before.iter().take(8).fold(one.clone(), |fault, (name, n)| fault.after(call(name), *n));
            out.push((vec![all], true));
        }
    }
    out
}

fn describe(faults: Vec<Fault>, timed: bool, trace: &Trace, good: &Trace, record: &str) -> Bug {
    let failed = cause::of(trace).failed;
    let deep = faults.len() > 1;
    let before = cause::answered_before(trace);
    let services: Vec<String> = faults.iter().map(|f| display_callee(&f.selector.callee, trace)).collect::<Vec<_>>();
    let verb = |kind: FaultKind| match kind {
        FaultKind::Unavailable => "fails",
        FaultKind::Status => "answers with an error",
        FaultKind::Deadline | FaultKind::Hang => "does not answer",
        FaultKind::Reset => "breaks connections",
        FaultKind::Delay => "is slow",
        FaultKind::LostReply => "loses its reply",
        FaultKind::EmptyReply => "answers with nothing",
        FaultKind::CorruptReply => "answers with garbage",
    };
    let title = match (deep, timed, faults.first()) {
        (_, _, None) => "fails without any fault".to_owned(),
        (false, true, Some(f)) if !before.is_empty() => {
            let names: Vec<&str> = f.after.iter().map(|a| a.selector.call.as_str()).filter(|c| !c.is_empty()).collect();
            let names =
                if names.is_empty() { before.iter().map(|(n, _)| n.as_str()).collect::<Vec<_>>() } else { names };
            format!("{} {} after {} has answered", services[0], verb(f.kind), names.join(", "))
        }
        (false, true, Some(f)) => format!("{}/{} {} at one call only", services[0], failed.call, verb(f.kind)),
        (false, false, Some(f)) if !f.selector.caller.is_empty() && f.selector.call.is_empty() => {
            format!("{} {} for {}", services[0], verb(f.kind), f.selector.caller)
        }
        (false, false, Some(f)) => format!("{} {}", services[0], verb(f.kind)),
        (true, _, Some(f)) => {
            let mut names = services.clone();
            names.dedup();
            let and = names.join(" and ");
            if f.kind == FaultKind::Unavailable {
                format!("{and} both down{}", if timed { " at certain moments" } else { "" })
            } else {
                format!("{and}: each {}", verb(f.kind))
            }
        }
    };
    let story = cause::story(trace, good, &faults);
    let mistake = if deep && story.iter().any(|sentence| sentence.contains("fell back")) {
        "a fallback that depends on what may be down as well"
    } else if deep {
        "failures that are survived one by one, but not together"
    } else if timed && !before.is_empty() {
        "time of check to time of use"
    } else {
        "a missing check"
    };
    let again = faults.iter().fold(record.to_owned(), |command, fault| {
        format!("{command} --fault '{}'", fault.to_string().replace('\'', "'\\''"))
    });
    Bug {
        name: format!("{}{}", if deep { "Deep" } else { "Simple" }, if timed { "TFI" } else { "RLFI" }),
        title: if deep && services.len() > 2 { title.replace(" both down", " down together") } else { title },
        mistake: mistake.to_owned(),
        story,
        faults,
        failed,
        again,
        failing_cases: 0,
        spaces: Vec::new(),
        trace: trace.clone(),
    }
}

/// A callee that is known to its callers by address only is shown by its own name.
fn display_callee(callee: &str, trace: &Trace) -> String {
    trace.walk().into_iter().find(|c| callee_at_sender(c) == callee).map_or(callee, |c| c.callee.as_str()).to_owned()
}

/// Counts every failing case for the bug that explains it; of several for the one that explains most of what it survived.
fn count(found: &mut [Tried], runs: &[SpaceRun]) {
    for run in runs {
        for case in run.cases.iter().filter(|c| c.verdict == Verdict::Fail) {
            let Some(cause) = run.causes.get(&case.pattern) else { continue };
            let faults: Vec<&Fault> = case.fired.iter().map(|s| &run.space.sites[*s as usize].fault).collect();
            let fits = |tried: &Tried| {
                let opaque = cause.is_opaque();
                let contained = || tried.bug.faults.iter().all(|fault| faults.contains(&fault));
                let explains = |c: &&Cause| if opaque { *c == cause && contained() } else { c.explains(cause) };
                tried.causes.iter().filter(explains).map(|c| c.tolerated.len() + 1).max().unwrap_or(0)
            };
            let best = (0..found.len())
                .map(|i| (fits(&found[i]), i))
                .filter(|(fit, _)| *fit > 0)
                .max_by_key(|(fit, i)| (*fit, usize::MAX - i));
            if let Some((_, i)) = best {
                let bug = &mut found[i].bug;
                bug.failing_cases += 1;
                if !bug.spaces.contains(&run.space.name) {
                    bug.spaces.push(run.space.name.clone());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::sweep::{CallName, Site, Space};
    use std::collections::BTreeSet;

    /// (sites that fired, trusted, survived): one failing case each, all failing at frontend → currency/Convert.
    fn run(failing: &[(&[u32], bool, &[&str])]) -> SpaceRun {
        let sites = ["GetCurrencies", "Convert#1", "Convert#2", "GetAds"].map(|label| Site {
            label: label.into(),
            fault: Fault::new(FaultKind::Unavailable, Selector::callee(label)).nth(1),
        });
        let (mut cases, mut causes) = (Vec::new(), HashMap::new());
        for (number, (fired, trusted, survived)) in failing.iter().enumerate() {
            let failed = CallName { caller: "frontend".into(), callee: "currency".into(), call: "Convert".into() };
            let tolerated: BTreeSet<String> = survived.iter().map(|s| (*s).to_owned()).collect();
            causes.insert(number as u64, Cause { failed, trusted: *trusted, tolerated });
            cases.push(Case {
                space: 0,
                case: number as u64,
                sites: fired.to_vec(),
                fired: fired.to_vec(),
                verdict: Verdict::Fail,
                status: Some(500),
                latency_us: 1,
                reason: None,
                pattern: number as u64,
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
            patterns: cases.len() as u64,
            seconds: 0.0,
            minimal,
        };
        SpaceRun { space, cases, causes, repeated: 0, crashed: Vec::new(), finished: true }
    }

    fn told(run: SpaceRun) -> Vec<usize> {
        groups(&[run]).iter().map(|group| group.faults.len()).collect()
    }

    #[test]
    fn one_missing_check_around_many_calls_is_one_bug() {
        let cases: [(&[u32], bool, &[&str]); 3] =
            [(&[1], true, &[]), (&[2], true, &[]), (&[2, 3], true, &["ads/GetAds"])];
        assert_eq!(told(run(&cases)), [1]);
    }

    #[test]
    fn a_set_that_contains_a_failing_set_may_fail_for_its_own_reason() {
        let survived: &[&str] = &["ads/GetAds", "currency/GetCurrencies"];
        let run = run(&[(&[1], true, &[]), (&[0, 1, 3], false, survived)]);
        assert_eq!(run.space.minimal, [[1]]);
        assert_eq!(told(run), [1, 3]);
    }
}
