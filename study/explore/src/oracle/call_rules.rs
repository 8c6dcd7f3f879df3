//! Decides whether a rule about calls holds in a trace.
//!
//! A call matches for certain, perhaps, or not. Perhaps: it is inherited, so it may belong to another request; or no
//! reply was received, so it may not have taken place. A call that a fault kept from being sent did not take place. A
//! verdict never rests on a call that only perhaps matches, nor on the absence of one from a trace with gaps.

use super::Decision;
use super::hidden_calls::{self, Proof};
use model::trace::{Call, Outcome, Trace};
use model::{CallResult, CallRule, Calls, Fault, FaultKind, Selector};
use request_faults::resolve::selects;

/// What a rule is judged by.
pub(crate) struct Evidence<'a> {
    pub trace: &'a Trace,
    /// The plan of the request.
    pub faults: &'a [Fault],
    /// The request without faults. It shows what a callee calls whose history was lost.
    pub good: &'a Trace,
    pub status: Option<u32>,
}

pub(crate) fn decide(rule: &CallRule, evidence: &Evidence) -> Decision {
    let decision = match rule {
        CallRule::AtMost { count, calls } => at_most(*count, calls, evidence),
        CallRule::AtLeast { count, calls } => at_least(*count, calls, evidence),
        CallRule::Status { calls, statuses } => status(calls, statuses, evidence),
        CallRule::Implies { calls, then } => implies(calls, then, evidence),
        CallRule::OnlyAfter { calls, earlier } => only_after(calls, earlier, evidence),
    };
    match decision {
        Decision::Pass => Decision::Pass,
        Decision::Fail(why) => Decision::Fail(format!("call rule '{rule}': {why}")),
        Decision::Unknown(why) => Decision::Unknown(format!("call rule '{rule}' cannot be judged: {why}")),
    }
}

/// The rule of a violation that [`decide`] returned.
pub(crate) fn violated(violation: &str) -> Option<&str> {
    violation.strip_prefix("call rule '")?.split_once("': ").map(|(rule, _)| rule)
}

/// The call was sent by its caller. Most faults answer it before that.
fn was_sent(call: &Call, faults: &[Fault]) -> bool {
    let kind = call.fault.and_then(|index| faults.get(index)).map(|fault| fault.kind);
    !matches!(
        kind,
        Some(FaultKind::Unavailable | FaultKind::Status | FaultKind::Deadline | FaultKind::Reset | FaultKind::Hang)
    )
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Match {
    No,
    /// With the reason.
    Perhaps(&'static str),
    Yes,
}

fn matching(calls: &Calls, call: &Call, faults: &[Fault]) -> Match {
    if !selects(&calls.selector, call) {
        return Match::No;
    }
    let open = Match::Perhaps("its caller answered before the call ended");
    let result = match (calls.result, call.outcome) {
        (CallResult::Any, _) if !was_sent(call, faults) => Match::No,
        (CallResult::Any, Outcome::Failed { .. }) => {
            let is_lost =
                call.fault.and_then(|index| faults.get(index)).is_some_and(|f| f.kind == FaultKind::LostReply);
            if is_lost || call.scope.is_some() {
                Match::Yes
            } else {
                Match::Perhaps("no reply was received, so the call may not have taken place")
            }
        }
        (CallResult::Any, Outcome::Replied { .. }) => Match::Yes,
        (_, Outcome::Open) => open,
        (CallResult::Ok, _) if call.is_ok() => Match::Yes,
        (CallResult::Failed, _) if !call.is_ok() => Match::Yes,
        (CallResult::Ok | CallResult::Failed, _) => Match::No,
    };
    match result {
        Match::Yes if call.inherited => Match::Perhaps("the call is inherited and may belong to another request"),
        result => result,
    }
}

/// The matching calls of a trace.
struct Matches<'a> {
    certain: Vec<&'a Call>,
    /// How many match perhaps, and why the first one does.
    perhaps: u64,
    why: &'static str,
}

impl Matches<'_> {
    fn uncertain<T: From<String>>(&self, calls: &Calls) -> T {
        format!("{calls}: {}", self.why).into()
    }
}

