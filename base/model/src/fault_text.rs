//! The fault language: one line of text for one fault, and back.
//!
//! ```text
//! [CALLER->]CALLEE[/CALL][#NTH] KIND [ARG] [after [sent] CALL×TIMES, …] [at most N]
//! currency/Convert unavailable after GetCurrencies×1
//! frontend->currency/Convert#3 status 13
//! catalogue/GET /items/{id} delay 250ms at most 2
//! ```
//!
//! At the beginning, a word without `/` is a callee; after `after` it is a call. `*` matches anything.

use crate::fault::{After, AfterCounts, Fault, FaultKind, Selector};
use std::fmt;
use std::str::FromStr;

/// Why a fault text was refused: the wrong word and the correct form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FaultTextError(pub String);

fn refuse<T>(text: impl Into<String>) -> Result<T, FaultTextError> {
    Err(FaultTextError(text.into()))
}

fn any(text: &str) -> String {
    if text == "*" { String::new() } else { text.to_owned() }
}

pub(crate) fn selector(text: &str, bare_is_call: bool) -> Result<Selector, FaultTextError> {
    let text = text.trim();
    if text.is_empty() {
        return refuse("a fault begins with the call it affects, such as 'currency/Convert'");
    }
    let (caller, rest) = match text.split_once("->") {
        Some((caller, rest)) => (any(caller.trim()), rest.trim()),
        None => (String::new(), text),
    };
    let (callee, call) = match rest.split_once('/') {
        Some((callee, call)) if !callee.contains(' ') => (any(callee), any(call)),
        Some(_) => (String::new(), any(rest)),
        None if bare_is_call => (String::new(), any(rest)),
        None => (any(rest), String::new()),
    };
    for part in [&caller, &callee, &call] {
        if part.len() > 128 {
            return refuse(format!("'{}…' is longer than 128 bytes", part.chars().take(24).collect::<String>()));
        }
    }
    Ok(Selector { caller, callee, call })
}

fn number(text: &str, what: &str) -> Result<u64, FaultTextError> {
    let digits = text.strip_suffix("ms").unwrap_or(text);
    let (digits, scale) = match digits.strip_suffix('s') {
        Some(seconds) => (seconds, 1000),
        None => (digits, 1),
    };
    match digits.parse::<u64>() {
        Ok(n) if n.checked_mul(scale).is_some() => Ok(n * scale),
        _ => refuse(format!("{what} must be a whole number, not '{text}'")),
    }
}

fn after_entries(text: &str) -> Result<Vec<After>, FaultTextError> {
    let mut entries = Vec::new();
    for entry in text.split(',') {
        let entry = entry.trim();
        let (name, times) = match entry.rsplit_once('×') {
            Some((name, times)) => (name, number(times.trim(), "the count after ×")?),
            None => match entry.rsplit_once(" x") {
                Some((name, times)) if times.trim().parse::<u64>().is_ok() => {
                    (name, number(times.trim(), "the count after x")?)
                }
                _ => (entry, 1),
            },
        };
        if times == 0 {
            return refuse(format!("'{entry}': a count of 0 always holds; remove the entry"));
        }
        entries.push(After { selector: selector(name, true)?, times });
    }
    if entries.len() > 8 {
        return refuse("at most 8 'after' entries");
    }
    Ok(entries)
}

impl FromStr for Fault {
    type Err = FaultTextError;

