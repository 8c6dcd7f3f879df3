//! Reduces failing cases to bugs: one bug per call site and reply, with the simplest fault set that causes it. Each is
//! reproduced before it is reported; what is not goes to the list of unexplained cases.
//!
//! Names follow the taxonomy of 3MileBeach §5.3: *Simple* needs one fault, *Deep* several at once; *RLFI* needs no
//! timing (the services are down from the start), *TFI* needs a moment.

use crate::cause;
use crate::description::{Reproduced, describe, verb};
use crate::ending;
use crate::good_run::GoodRun;
use crate::groups::{self, Group, Key, needs_timing};
use crate::recovery::fault_texts;
use crate::runner::{PROGRESS_EVERY, SpaceRun, Sweeper};
use crate::service_logs::LogMark;
use model::sweep::{Bug, Ending, Unexplained};
use model::trace::Trace;
use model::{Failure, Family, Fault, FaultKind, Selector};
use requests::Sender;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::task::JoinSet;

/// Further causes are listed as unexplained.
const BUGS_MAX: usize = 50;
/// Groups of failing cases that are listed as unexplained; the last one stands for all others.
const UNEXPLAINED_MAX: usize = 100;

/// Every failing case belongs to one of both.
#[derive(Default)]
pub struct Findings {
    /// The most harmful first.
    pub bugs: Vec<Bug>,
    pub unexplained: Vec<Unexplained>,
}

/// The result of sending a group again.
enum Reproduction {
    Confirmed(Box<Bug>),
    /// Why it is not a bug.
    Refuted(String),
}

/// `record` is the command that repeats the request, without faults: `faultloom record http://…`. `progress` gets the
/// number of causes that were tried, and of all.
pub async fn find(
    sweeper: &Sweeper,
    good: &Trace,
    runs: &[SpaceRun],
    record: &str,
    mut progress: impl FnMut(u64, u64),
) -> Result<Findings, Failure> {
    let groups::Groups { groups, without_cause } = groups::of(runs);
    let results = reproduce_all(sweeper, good, &groups, record, &mut progress).await?;
    let mut findings = Findings::default();
    let not_explained = |group: &Group, reason: &str| Unexplained {
        reason: reason.to_owned(),
        faults: group.faults.clone(),
        again: again(record, &group.faults),
        failing_cases: group.failing_cases,
        spaces: group.spaces.clone(),
    };
    let mut keys: Vec<&Key> = Vec::new();
    for (group, result) in groups.iter().zip(results) {
        match result {
            Reproduction::Confirmed(bug) => {
                let is_same = |(other, key): (&Bug, &&Key)| {
                    is_same_reply_and_set(other, &bug)
                        || (key.is_same_site(&group.key) && (&other.failed, other.harm) == (&bug.failed, bug.harm))
                };
                let at = match findings.bugs.iter().zip(&keys).position(is_same) {
                    Some(same) => {
                        add_kind(&mut findings.bugs[same], &bug);
                        same
                    }
                    None if findings.bugs.len() >= BUGS_MAX => {
                        findings
                            .unexplained
                            .push(not_explained(group, &format!("there are more than {BUGS_MAX} bugs")));
                        continue;
                    }
                    None => {
                        findings.bugs.push(*bug);
                        keys.push(&group.key);
                        findings.bugs.len() - 1
                    }
                };
                let at = &mut findings.bugs[at];
                at.failing_cases += group.failing_cases;
                at.behaviors.extend(&group.behaviors);
                let new = group.spaces.iter().filter(|space| !at.spaces.contains(space)).cloned().collect::<Vec<_>>();
                at.spaces.extend(new);
            }
            Reproduction::Refuted(reason) => findings.unexplained.push(not_explained(group, &reason)),
        }
    }
    let missing = "the cause of these cases was not stored";
    findings.unexplained.extend(without_cause.iter().map(|group| not_explained(group, missing)));
    limit(&mut findings.unexplained);
    findings.bugs.sort_by_key(|bug| bug.harm);
    number_names(&mut findings.bugs);
    Ok(findings)
}