impl<'a> Evidence<'a> {
    fn matches(&self, calls: &Calls) -> Matches<'a> {
        let mut found = Matches { certain: Vec::new(), perhaps: 0, why: "" };
        for call in self.trace.walk() {
            match matching(calls, call, self.faults) {
                Match::Yes => found.certain.push(call),
                Match::Perhaps(why) => {
                    found.why = if found.perhaps == 0 { why } else { found.why };
                    found.perhaps += 1;
                }
                Match::No => {}
            }
        }
        found
    }

    fn hidden(&self, selector: &Selector, proof: Proof) -> Option<String> {
        hidden_calls::reason(selector, self.trace, self.good, proof, |call| was_sent(call, self.faults))
    }

    /// A pass that depends on the absence of more calls.
    fn pass_without_more(&self, calls: &Calls) -> Decision {
        self.hidden(&calls.selector, Proof::Pass).map_or(Decision::Pass, Decision::Unknown)
    }

    /// A failure that depends on the absence of more calls.
    fn fail_without_more(&self, calls: &Calls, why: String) -> Decision {
        self.hidden(&calls.selector, Proof::Failure).map_or(Decision::Fail(why), Decision::Unknown)
    }
}

fn times(count: u64) -> String {
    if count == 1 { "1 such call".to_owned() } else { format!("{count} such calls") }
}

fn at_most(count: u64, calls: &Calls, evidence: &Evidence) -> Decision {
    let found = evidence.matches(calls);
    let certain = found.certain.len() as u64;
    if certain > count {
        Decision::Fail(times(certain))
    } else if certain + found.perhaps > count {
        Decision::Unknown(found.uncertain(calls))
    } else {
        evidence.pass_without_more(calls)
    }
}

fn at_least(count: u64, calls: &Calls, evidence: &Evidence) -> Decision {
    let found = evidence.matches(calls);
    let certain = found.certain.len() as u64;
    if certain >= count {
        Decision::Pass
    } else if certain + found.perhaps >= count {
        Decision::Unknown(found.uncertain(calls))
    } else {
        evidence.fail_without_more(calls, times(certain))
    }
}

fn status(calls: &Calls, statuses: &[u32], evidence: &Evidence) -> Decision {
    if evidence.status.is_some_and(|status| statuses.contains(&status)) {
        return Decision::Pass;
    }
    let found = evidence.matches(calls);
    if !found.certain.is_empty() {
        Decision::Fail(
            evidence.status.map_or("there is no reply".to_owned(), |status| format!("the status is {status}")),
        )
    } else if found.perhaps > 0 {
        Decision::Unknown(found.uncertain(calls))
    } else {
        evidence.pass_without_more(calls)
    }
}

fn implies(calls: &Calls, then: &Calls, evidence: &Evidence) -> Decision {
    let second = evidence.matches(then);
    if !second.certain.is_empty() {
        return Decision::Pass;
    }
    let first = evidence.matches(calls);
    match (first.certain.is_empty(), first.perhaps, second.perhaps) {
        (true, 0, _) => evidence.pass_without_more(calls),
        (true, ..) => Decision::Unknown(first.uncertain(calls)),
        (false, _, 0) => evidence.fail_without_more(then, format!("there is no {then}")),
        (false, ..) => Decision::Unknown(second.uncertain(then)),
    }
}

