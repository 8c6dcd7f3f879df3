//! Reduces failing cases to bugs: one bug per cause, with the simplest fault set that causes it. Each is reproduced
//! before it is reported.
//!
//! Names follow the taxonomy of 3MileBeach §5.3: *Simple* needs one fault, *Deep* several at once; *RLFI* needs no
//! timing (the services are down from the start), *TFI* needs a moment.

use crate::cause::{self, Cause, Story};
use crate::recovery::fault_texts;
use crate::runner::{SpaceRun, Sweeper};
use model::sweep::{Bug, Case};
use model::trace::{Outcome, Protocol, Trace};
use model::{Failure, Fault, FaultKind, Selector, Verdict};
use request_faults::resolve::callee_at_sender;
use requests::{Reply, Sender};
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// Further causes are counted but not reported.
const BUGS_MAX: usize = 50;

struct Group {
    cause: Cause,
    faults: Vec<Fault>,
}

/// A bug that was reproduced.
struct ConfirmedBug {
    bug: Bug,
    causes: Vec<Cause>,
}

/// `record` is the command that repeats the request, without faults: `faultloom record http://…`. `progress` gets the
/// number of causes that were tried, and of all.
pub async fn find(
    sweeper: &Sweeper,
    good: &Trace,
    runs: &[SpaceRun],
    record: &str,
    mut progress: impl FnMut(u64, u64),
) -> Result<Vec<Bug>, Failure> {
    let mut sender = sweeper.sender();
    let mut found: Vec<ConfirmedBug> = Vec::new();
    let groups = groups(runs);
    for (index, group) in groups.iter().enumerate() {
        progress(index as u64, groups.len() as u64);
        if found.len() >= BUGS_MAX {
            break;
        }
        if sweeper.stop.load(Ordering::Relaxed) {
            return Err(Failure::new(
                model::Family::Aborted,
                "the sweep was stopped while its bugs were being reproduced",
            ));
        }
        let Some(confirmed) = reproduce(sweeper, &mut sender, good, group, record).await? else {
            tracing::info!(faults = fault_texts(&group.faults), "the request did not fail again with these faults");
            continue;
        };
        match found.iter_mut().find(|other| is_same_set(&other.bug.faults, &confirmed.bug.faults)) {
            Some(same) => same.causes.push(group.cause.clone()),
            None => found.push(confirmed),
        }
    }
    attribute_failures(&mut found, runs);
    let mut names: HashMap<String, u32> = HashMap::new();
    for ConfirmedBug { bug, .. } in &mut found {
        let n = names.entry(bug.name.clone()).or_default();
        *n += 1;
        if *n > 1 {
            bug.name = format!("{} {n}", bug.name);
        }
    }
    Ok(found.into_iter().map(|confirmed| confirmed.bug).collect())
}

/// One group per cause that no other cause explains, each with the fewest faults that led to it, the simplest first.
///
/// Grouped by cause, not by minimal failing set: a set may contain a smaller failing set and still fail for another
/// reason, as when a conversion fails because its error is unchecked, and when it fails as the only conversion of a
/// fallback. Only a request that returned no history has no cause; then each minimal set is a group.
fn groups(runs: &[SpaceRun]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for run in runs {
        let faults_of = |sites: &[u32]| {
            let mut faults: Vec<Fault> = sites.iter().map(|s| run.space.sites[*s as usize].fault.clone()).collect();
            faults.sort_by_key(ToString::to_string);
            faults
        };
        for (case, cause) in simplest_cases(run) {
            let faults = faults_of(&case.fired);
            match groups.iter_mut().find(|group| group.cause.explains(cause)) {
                Some(group) if group.cause == *cause && is_simpler(&faults, &group.faults) => group.faults = faults,
                Some(_) => {}
                None => {
                    groups.retain(|group| !cause.explains(&group.cause));
                    groups.push(Group { cause: cause.clone(), faults });
                }
            }
        }
        for set in &run.space.minimal {
            let case = run.cases.iter().find(|c| c.fired == *set && c.verdict == Verdict::Fail);
            let cause = case.and_then(|c| run.causes.get(&c.fingerprint)).filter(|cause| cause.is_opaque());
            let (Some(cause), faults) = (cause, faults_of(set)) else { continue };
            if !groups.iter().any(|group| group.cause == *cause && group.faults == faults) {
                groups.push(Group { cause: cause.clone(), faults });
            }
        }
    }
    groups.sort_by_key(|group| (group.faults.len(), needs_timing(&group.faults)));
    groups
}

/// For each failing behavior with a known cause, the case with the fewest faults; those with the fewest first.
fn simplest_cases(run: &SpaceRun) -> Vec<(&Case, &Cause)> {
    let mut simplest: HashMap<u64, &Case> = HashMap::new();
    for case in run.cases.iter().filter(|c| c.verdict == Verdict::Fail) {
        let best = simplest.entry(case.fingerprint).or_insert(case);
        if case.fired.len() < best.fired.len() {
            *best = case;
        }
    }
    let cause = |case: &'_ Case| run.causes.get(&case.fingerprint).filter(|cause| !cause.is_opaque());
    let mut cases: Vec<_> = simplest.into_values().filter_map(|case| Some((case, cause(case)?))).collect();
    cases.sort_by_key(|(case, _)| (case.fired.len(), case.case));
    cases
}