/// The second bug of a kind is `SimpleTFI 2`.
fn number_names(bugs: &mut [Bug]) {
    let mut names: HashMap<String, u32> = HashMap::new();
    for bug in bugs {
        let n = names.entry(bug.name.clone()).or_default();
        *n += 1;
        if *n > 1 {
            bug.name = format!("{} {n}", bug.name);
        }
    }
}

fn limit(unexplained: &mut Vec<Unexplained>) {
    if unexplained.len() <= UNEXPLAINED_MAX {
        return;
    }
    let rest = unexplained.split_off(UNEXPLAINED_MAX);
    let last = unexplained.last_mut().expect("the limit is positive");
    last.reason = format!("{} (and {} more groups, for one reason or another)", last.reason, rest.len());
    last.failing_cases += rest.iter().map(|one| one.failing_cases).sum::<u64>();
}

pub(crate) fn again(record: &str, faults: &[Fault]) -> String {
    faults.iter().fold(record.to_owned(), |command, fault| {
        format!("{command} --fault '{}'", fault.to_string().replace('\'', "'\\''"))
    })
}

/// In the order of `groups`. Groups whose requests wait are reproduced concurrently, the others one after the other: a
/// crash must not be taken for the crash of another group.
async fn reproduce_all(
    sweeper: &Sweeper,
    good: &Trace,
    groups: &[Group],
    record: &str,
    progress: &mut impl FnMut(u64, u64),
) -> Result<Vec<Reproduction>, Failure> {
    let (total, mut done) = (groups.len() as u64, 0);
    let mut results: Vec<Option<Reproduction>> = groups.iter().map(|_| None).collect();
    let good = Arc::new(GoodRun::of(good));
    let stopped = || {
        let is_stopped = sweeper.stop.load(Ordering::Relaxed);
        is_stopped.then(|| Failure::new(Family::Aborted, "the sweep was stopped while its bugs were being reproduced"))
    };
    let (waiting, mut quick): (Vec<usize>, Vec<usize>) = (0..groups.len()).partition(|at| waits(&groups[*at]));
    // crashes last: a service that crashes too often is given up, and then nothing can be reproduced
    quick.sort_by_key(|at| groups[*at].key.ending == Some(Ending::Crashed));
    let mut sender = sweeper.sender();
    for at in quick {
        progress(done, total);
        if let Some(failure) = stopped() {
            return Err(failure);
        }
        results[at] = Some(reproduce(sweeper, &mut sender, &good, &groups[at], record).await?);
        done += 1;
    }
    let shared = Arc::new(sweeper.clone());
    let mut waiting = waiting.into_iter();
    let mut tasks = JoinSet::new();
    loop {
        progress(done, total);
        if let Some(failure) = stopped() {
            return Err(failure);
        }
        while tasks.len() < sweeper.concurrency.max(1)
            && let Some(at) = waiting.next()
        {
            let (sweeper, good, group, record) = (shared.clone(), good.clone(), groups[at].clone(), record.to_owned());
            tasks.spawn(async move {
                let mut sender = sweeper.sender();
                (at, reproduce(&sweeper, &mut sender, &good, &group, &record).await)
            });
        }
        let Ok(joined) = tokio::time::timeout(PROGRESS_EVERY, tasks.join_next()).await else { continue };
        let Some(joined) = joined else { break };
        let (at, result) = joined.map_err(|e| Failure::new(Family::Bug, format!("a bug was not reproduced: {e}")))?;
        results[at] = Some(result?);
        done += 1;
    }
    Ok(results.into_iter().flatten().collect())
}

/// Whether its requests wait for a deadline or a timeout.
fn waits(group: &Group) -> bool {
    group.key.ending == Some(Ending::NoReply)
        || group.faults.iter().any(|fault| matches!(fault.kind, FaultKind::Hang | FaultKind::Delay))
}