    fn from_str(text: &str) -> Result<Fault, FaultTextError> {
        let text = text.trim();
        let words: Vec<(usize, &str)> = text
            .split(' ')
            .scan(0, |at, word| {
                let start = *at;
                *at += word.len() + 1;
                Some((start, word))
            })
            .filter(|(_, word)| !word.is_empty())
            .collect();
        let Some(at) = words.iter().position(|(_, word)| FaultKind::parse(word).is_some()) else {
            let kinds: Vec<&str> = FaultKind::ALL.iter().map(|k| k.as_str()).collect();
            return refuse(format!("'{text}' contains no kind of fault; kinds: {}", kinds.join(", ")));
        };
        let kind = FaultKind::parse(words[at].1).expect("just found");
        let mut front = text[..words[at].0].trim();
        let mut fault_nth = 0;
        if let Some((name, nth)) = front.rsplit_once('#') {
            fault_nth = number(nth, "the number after #")?;
            if fault_nth == 0 {
                return refuse("#0: calls are counted from 1");
            }
            front = name;
        }
        let mut fault = Fault::new(kind, selector(front, false)?).nth(fault_nth);

        let mut rest = text[words[at].0 + words[at].1.len()..].trim();
        if let Some((head, tail)) = rest.rsplit_once("at most ") {
            fault.max_fires = number(tail.trim(), "the number after 'at most'")?;
            if fault.max_fires == 0 {
                return refuse("'at most 0' never fires");
            }
            rest = head.trim();
        }
        let (arg, after) = match rest.split_once("after ") {
            Some((arg, after)) => (arg.trim(), Some(after.trim())),
            None => match rest.strip_suffix("after") {
                Some(arg) => (arg.trim(), Some("")),
                None => (rest, None),
            },
        };
        if let Some(after) = after {
            let (sent, entries) = match after.strip_prefix("sent ") {
                Some(entries) => (true, entries.trim()),
                None if after == "sent" => (true, ""),
                None => (false, after),
            };
            if entries.is_empty() {
                return refuse("'after' needs a call, such as 'after GetCurrencies×1'");
            }
            fault.after = after_entries(entries)?;
            fault.after_counts = if sent { AfterCounts::Sent } else { AfterCounts::Completed };
        }
        if !arg.is_empty() {
            if !kind.takes_arg() {
                return refuse(format!("'{}' takes no argument: '{arg}'", kind.as_str()));
            }
            fault.arg = number(arg, "the argument")?;
        } else if kind.needs_arg() {
            return refuse(format!(
                "'{}' needs an argument: {}",
                kind.as_str(),
                if kind == FaultKind::Status { "a status code" } else { "milliseconds" }
            ));
        }
        Ok(fault)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.caller.is_empty() {
            write!(f, "{}->", self.caller)?;
        }
        match (self.callee.is_empty(), self.call.is_empty()) {
            (false, true) => f.write_str(&self.callee),
            (true, true) => f.write_str("*"),
            (true, false) => write!(f, "*/{}", self.call),
            (false, false) => write!(f, "{}/{}", self.callee, self.call),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.selector)?;
        if self.nth != 0 {
            write!(f, "#{}", self.nth)?;
        }
        write!(f, " {}", self.kind.as_str())?;
        match self.kind {
            FaultKind::Status => write!(f, " {}", self.arg)?,
            _ if self.arg != 0 => write!(f, " {}ms", self.arg)?,
            _ => {}
        }
        for (i, after) in self.after.iter().enumerate() {
            f.write_str(match (i, self.after_counts) {
                (0, AfterCounts::Completed) => " after ",
                (0, AfterCounts::Sent) => " after sent ",
                _ => ", ",
            })?;
            // after `after` a bare word is a call, so a selector with only a callee keeps its slash
            let s = &after.selector;
            if !s.callee.is_empty() && s.call.is_empty() {
                if !s.caller.is_empty() {
                    write!(f, "{}->", s.caller)?;
                }
                write!(f, "{}/*", s.callee)?;
            } else {
                write!(f, "{s}")?;
            }
            write!(f, "×{}", after.times)?;
        }
        if self.max_fires != 0 {
            write!(f, " at most {}", self.max_fires)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_survive_a_round_trip() {
        for text in [
            "currency/Convert unavailable after */GetCurrencies×1",
            "currency unavailable after currency/*×2, cart/GetCart×1",
            "frontend->currency/Convert#3 status 13",
            "catalogue/GET /items/{id} delay 250ms at most 2",
            "* hang",
            "currency//shop.Currency/Convert lost-reply after sent currency/Convert×3",
        ] {
            let fault: Fault = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(fault.to_string(), text);
        }
    }

    #[test]
    fn a_bare_word_is_a_callee_first_and_a_call_after_after() {
        let fault: Fault = "currency unavailable after GetCurrencies".parse().unwrap();
        assert_eq!(fault.selector.callee, "currency");
        assert_eq!(fault.after[0].selector.call, "GetCurrencies");
        assert_eq!(fault.after[0].times, 1);
    }

    #[test]
    fn error_messages_name_the_correct_form() {
        for (text, part) in [
            ("currency/Convert explode", "kinds: unavailable"),
            ("unavailable", "begins with the call"),
            ("a/b delay", "needs an argument: milliseconds"),
            ("a/b#0 reset", "counted from 1"),
            ("a/b status x", "whole number"),
            ("a/b delay 18446744073709551615s", "whole number"),
            ("a/b unavailable after ", "'after' needs a call"),
            ("a/b delay 5ms after", "'after' needs a call"),
            ("a/b unavailable after sent", "'after' needs a call"),
            ("a/b unavailable 5", "'unavailable' takes no argument: '5'"),
            ("a/b reset x", "takes no argument"),
            ("a/b deadline 5ms", "takes no argument"),
            ("a/b lost-reply 1", "takes no argument"),
            ("a/b empty-reply 1", "takes no argument"),
            ("a/b corrupt-reply 1", "takes no argument"),
        ] {
            let error = text.parse::<Fault>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
