//! Why a request failed: the call whose failure was not handled, the failures that were tolerated before it, and what
//! had changed by then.

use crate::ending::is_given_up;
use crate::fingerprint::siphash_1_3;
use crate::good_run::GoodRun;
use model::sweep::CallName;
use model::trace::{Call, Trace};
use model::{Fault, FaultKind};
use request_faults::resolve::selects;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use wire::tree::ENTRY_CALLER;

/// Failing cases with equal call sites and equal replies are one bug (see `groups`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cause {
    pub failed: CallName,
    /// An earlier call of this caller to the callee succeeded: the caller may have assumed that the callee stays up.
    pub trusted: bool,
    /// `callee/call` of every other call that failed without making the request fail.
    pub tolerated: BTreeSet<String>,
    /// `callee/call` whose failure led to the failed call: the good run does not make the failed call after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_of: Option<String>,
    /// Calls that change state succeeded.
    #[serde(default, skip_serializing_if = "is_false")]
    pub changed: bool,
    /// The failed call changes state, and its callee did its work: only the reply was lost or damaged.
    #[serde(default, skip_serializing_if = "is_false")]
    pub worked: bool,
    /// The failed call got no reply although no fault fired at it: what its callee did is unknown.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lost: bool,
    /// The failed call is not in the trace: a fault made it wait, and a caller above gave up, so its history was lost.
    /// The good run shows where it is made.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hidden: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Cause {
    /// Only the failure of the whole request is known: no history was returned, or every call in it succeeded.
    pub fn is_opaque(&self) -> bool {
        self.failed.caller == ENTRY_CALLER
    }
}

/// A fault fired at it, or it failed as it does not in the good run.
pub(crate) fn is_disturbed(call: &Call, good: &GoodRun) -> bool {
    call.fault.is_some() || (!call.is_ok() && !good.fails_like(call))
}

/// Disturbed itself, or a call below it is.
fn is_affected(call: &Call, good: &GoodRun) -> bool {
    is_disturbed(call, good) || call.calls().iter().any(|below| is_affected(below, good))
}

/// The path from the entry's scope down to the call that began the failure: the last affected call of each scope.
pub(crate) fn path<'a>(trace: &'a Trace, good: &GoodRun) -> Vec<&'a Call> {
    let mut path = Vec::new();
    let mut calls = trace.entry.calls();
    while let Some(call) = calls.iter().rfind(|call| is_affected(call, good)) {
        path.push(call);
        calls = call.calls();
    }
    path
}

/// The calls of the scope that made the last call of the path.
fn last_scope<'a>(trace: &'a Trace, path: &[&'a Call]) -> &'a [Call] {
    path.len().checked_sub(2).map_or(trace.entry.calls(), |i| path[i].calls())
}

/// `faults`: the plan of the request.
pub fn of(trace: &Trace, good: &GoodRun, faults: &[Fault]) -> Cause {
    let path = path(trace, good);
    let hidden = hidden_wait(&path, good, faults);
    let failed = hidden.as_ref().map(|hidden| hidden.call).or(path.last().copied()).unwrap_or(&trace.entry);
    let on_path = |call: &Call| path.iter().any(|p| p.id == call.id);
    let tolerated = trace.walk().into_iter().filter(|call| is_disturbed(call, good) && !on_path(call));
    Cause {
        failed: good.name_of(failed),
        trusted: !succeeded_before(trace, good).is_empty(),
        tolerated: tolerated.map(|call| good.short_name(call)).collect(),
        fallback_of: fallback(trace, good).map(|call| good.short_name(call)),
        changed: !changed(trace, good, faults).is_empty() || hidden.as_ref().is_some_and(HiddenWait::changed_before),
        worked: path.last().is_some_and(|call| trace.changes_state(call) && did_its_work(call, faults)),
        lost: path.last().is_some_and(|call| is_given_up(call) || (call.fault.is_none() && !call.outcome.completed())),
        hidden: hidden.is_some(),
    }
}

/// A call of the good run that waited in the request with faults, where its history was lost.
pub(crate) struct HiddenWait<'a> {
    pub call: &'a Call,
    /// The call that was given up, of the request with faults.
    pub given_up: &'a Call,
    /// Calls below the given-up one that change state and succeed before it in the good run.
    pub changed: Vec<&'a Call>,
}

impl HiddenWait<'_> {
    fn changed_before(&self) -> bool {
        !self.changed.is_empty()
    }
}