/// Sends the group's faults, then simpler sets that fail at the same call site with the same reply.
async fn reproduce(
    sweeper: &Sweeper,
    sender: &mut Sender,
    good: &GoodRun,
    group: &Group,
    record: &str,
) -> Result<Reproduction, Failure> {
    let mark = LogMark::set(&sweeper.recovery);
    let has_crashed = group.key.ending == Some(Ending::Crashed);
    let Some(first) = attempt(sweeper, sender, good, &group.faults, has_crashed).await? else {
        tracing::info!(faults = fault_texts(&group.faults), "the request did not fail again with these faults");
        return Ok(Reproduction::Refuted("the request did not fail again with these faults".to_owned()));
    };
    if !is_same_failure(group, &first, &group.faults) {
        tracing::info!(faults = fault_texts(&group.faults), key = ?first.key, "the request failed in another way");
        let reason = "sent again, the request failed in another way".to_owned();
        return Ok(Reproduction::Refuted(reason));
    }
    if cause::rests_on_inherited(&first.reply.trace, good) {
        let failed = &first.cause.failed;
        return Ok(Reproduction::Refuted(format!(
            "it rests only on {} → {}/{}, which lost its context and may belong to another request",
            failed.caller, failed.callee, failed.call
        )));
    }
    let mut group = group.clone();
    let (mut faults, mut found, mut timed) = (group.faults.clone(), first, needs_timing(&group.faults));
    let mut relied_on_success = false;
    if is_reducible(&group.faults) {
        let before = cause::succeeded_before(&found.reply.trace, good);
        let sets = simpler_sets(&group.faults, &group.cause.failed.caller, &before);
        for (index, (simpler, is_timed)) in sets.into_iter().enumerate() {
            let other = attempt(sweeper, sender, good, &simpler, has_crashed).await?;
            // the caller handles an outage from the start, whether or not the reply has all of its content
            let is_handled = other.as_ref().is_none_or(|other| other.reply.trace.entry.is_ok());
            relied_on_success |= is_handled && index == 0 && simpler.len() == 1 && !before.is_empty();
            let Some(other) = other else { continue };
            if is_same_failure(&group, &other, &simpler) && other.cause.changed >= found.cause.changed {
                (faults, found, timed) = (simpler, other, is_timed);
                break;
            }
        }
    }
    // drop faults that the failure does not need
    let (mut at, mut tolerated_alone) = (0, true);
    while faults.len() > 1 && at < faults.len() {
        let mut fewer = faults.clone();
        fewer.remove(at);
        match attempt(sweeper, sender, good, &fewer, has_crashed).await? {
            Some(other) if is_same_failure(&group, &other, &fewer) && other.cause.changed >= found.cause.changed => {
                (faults, found) = (fewer, other);
            }
            // the same reply without the failure of that call: the caller went on after an earlier one
            Some(other)
                if at_failed_call(&found, good) == Some(at)
                    && is_same_reply(&group, &other)
                    && other.cause.changed >= found.cause.changed =>
            {
                group.key = other.key.clone();
                (faults, found) = (fewer, other);
                at = 0;
            }
            other => {
                tolerated_alone &= other.is_none();
                at += 1;
            }
        }
    }
    let mut reproduced = Reproduced { found, faults, timed, relied_on_success, tolerated_alone, log: None };
    if reproduced.found.key.ending == Some(Ending::Crashed) {
        reproduced.log = Some(mark.excerpt(&reproduced.crashed(good)));
    }
    let again = again(record, &reproduced.faults);
    Ok(Reproduction::Confirmed(Box::new(describe(reproduced, group.key.failed, good, again))))
}

/// A request that failed.
pub(crate) struct Found {
    pub reply: requests::Reply,
    pub violation: String,
    pub crashed_by_faults: Vec<String>,
    pub cause: cause::Cause,
    pub key: Key,
}

