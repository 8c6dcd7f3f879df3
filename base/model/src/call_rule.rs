//! Rules about the calls of a request: one line of text per rule, and back.
//!
//! ```text
//! at most N CALLS              at most 1 payment/Charge
//! at least N CALLS             at least 1 email/Send ok
//! if CALLS then status CODES   if payment/Charge ok then status 200,302
//! if CALLS then CALLS          if payment/Charge ok then shipping/Ship ok
//! CALLS only after CALLS       shipping/Ship only after payment/Charge ok
//!
//! CALLS = [CALLER->]CALLEE[/CALL] [ok|failed]
//! ```
//!
//! Calls are selected as in the fault language (`fault_text.rs`): `*` matches anything, a word without `/` is a callee.
//! `ok` and `failed` are what the caller received. Whether a rule holds is decided in `explore`.

use crate::fault::Selector;
use crate::fault_text::selector;
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallRule {
    AtMost { count: u64, calls: Calls },
    AtLeast { count: u64, calls: Calls },
    Status { calls: Calls, statuses: Vec<u32> },
    Implies { calls: Calls, then: Calls },
    OnlyAfter { calls: Calls, earlier: Calls },
}

/// A set of calls: those that `selector` matches and that ended in this way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calls {
    pub selector: Selector,
    pub result: CallResult,
}

/// What the caller received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallResult {
    Any,
    Ok,
    Failed,
}

/// Why a rule was refused, and the correct form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CallRuleError(String);

fn refuse<T>(text: impl Into<String>) -> Result<T, CallRuleError> {
    Err(CallRuleError(text.into()))
}

const FORMS: &str = "a rule is one of: at most N CALLS; at least N CALLS; if CALLS then status CODES; \
                     if CALLS then CALLS; CALLS only after CALLS";
const THEN: &str = " then ";
const ONLY_AFTER: &str = " only after ";

impl FromStr for CallRule {
    type Err = CallRuleError;

    fn from_str(text: &str) -> Result<CallRule, CallRuleError> {
        let text = text.trim();
        for (words, many) in [("at most ", true), ("at least ", false)] {
            if let Some(rest) = text.strip_prefix(words) {
                let (count, calls) = counted(rest)?;
                return Ok(if many { CallRule::AtMost { count, calls } } else { CallRule::AtLeast { count, calls } });
            }
        }
        if let Some(rest) = text.strip_prefix("if ") {
            let Some((calls, then)) = rest.split_once(THEN) else {
                return refuse(format!("'{text}' has no 'then': if CALLS then status CODES, or if CALLS then CALLS"));
            };
            let calls = calls.parse()?;
            let words = then.split_once("status").filter(|(before, _)| before.trim().is_empty());
            return Ok(
                match words.map(|(_, codes)| codes).filter(|codes| codes.is_empty() || codes.starts_with(' ')) {
                    Some(codes) => CallRule::Status { calls, statuses: statuses(codes)? },
                    None => CallRule::Implies { calls, then: then.parse()? },
                },
            );
        }
        match text.split_once(ONLY_AFTER) {
            Some((calls, earlier)) => Ok(CallRule::OnlyAfter { calls: calls.parse()?, earlier: earlier.parse()? }),
            None => refuse(format!("'{text}' is no rule about calls; {FORMS}")),
        }
    }
}

fn counted(text: &str) -> Result<(u64, Calls), CallRuleError> {
    let (count, calls) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    let count = count
        .parse()
        .map_err(|_| CallRuleError(format!("a number must follow, not '{count}': at most 1 payment/Charge")))?;
    Ok((count, calls.parse()?))
}

fn statuses(text: &str) -> Result<Vec<u32>, CallRuleError> {
    let code = |code: &str| {
        let code = code.trim();
        code.parse().map_err(|_| CallRuleError(format!("'{code}' is not a status code: then status 200,302")))
    };
    text.split(',').map(code).collect()
}

impl FromStr for Calls {
    type Err = CallRuleError;

    fn from_str(text: &str) -> Result<Calls, CallRuleError> {
        let text = text.trim();
        let (name, result) = match text.rsplit_once(' ') {
            Some((name, "ok")) => (name.trim(), CallResult::Ok),
            Some((name, "failed")) => (name.trim(), CallResult::Failed),
            _ => (text, CallResult::Any),
        };
        if name.is_empty() || ["ok", "failed"].contains(&name) {
            return refuse(format!("'{text}' names no call; write it like payment/Charge or payment/Charge ok"));
        }
        if name.ends_with(" ok") || name.ends_with(" failed") {
            return refuse(format!("'{text}' ends with two results"));
        }
        if [THEN, ONLY_AFTER].iter().any(|words| format!(" {name} ").contains(words)) {
            return refuse(format!("'{text}' contains a second condition; write two rules"));
        }
        let selector = selector(name, false).map_err(|error| CallRuleError(error.0))?;
        for service in [&selector.caller, &selector.callee] {
            if service.contains(char::is_whitespace) {
                return refuse(format!("'{service}' is not the name of a service; a call is CALLEE/CALL [ok|failed]"));
            }
        }
        Ok(Calls { selector, result })
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.selector)?;
        f.write_str(match self.result {
            CallResult::Any => "",
            CallResult::Ok => " ok",
            CallResult::Failed => " failed",
        })
    }
}