/// If the path ends at a call that its caller gave up: the only call below it, in the good run, that a fault makes
/// wait. The faults are the only difference to the good run, so up to that call nothing else differs.
pub(crate) fn hidden_wait<'a>(path: &[&'a Call], good: &'a GoodRun, faults: &[Fault]) -> Option<HiddenWait<'a>> {
    let given_up = path.last().copied().filter(|call| is_given_up(call))?;
    let below = good.below(given_up);
    let waits = |call: &Call| {
        let is_waiting = |fault: &&Fault| matches!(fault.kind, FaultKind::Hang | FaultKind::Delay);
        faults.iter().filter(is_waiting).any(|fault| selects(&fault.selector, call))
    };
    let call = *below.iter().find(|call| waits(call))?;
    let name = good.short_name(call);
    if below.iter().any(|other| waits(other) && good.short_name(other) != name) {
        return None;
    }
    let is_before = |other: &&&Call| other.ended_us.is_some_and(|ended| ended <= call.sent_us);
    let changed =
        below.iter().filter(is_before).filter(|other| !other.inherited && other.is_ok() && good.changes_state(other));
    let changed = changed.copied().collect();
    Some(HiddenWait { call, given_up, changed })
}

/// The failed call that the failing call is a substitute for.
pub(crate) fn fallback<'a>(trace: &'a Trace, good: &GoodRun) -> Option<&'a Call> {
    let path = path(trace, good);
    let failed = path.last()?;
    let earlier = last_scope(trace, &path).iter().take_while(|call| call.id != failed.id);
    let name = good.short_name(failed);
    let before = earlier.filter(|call| is_disturbed(call, good) && good.short_name(call) != name).last()?;
    is_substitute(before, failed, good).then_some(before)
}

/// Whether `next` was sent because `call` had failed: it was sent after that, and the good run does not make it there.
pub(crate) fn is_substitute(call: &Call, next: &Call, good: &GoodRun) -> bool {
    call.ended_us.is_some_and(|ended| next.sent_us >= ended) && !good.may_follow(call, next)
}

/// A fault of these kinds fires after the callee has run.
fn fires_after_work(fault: &Fault) -> bool {
    matches!(fault.kind, FaultKind::LostReply | FaultKind::EmptyReply | FaultKind::CorruptReply)
}

fn did_its_work(call: &Call, faults: &[Fault]) -> bool {
    call.fault.and_then(|fault| faults.get(fault)).is_some_and(fires_after_work)
}

/// What the cause of a case is stored by, if that is not its fingerprint, which does not depend on the kinds of faults,
/// and not on calls that are not in the trace.
pub(crate) fn key(cause: &Cause, faults: &[Fault], fingerprint: u64) -> Option<u64> {
    if cause.hidden {
        let CallName { caller, callee, call } = &cause.failed;
        let name = [caller, callee, call].map(|part| format!("{}:{part}", part.len())).concat();
        return Some(siphash_1_3(&[&fingerprint.to_le_bytes()[..], b"hidden", name.as_bytes()].concat()));
    }
    let input = [&fingerprint.to_le_bytes()[..], b"after the callee has run"].concat();
    faults.iter().any(fires_after_work).then(|| siphash_1_3(&input))
}

/// Calls that change state and did so, the outermost of nested ones. Left out are calls that may belong to another
/// request, and callees that the service called once more than in the good run after a failure: that may have undone
/// the change.
pub(crate) fn changed<'a>(trace: &'a Trace, good: &GoodRun, faults: &[Fault]) -> Vec<&'a Call> {
    let calls = trace.walk_with_depth();
    let mut changed: Vec<&Call> = Vec::new();
    let mut undone: BTreeSet<(String, String)> = BTreeSet::new();
    let mut has_failed = false;
    let mut below: Option<usize> = None;
    for (depth, call) in calls {
        if below.is_some_and(|top| depth > top) {
            continue;
        }
        below = None;
        let worked = did_its_work(call, faults);
        let succeeded = worked || (call.is_ok() && call.fault.is_none());
        has_failed |= is_disturbed(call, good);
        if !succeeded || call.inherited || !trace.changes_state(call) {
            continue;
        }
        below = Some(depth);
        if has_failed && !worked && !good.makes(call) {
            undone.insert((call.caller.clone(), good.callee_of(call)));
        } else {
            changed.push(call);
        }
    }
    changed.retain(|call| !undone.contains(&(call.caller.clone(), good.callee_of(call))));
    changed
}

/// Successful calls of the same caller to the same callee before the failing one: `GetCurrencies`, and how many.
pub(crate) fn succeeded_before(trace: &Trace, good: &GoodRun) -> Vec<(String, u64)> {
    let path = path(trace, good);
    let Some(failed) = path.last() else {
        return Vec::new();
    };
    let mut before: Vec<(String, u64)> = Vec::new();
    for call in last_scope(trace, &path).iter().take_while(|c| c.id != failed.id) {
        let is_same_callee = call.peer == failed.peer || call.callee == failed.callee;
        if is_same_callee && call.outcome.completed() && !is_disturbed(call, good) {
            match before.iter_mut().find(|(name, _)| name == call.label()) {
                Some((_, n)) => *n += 1,
                None => before.push((call.label().to_owned(), 1)),
            }
        }
    }
    before
}