/// Every call needs an earlier one that had ended when it was sent.
fn only_after(calls: &Calls, earlier: &Calls, evidence: &Evidence) -> Decision {
    let paths = paths(evidence.trace);
    let of = |calls: &Calls, wanted: fn(Match) -> bool| -> Vec<&Vec<&Call>> {
        let is_wanted = |path: &&Vec<&Call>| wanted(matching(calls, path[path.len() - 1], evidence.faults));
        paths.iter().filter(is_wanted).collect()
    };
    let precedes = |all: &[&Vec<&Call>], path: &[&Call]| all.iter().any(|one| ended_before(one, path));
    let certain = of(earlier, |result| result == Match::Yes);
    let perhaps = of(earlier, |result| matches!(result, Match::Perhaps(_)));
    let mut unknown = None;
    for path in of(calls, |result| result != Match::No) {
        if precedes(&certain, path) {
            continue;
        }
        let is_certain = matching(calls, path[path.len() - 1], evidence.faults) == Match::Yes;
        if !is_certain {
            unknown.get_or_insert_with(|| evidence.matches(calls).uncertain(calls));
        } else if !perhaps.is_empty() {
            // also one that ended later: what its caller did before is not certain either
            unknown.get_or_insert_with(|| evidence.matches(earlier).uncertain(earlier));
        } else if let Some(why) = evidence.hidden(&earlier.selector, Proof::Failure) {
            unknown.get_or_insert(why);
        } else {
            let call = path[path.len() - 1];
            return Decision::Fail(format!("{}/{} was called before", call.callee, call.label()));
        }
    }
    match unknown {
        Some(why) => Decision::Unknown(why),
        None => evidence.pass_without_more(calls),
    }
}

/// Every call below the entry with those above it, from the entry's scope down.
fn paths(trace: &Trace) -> Vec<Vec<&Call>> {
    let mut found = Vec::new();
    let mut open: Vec<Vec<&Call>> = trace.entry.calls().iter().map(|call| vec![call]).collect();
    while let Some(path) = open.pop() {
        let below = path[path.len() - 1].calls().iter();
        open.extend(below.map(|call| path.iter().copied().chain([call]).collect()));
        found.push(path);
    }
    found
}