impl fmt::Display for CallRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallRule::AtMost { count, calls } => write!(f, "at most {count} {calls}"),
            CallRule::AtLeast { count, calls } => write!(f, "at least {count} {calls}"),
            CallRule::Status { calls, statuses } => {
                let codes: Vec<String> = statuses.iter().map(u32::to_string).collect();
                write!(f, "if {calls} then status {}", codes.join(","))
            }
            CallRule::Implies { calls, then } => write!(f, "if {calls} then {then}"),
            CallRule::OnlyAfter { calls, earlier } => write!(f, "{calls} only after {earlier}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_survive_a_round_trip() {
        for text in [
            "at most 1 payment/Charge",
            "at most 20 *",
            "at least 2 email ok",
            "if payment/Charge ok then status 200,302",
            "if checkout->payment/Charge failed then status 402",
            "if payment/Charge ok then shipping/Ship ok",
            "shipping/POST /ships/{id} only after payment/Charge ok",
            "*/Ship only after */Charge",
            "if */GET /a/status 200/b then front/GET /x failed",
        ] {
            let rule: CallRule = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(rule.to_string(), text);
        }
        let loose: CallRule = "  if  payment/Charge  ok  then  status 200 , 302 ".parse().unwrap();
        assert_eq!(loose.to_string(), "if payment/Charge ok then status 200,302");
    }

    #[test]
    fn refusals_name_the_correct_form() {
        for (text, part) in [
            ("", "is no rule about calls"),
            ("payment/Charge", "a rule is one of"),
            ("at most payment/Charge", "a number must follow, not 'payment/Charge'"),
            ("at most -1 payment/Charge", "a number must follow"),
            ("at most 1", "names no call"),
            ("at least 1 ok", "names no call"),
            ("at most 1 payment/Charge ok failed", "two results"),
            ("if payment/Charge ok", "has no 'then'"),
            ("if payment/Charge ok then", "has no 'then'"),
            ("if payment/Charge ok then status", "'' is not a status code"),
            ("if payment/Charge ok then status 2xx", "'2xx' is not a status code"),
            ("if payment/Charge ok then status 200,", "'' is not a status code"),
            ("if a/b ok then c/d ok then e/f ok", "a second condition"),
            ("a/b only after c/d only after e/f", "a second condition"),
            ("only after c/d", "is no rule"),
            ("payment Charge only after c/d", "is not the name of a service"),
        ] {
            let error = text.parse::<CallRule>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    fn service() -> impl Strategy<Value = String> {
        prop_oneof![
            Just(String::new()),
            "[a-z][a-z0-9.-]{0,8}"
                .prop_filter("a word of the grammar", |name| { !["ok", "failed", "status"].contains(&name.as_str()) })
        ]
    }

    fn call() -> impl Strategy<Value = String> {
        prop_oneof![
            Just(String::new()),
            "[A-Z][A-Za-z]{0,8}",
            "/[a-z]{1,5}\\.[A-Z][a-z]{0,5}/[A-Z][a-z]{0,5}",
            "(GET|POST) /[a-z{}*/-]{0,12}",
        ]
    }

    fn calls() -> impl Strategy<Value = Calls> {
        let result = prop_oneof![Just(CallResult::Any), Just(CallResult::Ok), Just(CallResult::Failed)];
        (service(), service(), call(), result)
            .prop_map(|(caller, callee, call, result)| Calls { selector: Selector { caller, callee, call }, result })
    }

    fn rule() -> impl Strategy<Value = CallRule> {
        prop_oneof![
            (0..9u64, calls()).prop_map(|(count, calls)| CallRule::AtMost { count, calls }),
            (0..u64::MAX, calls()).prop_map(|(count, calls)| CallRule::AtLeast { count, calls }),
            (calls(), prop::collection::vec(0..600u32, 1..4))
                .prop_map(|(calls, statuses)| CallRule::Status { calls, statuses }),
            (calls(), calls()).prop_map(|(calls, then)| CallRule::Implies { calls, then }),
            (calls(), calls()).prop_map(|(calls, earlier)| CallRule::OnlyAfter { calls, earlier }),
        ]
    }

    proptest! {
        /// Every rule is read back from its own text as the same rule.
        #[test]
        fn a_rule_is_read_back_from_its_text(rule in rule()) {
            let text = rule.to_string();
            prop_assert_eq!(text.parse::<CallRule>(), Ok(rule), "{}", text);
        }

        /// A text that is accepted has one meaning: that of its normal form.
        #[test]
        fn an_accepted_text_has_one_meaning(text in "(if |at most |at least |)[a-z/ *>0-9-]{0,12}( then | only after | ok| failed| status |)[a-z/* 0-9,]{0,12}( ok| failed|)") {
            if let Ok(rule) = text.parse::<CallRule>() {
                prop_assert_eq!(rule.to_string().parse::<CallRule>(), Ok(rule), "{}", text);
            }
        }
    }
}