/// Whether each service on the path passed the failure on: it made no further call and replied.
pub(crate) fn is_passed_on(trace: &Trace, good: &GoodRun) -> bool {
    let path = path(trace, good);
    let mut scope = trace.entry.calls();
    for call in &path {
        if scope.last().is_none_or(|last| last.id != call.id) {
            return false;
        }
        scope = call.calls();
    }
    !path.is_empty()
}

/// Whether every failed call on the path may belong to another request. Nothing may rest on such calls alone.
pub(crate) fn rests_on_inherited(trace: &Trace, good: &GoodRun) -> bool {
    let path = path(trace, good);
    let mut disturbed = path.iter().filter(|call| is_disturbed(call, good)).peekable();
    disturbed.peek().is_some() && disturbed.all(|call| call.inherited)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Selector;
    use model::trace::{Outcome, Protocol, Scope};

    /// `callee/Call`, whether it succeeded; its fault is the first of the plan if it failed.
    type Made<'a> = (&'a str, bool);

    fn call(number: u32, caller: &str, name: &str, outcome: Outcome, scope: Option<Scope>) -> Call {
        let (callee, method) = name.split_once('/').unwrap();
        Call {
            id: format!("{caller}{number}"),
            number,
            caller: caller.into(),
            callee: callee.into(),
            name: format!("/shop.S/{method}"),
            peer: callee.into(),
            protocol: Protocol::Grpc,
            sent_us: u64::from(number) * 10,
            ended_us: Some(u64::from(number) * 10 + 5),
            outcome,
            fault: None,
            inherited: false,
            connect_us: None,
            gap: false,
            unreadable: None,
            scope: scope.map(Box::new),
        }
    }

    /// A POST that the service `shop` answers with this status after these calls.
    fn trace(status: u32, calls: &[Made]) -> Trace {
        let calls = calls.iter().zip(1..).map(|((name, is_ok), number)| {
            let outcome = if *is_ok { Outcome::Replied { status: 0 } } else { Outcome::Failed { status: 14 } };
            let mut made = call(number, "shop", name, outcome, None);
            made.fault = (!is_ok).then_some(0);
            made
        });
        let scope = Scope {
            service: "shop".into(),
            name: String::new(),
            start_us: 0,
            answered_us: Some(1000),
            status: Some(status),
            truncated: false,
            faults_off: false,
            unscoped: Vec::new(),
            calls: calls.collect(),
        };
        let mut entry = call(0, ENTRY_CALLER, "shop/POST", Outcome::Replied { status }, Some(scope));
        (entry.protocol, entry.name) = (Protocol::Http, "POST /order".into());
        Trace { trace_id: String::new(), entry }
    }

    fn trace_scope(service: &str, calls: Vec<Call>) -> Option<Box<Scope>> {
        let mut scope = trace(200, &[]).entry.scope?;
        (scope.service, scope.calls) = (service.to_owned(), calls);
        Some(scope)
    }

    fn faults(kind: FaultKind) -> Vec<Fault> {
        vec![Fault::new(kind, Selector::default())]
    }

    fn changed_names(good: &[Made], bad: &[Made], kind: FaultKind) -> Vec<String> {
        let (good, bad) = (GoodRun::of(&trace(200, good)), trace(503, bad));
        changed(&bad, &good, &faults(kind)).into_iter().map(|call| call.label().to_owned()).collect()
    }

    #[test]
    fn state_changes_that_succeeded_are_found_also_if_only_the_reply_was_lost() {
        let good = [("stock/GetItem", true), ("bank/Charge", true), ("post/Ship", true)];
        let names = |bad: &[Made], kind| changed_names(&good, bad, kind);
        let ship_fails = [("stock/GetItem", true), ("bank/Charge", true), ("post/Ship", false)];
        assert_eq!(names(&ship_fails, FaultKind::Unavailable), ["Charge"]);
        assert_eq!(names(&ship_fails, FaultKind::LostReply), ["Charge", "Ship"]);
        assert!(names(&[("stock/GetItem", true), ("bank/Charge", false)], FaultKind::Unavailable).is_empty());
        // a refund after the failure, which the good run does not make, may have undone the charge
        let refunded = [("bank/Charge", true), ("post/Ship", false), ("bank/Refund", true)];
        assert!(names(&refunded, FaultKind::Unavailable).is_empty());
    }

    #[test]
    fn a_call_that_the_good_run_makes_later_is_no_substitute() {
        let fallback_of = |good: &[Made], bad: &[Made]| {
            of(&trace(500, bad), &GoodRun::of(&trace(200, good)), &faults(FaultKind::Unavailable)).fallback_of
        };
        let good = [("ads/GetAds", true), ("rates/Convert", true), ("cart/GetCart", true)];
        assert_eq!(fallback_of(&good, &[("ads/GetAds", false), ("rates/Convert", false)]), None);
        assert_eq!(fallback_of(&good, &[("ads/GetAds", false), ("cart/GetCart", false)]), None);
        let good = [("rates/Convert", true), ("ads/GetAds", true)];
        let bad = [("rates/GetRates", true), ("ads/GetAds", false), ("rates/Convert", false)];
        assert_eq!(fallback_of(&good, &bad), Some("ads/GetAds".to_owned()));
        // in an incomplete scope the call may be missing
        let mut incomplete = trace(200, &good);
        incomplete.entry.scope.as_mut().unwrap().truncated = true;
        let cause = of(&trace(500, &bad), &GoodRun::of(&incomplete), &faults(FaultKind::Unavailable));
        assert_eq!(cause.fallback_of, None);
    }

    #[test]
    fn a_call_that_always_fails_is_no_cause() {
        let good = GoodRun::of(&trace(200, &[("cache/Get", false), ("stock/GetItem", true)]));
        let mut bad = trace(500, &[("stock/GetItem", false), ("cache/Get", false)]);
        let calls = &mut bad.entry.scope.as_mut().unwrap().calls;
        calls[1].fault = None;
        assert_eq!(of(&bad, &good, &faults(FaultKind::Unavailable)).failed.call, "GetItem");
    }

    #[test]
    fn nothing_rests_on_inherited_calls_alone() {
        let good = GoodRun::of(&trace(200, &[("bank/Charge", true), ("rates/Convert", true)]));
        let mut bad = trace(500, &[("bank/Charge", true), ("rates/Convert", false)]);
        assert!(!rests_on_inherited(&bad, &good));
        bad.entry.scope.as_mut().unwrap().calls.iter_mut().for_each(|call| call.inherited = true);
        assert!(rests_on_inherited(&bad, &good));
        assert!(
            changed(&bad, &good, &faults(FaultKind::Unavailable)).is_empty(),
            "the charge may be another request's"
        );
    }

    /// `shop` calls `orders`, which calls `bank/Charge` and then `mail/Send`, and gives up while `mail/Send` hangs.
    #[test]
    fn a_call_that_waits_in_a_lost_history_is_taken_from_the_good_run() {
        let made = |number, name, millis| {
            let mut made = call(number, "orders", name, Outcome::Replied { status: 0 }, None);
            (made.sent_us, made.ended_us) = (millis, Some(millis + 1));
            made
        };
        let order = |calls: Vec<Call>| {
            let mut trace = trace(200, &[("orders/Place", true)]);
            let place = &mut trace.entry.scope.as_mut().unwrap().calls[0];
            place.scope = trace_scope("orders", calls);
            trace
        };
        let good = GoodRun::of(&order(vec![made(1, "bank/Charge", 1), made(2, "mail/Send", 5), made(3, "log/Put", 9)]));
        let mut bad = trace(500, &[("orders/Place", true)]);
        let place = &mut bad.entry.scope.as_mut().unwrap().calls[0];
        place.outcome = Outcome::Failed { status: 4 };
        let hang = |callee: &str| Fault::new(FaultKind::Hang, Selector::callee(callee));
        let of = |faults: &[Fault]| {
            let cause = of(&bad, &good, faults);
            (cause.failed.call.clone(), cause.hidden, cause.changed)
        };
        assert_eq!(of(&[hang("mail")]), ("Send".to_owned(), true, true));
        assert_eq!(of(&[hang("bank")]), ("Charge".to_owned(), true, false), "nothing comes before it");
        assert_eq!(of(&[hang("mail"), hang("log")]), ("Place".to_owned(), false, false), "either may be the reason");
        assert_eq!(of(&[hang("elsewhere")]), ("Place".to_owned(), false, false));
        assert_eq!(of(&faults(FaultKind::Unavailable)), ("Place".to_owned(), false, false));
        let keys = ["mail", "bank"].map(|callee| {
            let faults = [hang(callee)];
            key(&super::of(&bad, &good, &faults), &faults, 7)
        });
        assert!(keys[0].is_some() && keys[0] != keys[1], "traces without these calls are equal");
    }
}