/// Whether the first call had ended when the second was sent. Only times of one scope are compared: those of the calls
/// above them in the scope from which both follow.
fn ended_before(first: &[&Call], second: &[&Call]) -> bool {
    let Some(at) = first.iter().zip(second).position(|(a, b)| !std::ptr::eq(*a, *b)) else {
        return false; // one is above the other
    };
    first[at].ended_us.is_some_and(|ended| ended <= second[at].sent_us) && first[at].number < second[at].number
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::trace::{Protocol, Scope, UnscopedCalls};

    const OK: Outcome = Outcome::Replied { status: 0 };
    const FAILED: Outcome = Outcome::Failed { status: 14 };

    fn call(callee: &str, name: &str, at: u64, outcome: Outcome) -> Call {
        Call {
            id: format!("{callee}{name}{at}"),
            number: at as u32,
            caller: "checkout".into(),
            callee: callee.into(),
            name: format!("/shop.Service/{name}"),
            peer: callee.into(),
            protocol: Protocol::Grpc,
            sent_us: at * 10,
            ended_us: Some(at * 10 + 5),
            outcome,
            fault: None,
            inherited: false,
            connect_us: None,
            gap: false,
            unreadable: None,
            scope: None,
        }
    }

    fn scope(service: &str, calls: Vec<Call>) -> Box<Scope> {
        Box::new(Scope {
            service: service.into(),
            name: String::new(),
            start_us: 0,
            answered_us: Some(1000),
            status: Some(200),
            truncated: false,
            faults_off: false,
            unscoped: Vec::new(),
            calls,
        })
    }

    fn trace(calls: Vec<Call>) -> Trace {
        let mut entry = call("checkout", "Order", 0, OK);
        entry.scope = Some(scope("checkout", calls));
        Trace { trace_id: String::new(), entry }
    }

    fn good() -> Trace {
        let mut payment = call("payment", "Charge", 1, OK);
        payment.scope = Some(scope("payment", Vec::new()));
        trace(vec![payment, call("shipping", "Ship", 2, OK), call("email", "Send", 3, OK)])
    }

    #[track_caller]
    fn decided(rule: &str, trace: &Trace, status: u32) -> Decision {
        let faults = [
            Fault::new(FaultKind::Unavailable, Selector::callee("payment")),
            Fault::new(FaultKind::LostReply, Selector::callee("payment")),
        ];
        let good = good();
        let evidence = Evidence { trace, faults: &faults, good: &good, status: Some(status) };
        decide(&rule.parse().unwrap(), &evidence)
    }

    fn verdict(rule: &str, trace: &Trace, status: u32) -> &'static str {
        match decided(rule, trace, status) {
            Decision::Pass => "pass",
            Decision::Fail(_) => "fail",
            Decision::Unknown(_) => "unknown",
        }
    }

    #[test]
    fn calls_that_took_place_are_counted() {
        let once = "at most 1 payment/Charge";
        assert_eq!(verdict(once, &good(), 200), "pass");
        let twice = trace(vec![call("payment", "Charge", 1, OK), call("payment", "Charge", 2, OK)]);
        let Decision::Fail(why) = decided(once, &twice, 200) else { panic!() };
        assert_eq!(why, "call rule 'at most 1 payment/Charge': 2 such calls");
        // the fault kept the first one from being sent
        let retried = |fault| {
            let first = Call { fault: Some(fault), ..call("payment", "Charge", 1, FAILED) };
            trace(vec![first, call("payment", "Charge", 2, OK)])
        };
        assert_eq!(verdict(once, &retried(0), 200), "pass");
        assert_eq!(verdict(once, &retried(1), 200), "fail", "its reply was lost, so it was carried out");
        assert_eq!(verdict("at most 1 payment/Charge ok", &retried(1), 200), "pass");
        let unclear = trace(vec![call("payment", "Charge", 1, FAILED), call("payment", "Charge", 2, OK)]);
        assert_eq!(verdict(once, &unclear, 200), "unknown", "the first one may have been carried out");
        assert_eq!(verdict("at least 2 payment/Charge failed", &unclear, 200), "fail");
        assert_eq!(verdict("at least 1 email", &good(), 200), "pass");
    }

    #[test]
    fn a_condition_on_a_call_decides_about_the_status_and_about_other_calls() {
        let charged = "if payment/Charge ok then status 200,201";
        assert_eq!(verdict(charged, &good(), 201), "pass");
        let Decision::Fail(why) = decided(charged, &good(), 500) else { panic!() };
        assert_eq!(why, "call rule 'if payment/Charge ok then status 200,201': the status is 500");
        let declined = trace(vec![call("payment", "Charge", 1, Outcome::Replied { status: 9 })]);
        assert_eq!(verdict(charged, &declined, 500), "pass");
        assert_eq!(verdict("if payment/Charge failed then status 402", &declined, 500), "fail");
        assert_eq!(verdict("if payment/Charge ok then shipping/Ship ok", &good(), 200), "pass");
        let unshipped = trace(vec![call("payment", "Charge", 1, OK)]);
        assert_eq!(verdict("if payment/Charge ok then shipping/Ship ok", &unshipped, 200), "fail");
    }

    #[test]
    fn the_order_is_that_of_the_scope_from_which_both_calls_follow() {
        let rule = "shipping/Ship only after payment/Charge ok";
        assert_eq!(verdict(rule, &good(), 200), "pass");
        let early = trace(vec![call("shipping", "Ship", 1, OK), call("payment", "Charge", 2, OK)]);
        let Decision::Fail(why) = decided(rule, &early, 200) else { panic!() };
        assert!(why.ends_with("shipping/Ship was called before"), "{why}");
        let concurrent = trace(vec![
            Call { ended_us: Some(30), ..call("payment", "Charge", 1, OK) },
            call("shipping", "Ship", 2, OK),
        ]);
        assert_eq!(verdict(rule, &concurrent, 200), "fail", "the charge had not ended");
        let nested = trace(vec![
            Call {
                scope: Some(scope("billing", vec![call("payment", "Charge", 9, OK)])),
                ..call("billing", "Bill", 1, OK)
            },
            Call { scope: Some(scope("ware", vec![call("shipping", "Ship", 1, OK)])), ..call("ware", "Pack", 2, OK) },
        ]);
        assert_eq!(verdict(rule, &nested, 200), "pass");
        let inside = Call {
            scope: Some(scope("payment", vec![call("shipping", "Ship", 9, OK)])),
            ..call("payment", "Charge", 1, OK)
        };
        assert_eq!(verdict(rule, &trace(vec![inside]), 200), "fail", "the charge is still being made");
        let failed = trace(vec![call("payment", "Charge", 1, FAILED), call("shipping", "Ship", 2, OK)]);
        assert_eq!(verdict(rule, &failed, 200), "fail");
        assert_eq!(verdict(rule, &trace(Vec::new()), 200), "pass");
    }

    fn unscoped(trace: &mut Trace, peer: &str, name: &str) {
        trace.entry.scope.as_mut().unwrap().unscoped.push(UnscopedCalls {
            name: name.into(),
            peer: peer.into(),
            protocol: Protocol::Grpc,
            count: 1,
            site: String::new(),
        });
    }

    /// Decision 0040: no verdict rests on the absence of a call from a trace that may lack it, or on an inherited call.
    #[test]
    fn nothing_is_concluded_from_missing_and_inherited_calls() {
        let without = trace(vec![call("shipping", "Ship", 1, OK)]);
        let rules = [
            "at least 1 payment/Charge",
            "shipping/Ship only after payment/Charge",
            "if shipping/Ship ok then payment/Charge ok",
        ];
        for rule in rules {
            assert_eq!(verdict(rule, &without, 200), "fail", "{rule}");
            let mut other = without.clone();
            unscoped(&mut other, "ads", "/shop.Ads/Get");
            assert_eq!(verdict(rule, &other, 200), "unknown", "{rule}: ads may have called payment");
            let mut truncated = without.clone();
            truncated.entry.scope.as_mut().unwrap().truncated = true;
            assert_eq!(verdict(rule, &truncated, 200), "unknown", "{rule}");
            let mut gap = without.clone();
            gap.entry.scope.as_mut().unwrap().calls[0].gap = true;
            assert_eq!(verdict(rule, &gap, 200), "unknown", "{rule}");
            let mut inherited = without.clone();
            let charge = Call { inherited: true, ..call("payment", "Charge", 0, OK) };
            inherited.entry.scope.as_mut().unwrap().calls.insert(0, charge);
            assert_ne!(verdict(rule, &inherited, 200), "fail", "{rule}");
        }
        let most = "at most 1 payment/Charge";
        let mut counted = good();
        unscoped(&mut counted, "payment", "/shop.Service/Charge");
        assert_eq!(verdict(most, &counted, 200), "unknown");
        let mut other = good();
        unscoped(&mut other, "email", "/shop.Service/Send");
        assert_eq!(verdict(most, &other, 200), "pass", "email makes no such call in the good run");
        let mut elsewhere = good();
        unscoped(&mut elsewhere, "audit", "/shop.Service/Log");
        assert_eq!(verdict(most, &elsewhere, 200), "unknown", "nothing is known of audit");
        let mut inherited = good();
        let second = Call { inherited: true, ..call("payment", "Charge", 4, OK) };
        inherited.entry.scope.as_mut().unwrap().calls.push(second);
        assert_eq!(verdict(most, &inherited, 200), "unknown");
        let only = trace(vec![Call { inherited: true, ..call("payment", "Charge", 1, OK) }]);
        assert_eq!(verdict("if payment/Charge ok then status 200", &only, 500), "unknown");
        let mut unanswered = good();
        unanswered.entry.scope = None;
        assert_eq!(verdict(most, &unanswered, 500), "unknown");
    }

    #[test]
    fn a_lost_reply_hides_only_what_its_callee_calls_in_the_good_run() {
        let lost = |callee: &str| {
            let mut lost = call(callee, "Get", 1, FAILED);
            (lost.gap, lost.fault) = (true, Some(1));
            trace(vec![lost])
        };
        assert_eq!(verdict("at most 1 payment/Charge", &lost("email"), 200), "pass");
        assert_eq!(verdict("at most 1 payment/Charge", &lost("unseen"), 200), "unknown");
        assert_eq!(verdict("at least 1 payment/Charge", &lost("email"), 200), "unknown");
        // a fault that kept the call from being sent hides nothing
        let mut blocked = lost("unseen");
        blocked.entry.scope.as_mut().unwrap().calls[0].fault = Some(0);
        assert_eq!(verdict("at least 1 payment/Charge", &blocked, 200), "fail");
    }
}