fn is_simpler(faults: &[Fault], than: &[Fault]) -> bool {
    (faults.len(), needs_timing(faults)) < (than.len(), needs_timing(than))
}

/// Sends the group's faults, then simpler sets with the same cause. None if the request does not fail again.
async fn reproduce(
    sweeper: &Sweeper,
    sender: &mut Sender,
    good: &Trace,
    group: &Group,
    record: &str,
) -> Result<Option<ConfirmedBug>, Failure> {
    let send = async |sender: &mut Sender, faults: &[Fault]| {
        sweeper.recovery.send(sender, &sweeper.spec, faults).await.map(|sent| sent.reply)
    };
    let has_same_cause = |reply: &Reply| {
        let cause = cause::of(&reply.trace);
        sweeper.oracle.violation(reply).is_some()
            && cause.failed == group.cause.failed
            && cause.tolerated.is_superset(&group.cause.tolerated)
    };
    let first = send(sender, &group.faults).await?;
    if sweeper.oracle.violation(&first).is_none() {
        return Ok(None); // the case still counts as a failure of its space
    }
    let (mut faults, mut reply, mut timed) = (group.faults.clone(), first, needs_timing(&group.faults));
    if timed {
        for (simpler, is_timed) in simpler_sets(&group.faults, &group.cause.failed.caller, &reply.trace) {
            let attempt = send(sender, &simpler).await?;
            if has_same_cause(&attempt) {
                (faults, reply, timed) = (simpler, attempt, is_timed);
                break;
            }
        }
    }
    // drop faults that the failure does not need
    let mut at = 0;
    while faults.len() > 1 && at < faults.len() {
        let mut fewer = faults.clone();
        fewer.remove(at);
        let attempt = send(sender, &fewer).await?;
        let cause = cause::of(&attempt.trace);
        let same = !timed || (cause.failed == group.cause.failed && cause.trusted == group.cause.trusted);
        if sweeper.oracle.violation(&attempt).is_some() && same {
            (faults, reply) = (fewer, attempt);
        } else {
            at += 1;
        }
    }
    let mut bug = describe(faults, timed, &reply.trace, good, record);
    bug.violation = sweeper.oracle.violation(&reply).unwrap_or_default();
    Ok(Some(ConfirmedBug { bug, causes: vec![group.cause.clone()] }))
}

/// In any order: spaces may have found the same set in different orders.
fn is_same_set(a: &[Fault], b: &[Fault]) -> bool {
    a.len() == b.len() && a.iter().all(|fault| b.contains(fault))
}

fn needs_timing(faults: &[Fault]) -> bool {
    faults.iter().any(|f| f.nth != 0 || !f.after.is_empty())
}

/// Simpler fault sets that may have the same cause, the simplest first: the services are down; down for this caller;
/// one service is down from some moment on.
fn simpler_sets(faults: &[Fault], caller: &str, trace: &Trace) -> Vec<(Vec<Fault>, bool)> {
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
    let before = cause::succeeded_before(trace);
    if let ([one], false) = (down.as_slice(), before.is_empty()) {
        let mut from_then_on = one.clone();
        // usually the caller relies on the first successful call; if that is not enough, require all of them
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
    let is_deep = faults.len() > 1;
    let story = cause::story(trace, good, &faults);
    let mistake = match &story.fallback {
        Some(_) if is_deep => "the fallback needs the same failed service",
        _ if is_deep => "each failure is tolerated alone, but not all of them together",
        _ if timed && !cause::succeeded_before(trace).is_empty() => "time of check to time of use",
        _ => "a missing check",
    };
    let again = faults.iter().fold(record.to_owned(), |command, fault| {
        format!("{command} --fault '{}'", fault.to_string().replace('\'', "'\\''"))
    });
    Bug {
        name: format!("{}{}", if is_deep { "Deep" } else { "Simple" }, if timed { "TFI" } else { "RLFI" }),
        title: title(&faults, timed, trace, &story),
        mistake: mistake.to_owned(),
        story: story.sentences,
        failed: cause::of(trace).failed,
        faults,
        again,
        violation: String::new(),
        real_stop: None,
        failing_cases: 0,
        spaces: Vec::new(),
        trace: trace.clone(),
    }
}

/// The damage, then its condition: `GET / returns 500 when currency fails after GetCurrencies succeeded`.
fn title(faults: &[Fault], timed: bool, trace: &Trace, story: &Story) -> String {
    let request = trace.entry.label();
    let damage = match (trace.entry.outcome, trace.entry.protocol) {
        (outcome, protocol) if outcome.is_ok(protocol) => "fails its checks".to_owned(),
        (Outcome::Replied { status }, Protocol::Http) => format!("returns {status}"),
        (Outcome::Replied { status }, Protocol::Grpc) => format!("returns gRPC status {status}"),
        (Outcome::Failed { .. } | Outcome::Open, _) => "gets no reply".to_owned(),
    };
    let Some(first) = faults.first() else { return format!("{request} {damage} without any fault") };
    let mut services: Vec<String> = faults.iter().map(|f| display_callee(&f.selector.callee, trace)).collect();
    services.dedup();
    let services = services.join(" and ");
    let before = cause::succeeded_before(trace);
    let condition = if faults.len() > 1 {
        let failure = match first.kind {
            FaultKind::Unavailable => "are down",
            kind => &format!("each {}", verb(kind)),
        };
        format!("{services} {failure}{}", if timed { " at certain moments" } else { "" })
    } else if timed && !before.is_empty() {
        let selected: Vec<&str> =
            first.after.iter().map(|a| a.selector.call.as_str()).filter(|call| !call.is_empty()).collect();
        let names = if selected.is_empty() { before.iter().map(|(name, _)| name.as_str()).collect() } else { selected };
        format!("{services} {} after {} succeeded", verb(first.kind), names.join(", "))
    } else if timed {
        format!("one call of {services}/{} {}", cause::of(trace).failed.call, verb(first.kind))
    } else if !first.selector.caller.is_empty() && first.selector.call.is_empty() {
        format!("{services} {} for {}", verb(first.kind), first.selector.caller)
    } else {
        format!("{services} {}", verb(first.kind))
    };
    let fallback = match &story.fallback {
        Some((failed, next)) if faults.len() > 1 => format!(": the {failed} fallback calls {next}"),
        _ => String::new(),
    };
    format!("{request} {damage} when {condition}{fallback}")
}

fn verb(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Unavailable => "fails",
        FaultKind::Status => "returns an error",
        FaultKind::Deadline | FaultKind::Hang => "times out",
        FaultKind::Reset => "resets connections",
        FaultKind::Delay => "is slow",
        FaultKind::LostReply => "loses its reply",
        FaultKind::EmptyReply => "returns an empty reply",
        FaultKind::CorruptReply => "returns a corrupt reply",
    }
}

