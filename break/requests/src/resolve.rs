//! Checks whether a fault can take effect. A fault that matches no recorded call would make the verdict unknown, so it
//! is refused before anything is sent, with a list of the calls that exist.

use model::trace::{Call, Trace};
use model::{Failure, Fault, Selector, edit_distance};
use wire::select::{call_matches, callee_matches, matches};

/// The callee's name for a selector that the caller's SDK can match: at the send it only has the name of its peer.
pub fn callee_at_sender(call: &Call) -> &str {
    if callee_matches(&call.callee, &call.peer) { &call.callee } else { &call.peer }
}

/// The same for the call's name: the label if it selects this call, else the caller's own name.
pub fn name_at_sender(call: &Call) -> &str {
    if call_matches(call.label(), &call.name) { call.label() } else { &call.name }
}

fn for_sender(selector: &Selector, calls: &[&Call]) -> Selector {
    let matches_at_sender = |call: &&&Call| matches(selector, &call.caller, &call.peer, &call.name);
    if calls.iter().any(|call| matches_at_sender(&call)) {
        return selector.clone();
    }
    let Some(call) = calls.iter().find(|call| selects(selector, call)) else {
        return selector.clone();
    };
    let part = |selected: &str, at_sender: &str| {
        if selected.is_empty() { String::new() } else { at_sender.to_owned() }
    };
    Selector {
        caller: selector.caller.clone(),
        callee: part(&selector.callee, callee_at_sender(call)),
        call: part(&selector.call, name_at_sender(call)),
    }
}

/// Checks the faults and replaces names that only callees use by the names that their callers use.
pub fn resolve(faults: &[Fault], trace: &Trace) -> Result<Vec<Fault>, Failure> {
    check(faults, trace)?;
    let calls = trace.walk();
    let mut resolved = faults.to_vec();
    for fault in &mut resolved {
        fault.selector = for_sender(&fault.selector, &calls);
        for after in &mut fault.after {
            after.selector = for_sender(&after.selector, &calls);
        }
    }
    Ok(resolved)
}

/// Whether `selector` matches this call, by its caller's names or by the callee's own.
pub fn selects(selector: &Selector, call: &Call) -> bool {
    let names = [call.name.as_str(), call.label()];
    let peers = [call.peer.as_str(), call.callee.as_str()];
    names.iter().any(|name| peers.iter().any(|peer| matches(selector, &call.caller, peer, name)))
}

/// Refuses (verdict unknown) the first fault, or prerequisite, that matches no call of the trace.
pub fn check(faults: &[Fault], trace: &Trace) -> Result<(), Failure> {
    let calls = trace.walk();
    for fault in faults {
        let hits = calls.iter().filter(|call| selects(&fault.selector, call)).count() as u64;
        if hits == 0 {
            return Err(no_match(&format!("fault '{fault}'"), &fault.selector, &calls));
        }
        if fault.nth > hits {
            return Err(Failure::unknown(format!("fault '{fault}' selects call {} of {hits}", fault.nth))
                .why(format!("the recorded request makes {hits} such call{}", if hits == 1 { "" } else { "s" })));
        }
        for after in &fault.after {
            let count = calls.iter().filter(|call| selects(&after.selector, call)).count() as u64;
            if count == 0 {
                return Err(no_match(
                    &format!("the prerequisite '{}' of fault '{fault}'", after.selector),
                    &after.selector,
                    &calls,
                ));
            }
            if count < after.times {
                return Err(Failure::unknown(format!(
                    "the prerequisite '{}×{}' of fault '{fault}' never holds",
                    after.selector, after.times
                ))
                .why(format!("the recorded request makes {count} such call{}", if count == 1 { "" } else { "s" })));
            }
        }
    }
    Ok(())
}

fn no_match(what: &str, selector: &Selector, calls: &[&Call]) -> Failure {
    let failure = Failure::unknown(format!("{what} matches no call in the recorded request"));
    if calls.is_empty() {
        return failure.why("the recorded request makes no calls at all");
    }
    let mut callees: Vec<&str> = calls.iter().map(|c| c.callee.as_str()).collect();
    dedup(&mut callees);
    let is_callee = selector.callee.is_empty() || calls.iter().any(|c| selects(&Selector::callee(&selector.callee), c));
    if !is_callee {
        let failure = failure.why(format!("services called: {}", callees.join(", ")));
        return match closest(&selector.callee, &callees) {
            Some(name) => {
                failure.next(format!("did you mean '{}'?", Selector { callee: name.into(), ..selector.clone() }))
            }
            None => failure,
        };
    }
    let mut names: Vec<&str> = calls
        .iter()
        .filter(|c| selector.callee.is_empty() || selects(&Selector::callee(&selector.callee), c))
        .map(|c| c.label())
        .collect();
    dedup(&mut names);
    let scope = if selector.callee.is_empty() {
        "recorded calls".to_owned()
    } else {
        format!("recorded calls to {}", selector.callee)
    };
    let failure = failure.why(format!("{scope}: {}", names.join(", ")));
    match closest(&selector.call, &names) {
        Some(name) => failure.next(format!("did you mean '{}'?", Selector { call: name.into(), ..selector.clone() })),
        None => failure,
    }
}

fn dedup(names: &mut Vec<&str>) {
    let mut unique = std::collections::HashSet::new();
    names.retain(|name| unique.insert(*name));
}

fn closest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    let best = names.iter().map(|other| (edit_distance(&name.to_lowercase(), &other.to_lowercase()), *other)).min()?;
    (!name.is_empty() && best.0 <= name.len() / 2).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::tests::home;

    #[test]
    fn a_misspelled_call_is_refused_with_the_right_one() {
        let failure = check(&["currency/Convrt unavailable".parse().unwrap()], &home()).unwrap_err();
        assert_eq!(
            failure.to_string(),
            "error: fault 'currency/Convrt unavailable' matches no call in the recorded request\n  \
             recorded calls to currency: GetCurrencies, Convert\n  next: did you mean 'currency/Convert'?"
        );
        assert_eq!(failure.exit(), model::Exit::Unknown);
    }

    #[test]
    fn a_callee_selected_by_its_own_name_is_faulted_by_its_address() {
        let mut trace = home();
        for call in &mut trace.entry.scope.as_mut().unwrap().calls {
            call.peer = "127.0.0.1:7001".into();
        }
        let resolved = resolve(&["currency/Convert unavailable after GetCurrencies".parse().unwrap()], &trace).unwrap();
        assert_eq!(resolved[0].to_string(), "127.0.0.1:7001/Convert unavailable after */GetCurrencies×1");
    }

    #[test]
    fn an_unknown_service_and_an_unreachable_prerequisite_are_refused() {
        let failure = check(&["curency unavailable".parse().unwrap()], &home()).unwrap_err().to_string();
        assert!(failure.contains("did you mean 'currency'?"), "{failure}");
        let failure =
            check(&["currency unavailable after GetCurrencies×2".parse().unwrap()], &home()).unwrap_err().to_string();
        assert!(failure.contains("never holds"), "{failure}");
        check(&["currency unavailable after GetCurrencies".parse().unwrap()], &home()).unwrap();
        assert!(
            check(&["currency/Convert#4 reset".parse().unwrap()], &home())
                .unwrap_err()
                .to_string()
                .contains("call 4 of 3")
        );
    }
}