/// Sends these faults. None if the reply is correct. `has_crashed`: a service is expected to crash.
async fn attempt(
    sweeper: &Sweeper,
    sender: &mut Sender,
    good: &GoodRun,
    faults: &[Fault],
    has_crashed: bool,
) -> Result<Option<Found>, Failure> {
    let sent = if has_crashed {
        sweeper.recovery.send_once(sender, &sweeper.spec, faults).await?
    } else {
        sweeper.recovery.send(sender, &sweeper.spec, faults).await?
    };
    let crashed_by_faults = sent.crashed_by_faults;
    let crash = (!crashed_by_faults.is_empty()).then(|| crate::assess::crash_reason(&crashed_by_faults));
    let Some(violation) = crash.or_else(|| sweeper.oracle.violation(&sent.reply)) else { return Ok(None) };
    let ending = ending::of(&sent.reply, &violation, &crashed_by_faults);
    let cause = cause::of(&sent.reply.trace, good, faults);
    let key = Key::of(&cause, Some(ending), sent.reply.status(), Some(&violation), faults);
    Ok(Some(Found { reply: sent.reply, violation, crashed_by_faults, cause, key }))
}

/// The fault that fired at the call that is blamed, if the reply shows which one failed.
fn at_failed_call(found: &Found, good: &GoodRun) -> Option<usize> {
    let shown = found.key.faulted.is_empty();
    cause::path(&found.reply.trace, good).last().filter(|_| shown).and_then(|call| call.fault)
}

fn is_same_reply(group: &Group, found: &Found) -> bool {
    found.key.faulted.is_empty() && (found.key.ending, found.key.status) == (group.key.ending, group.key.status)
}

/// Whether a request failed at the group's call site with the group's reply. `faults`: those of the request.
fn is_same_failure(group: &Group, found: &Found, faults: &[Fault]) -> bool {
    let (key, other) = (&group.key, &found.key);
    // cases of earlier versions have no ending
    let is_same_ending = key.ending.is_none_or(|ending| other.ending == Some(ending))
        && (key.status, &key.rule) == (other.status, &other.rule);
    if key.faulted.is_empty() || key.ending.is_none() {
        return is_same_ending
            && (&key.failed, &key.fallback_of) == (&other.failed, &other.fallback_of)
            && (key.worked, key.lost) == (other.worked, other.lost);
    }
    // which call failed follows from the faults alone, so these must be the group's, or less specific
    let covers = |fault: &Fault| {
        group.faults.iter().any(|one| {
            let (wide, narrow) = (&fault.selector, &one.selector);
            wide.callee == narrow.callee && (wide.call.is_empty() || wide.call == narrow.call)
        })
    };
    is_same_ending && faults.iter().all(covers)
}

fn is_same_reply_and_set(a: &Bug, b: &Bug) -> bool {
    (a.ending, a.trace.entry.outcome) == (b.ending, b.trace.entry.outcome) && is_same_set(&a.faults, &b.faults)
}

/// Says that the bug also occurs with the kind of fault of `other`, which is the same bug.
fn add_kind(bug: &mut Bug, other: &Bug) {
    let ([one], [another]) = (bug.faults.as_slice(), other.faults.as_slice()) else { return };
    if one.kind == another.kind {
        return;
    }
    let sentence = format!("The same happens when {} {}.", other.failed.call, verb(another.kind));
    if !bug.story.contains(&sentence) {
        bug.story.push(sentence);
    }
}

/// In any order: spaces may have found the same set in different orders.
fn is_same_set(a: &[Fault], b: &[Fault]) -> bool {
    a.len() == b.len() && a.iter().all(|fault| b.contains(fault))
}

/// Whether less specific faults are worth a try. A fault that makes a call wait would make all calls wait.
fn is_reducible(faults: &[Fault]) -> bool {
    let is_specific = |fault: &Fault| fault.nth != 0 || !fault.after.is_empty() || !fault.selector.call.is_empty();
    faults.iter().any(is_specific)
        && !faults.iter().any(|fault| matches!(fault.kind, FaultKind::Hang | FaultKind::Delay))
}

/// Simpler fault sets that may have the same cause, the simplest first: the services are down; down for this caller;
/// one service is down from some moment on. `before`: the callee's calls that succeeded earlier.
fn simpler_sets(faults: &[Fault], caller: &str, before: &[(String, u64)]) -> Vec<(Vec<Fault>, bool)> {
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