/// The callee's own name, also if its callers use an address.
fn display_callee(callee: &str, trace: &Trace) -> String {
    trace.walk().into_iter().find(|c| callee_at_sender(c) == callee).map_or(callee, |c| c.callee.as_str()).to_owned()
}

/// Counts every failing case for the bug that explains it; of several, for the one with the most tolerated failures in
/// common.
fn attribute_failures(found: &mut [ConfirmedBug], runs: &[SpaceRun]) {
    for run in runs {
        for case in run.cases.iter().filter(|c| c.verdict == Verdict::Fail) {
            let Some(cause) = run.causes.get(&case.fingerprint) else { continue };
            let faults: Vec<&Fault> = case.fired.iter().map(|s| &run.space.sites[*s as usize].fault).collect();
            let fit = |confirmed: &ConfirmedBug| {
                let opaque = cause.is_opaque();
                let contained = || confirmed.bug.faults.iter().all(|fault| faults.contains(&fault));
                let explains = |c: &&Cause| if opaque { *c == cause && contained() } else { c.explains(cause) };
                confirmed.causes.iter().filter(explains).map(|c| c.tolerated.len() + 1).max().unwrap_or(0)
            };
            let best = (0..found.len())
                .map(|i| (fit(&found[i]), i))
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

    /// (sites that fired, trusted, tolerated): one failing case each, all failing at frontend → currency/Convert.
    fn run(failing: &[(&[u32], bool, &[&str])]) -> SpaceRun {
        let sites = ["GetCurrencies", "Convert#1", "Convert#2", "GetAds"].map(|label| Site {
            label: label.into(),
            fault: Fault::new(FaultKind::Unavailable, Selector::callee(label)).nth(1),
        });
        let (mut cases, mut causes) = (Vec::new(), HashMap::new());
        for (number, (fired, trusted, tolerated)) in failing.iter().enumerate() {
            let failed = CallName { caller: "frontend".into(), callee: "currency".into(), call: "Convert".into() };
            let tolerated: BTreeSet<String> = tolerated.iter().map(|s| (*s).to_owned()).collect();
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
                fingerprint: number as u64,
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

    fn bug_sizes(run: SpaceRun) -> Vec<usize> {
        groups(&[run]).iter().map(|group| group.faults.len()).collect()
    }

    #[test]
    fn one_missing_check_around_many_calls_is_one_bug() {
        let cases: [(&[u32], bool, &[&str]); 3] =
            [(&[1], true, &[]), (&[2], true, &[]), (&[2, 3], true, &["ads/GetAds"])];
        assert_eq!(bug_sizes(run(&cases)), [1]);
    }

    #[test]
    fn a_superset_of_a_failing_set_may_have_another_cause() {
        let tolerated: &[&str] = &["ads/GetAds", "currency/GetCurrencies"];
        let run = run(&[(&[1], true, &[]), (&[0, 1, 3], false, tolerated)]);
        assert_eq!(run.space.minimal, [[1]]);
        assert_eq!(bug_sizes(run), [1, 3]);
    }
}
