//! The outcome of one injection: what a client of the program noticed (SEI §7.1, table 2).
//!
//! Only deviations of the output trace are manifested errors. Each connection is compared with its golden one, message by message,
//! up to the first that differs: that one decides, since a client that notices something wrong goes on elsewhere. Of several
//! connections the worst counts: corrupt, then detected by hardening, then detected otherwise. The rules are frozen in
//! `docs/decisions/0022`; the table in `tests.rs` has a case for each that fails when its rule is dropped.
//!
//! Where we are stricter than the paper's text: an unexpected message counts as detected only if its client could tell.

pub mod asked;
pub mod check;
pub mod dns;
pub mod lines;
pub mod memcached;
pub mod protocol;
pub mod since;
#[cfg(test)]
mod tests;

pub use asked::Asked;
pub use check::Check;
pub use protocol::{Message, Protocol, Reading};

use bit_flips::protocol::{Output, Stream, Written};
use model::Failure;
use model::campaign::{Deviation, DeviationKind};
use model::flip::{Effect, Ending, Outcome};
use serde::{Deserialize, Serialize};
use since::Wrong;
use std::collections::HashMap;
use std::ops::Range;

/// How outputs are judged, as a campaign keeps it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// One of [`protocol::NAMES`].
    pub protocol: String,
    /// One of [`check::NAMES`].
    pub check: Option<String>,
    /// The exit status with which a hardened program stops itself.
    pub abort_status: Option<i32>,
    /// What a hardened program writes to its standard error when it stops itself.
    pub abort_marker: Option<String>,
    /// Beginnings of lines that are error messages, for `lines`.
    pub errors: Vec<String>,
    /// A command that is asked about each deviating output instead.
    pub command: Option<String>,
}

impl Rules {
    /// Whether anything could be told as detected by hardening.
    pub fn know_hardening(&self) -> bool {
        self.check.is_some() || self.abort_status.is_some() || self.abort_marker.is_some() || self.command.is_some()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// None: the command that was asked gave no answer, for the reason in `remark`.
    pub outcome: Option<Outcome>,
    pub deviation: Option<Deviation>,
    pub remark: Option<String>,
}

pub struct Judge {
    protocol: Box<dyn Protocol>,
    check: Option<Box<dyn Check>>,
    rules: Rules,
    asked: Option<Asked>,
}

/// What differs on one connection, and where there.
#[derive(Clone)]
struct Finding {
    deviation: Deviation,
    range: Option<Range<usize>>,
}

impl Judge {
    /// Refuses names that nothing stands for.
    pub fn new(rules: &Rules) -> Result<Judge, Failure> {
        let protocol = protocol::by_name(&rules.protocol, &rules.errors).ok_or_else(|| {
            Failure::request(format!("there is no protocol '{}'", rules.protocol))
                .next(format!("one of: {}", protocol::NAMES.join(", ")))
        })?;
        let check = match &rules.check {
            None => None,
            Some(name) => Some(check::by_name(name).ok_or_else(|| {
                Failure::request(format!("there is no check '{name}'"))
                    .next(format!("one of: {}", check::NAMES.join(", ")))
            })?),
        };
        Ok(Judge { protocol, check, asked: rules.command.clone().map(Asked::new), rules: rules.clone() })
    }

    /// Why this golden output cannot be compared with: it is itself something a client would reject.
    pub fn objection(&self, golden: &Output) -> Option<String> {
        golden.streams.iter().find_map(|stream| {
            let messages = self.protocol.messages(&stream.bytes);
            let bad = messages.iter().position(|m| {
                let unreadable = matches!(m.reading, Reading::Malformed | Reading::Cut);
                unreadable || self.check.as_ref().is_some_and(|check| !check.holds(&stream.bytes[m.range.clone()]))
            })?;
            let text = excerpt(&stream.bytes[messages[bad].range.clone()], 0);
            let check = self.check.as_ref().map_or(String::new(), |c| format!(" with a right {}", c.name()));
            Some(format!("{}, message {}, is none of {}{check}: {text}", stream.name, bad + 1, self.protocol.name()))
        })
    }

    /// How many messages an output has.
    pub fn messages(&self, output: &Output) -> u64 {
        output.streams.iter().map(|s| self.protocol.messages(&s.bytes).len() as u64).sum()
    }

    /// `seen`: None is the golden output. `written`: when, if it is known.
    pub fn judge(
        &self,
        golden: &Output,
        seen: Option<&Output>,
        written: Option<&Written>,
        effect: &Effect,
        stderr: &[u8],
    ) -> Judgement {
        let findings = seen.map_or(Vec::new(), |seen| self.compare(golden, seen));
        let worst = findings.iter().min_by_key(|f| rank(f.deviation.kind)).cloned();
        let Some(Finding { mut deviation, range }) = worst else {
            return Judgement { outcome: Some(Outcome::None), deviation: None, remark: None };
        };
        deviation.connections = findings.len() as u32;
        deviation.corrupt_later = findings.iter().any(|f| f.deviation.corrupt_later);
        let wrong = Wrong { stream: &deviation.connection, range, whole: deviation.kind != DeviationKind::Short };
        deviation.replies_since =
            seen.zip(written).and_then(|(seen, written)| since::replies(self.protocol.as_ref(), seen, written, &wrong));
        if let (Some(asked), Some(seen)) = (&self.asked, seen) {
            return match asked.ask(golden, seen, effect, stderr) {
                Ok(outcome) => Judgement { outcome: Some(outcome), deviation: Some(deviation), remark: None },
                Err(why) => Judgement { outcome: None, deviation: Some(deviation), remark: Some(why) },
            };
        }
        let outcome = match deviation.kind {
            DeviationKind::Corrupt => Outcome::Undetected,
            DeviationKind::Checksum => Outcome::Hardening,
            _ if self.stopped_itself(effect, stderr) => Outcome::Hardening,
            _ => Outcome::Otherwise,
        };
        Judgement { outcome: Some(outcome), deviation: Some(deviation), remark: None }
    }

    fn stopped_itself(&self, effect: &Effect, stderr: &[u8]) -> bool {
        let by_status = matches!(effect.ending, Ending::Exit(status) if Some(status) == self.rules.abort_status);
        let marker = self.rules.abort_marker.as_deref().map(str::as_bytes).filter(|m| !m.is_empty());
        by_status || marker.is_some_and(|marker| stderr.windows(marker.len()).any(|part| part == marker))
    }

    /// What differs, one finding per differing connection.
    fn compare(&self, golden: &Output, seen: &Output) -> Vec<Finding> {
        let by_name: HashMap<&str, &Stream> = seen.streams.iter().map(|s| (s.name.as_str(), s)).collect();
        let known: HashMap<&str, &Stream> = golden.streams.iter().map(|s| (s.name.as_str(), s)).collect();
        let expected =
            golden.streams.iter().map(|s| (s.name.as_str(), s.bytes.as_slice(), by_name.get(s.name.as_str())));
        let expected =
            expected.map(|(name, golden, seen)| (name, golden, seen.map_or(&[][..], |s| s.bytes.as_slice())));
        let extra = seen.streams.iter().filter(|s| !known.contains_key(s.name.as_str()));
        let extra = extra.map(|s| (s.name.as_str(), &[][..], s.bytes.as_slice()));
        expected.chain(extra).filter_map(|(name, golden, seen)| self.connection(name, golden, seen)).collect()
    }

    fn connection(&self, name: &str, golden: &[u8], seen: &[u8]) -> Option<Finding> {
        if golden == seen {
            return None;
        }
        let expected = self.protocol.messages(golden);
        let pairs = self.pairs(golden, &expected, seen);
        let apart = expected.first().is_some_and(|m| self.protocol.tag(&golden[m.range.clone()]).is_some());
        let mut found: Option<Finding> = None;
        for (index, (wanted, got)) in pairs.iter().enumerate() {
            let wanted = wanted.as_ref().map(|m| &golden[m.range.clone()]);
            let Some(kind) = self.differs(wanted, got.as_ref(), seen) else { continue };
            let corrupt = kind == DeviationKind::Corrupt;
            match &mut found {
                Some(first) if !corrupt || first.deviation.kind == DeviationKind::Corrupt => {}
                Some(first) if !apart => first.deviation.corrupt_later = true,
                // the first, or a worse one where each answer stands for itself
                _ => {
                    let range = got.as_ref().map(|m| m.range.clone());
                    let got = range.clone().unwrap_or(seen.len()..seen.len());
                    let wanted = wanted.unwrap_or_default();
                    let same = wanted.iter().zip(&seen[got.clone()]).take_while(|(a, b)| a == b).count();
                    let deviation = Deviation {
                        kind,
                        connection: name.to_owned(),
                        reply: index as u64,
                        replies: expected.len() as u64,
                        byte: (got.start + same) as u64,
                        golden: excerpt(wanted, same),
                        seen: excerpt(&seen[got], same),
                        connections: 1,
                        corrupt_later: false,
                        replies_since: None,
                    };
                    found = Some(Finding { deviation, range });
                }
            }
        }
        // equal messages in another order: nothing a client of such a protocol could tell
        found
    }

    /// Which message answers which question: by their order, or by tag.
    fn pairs(&self, golden: &[u8], expected: &[Message], seen: &[u8]) -> Vec<(Option<Message>, Option<Message>)> {
        let mut got: Vec<Option<Message>> = self.protocol.messages(seen).into_iter().map(Some).collect();
        let mut pairs = Vec::with_capacity(expected.len().max(got.len()));
        for (index, wanted) in expected.iter().enumerate() {
            let tag = self.protocol.tag(&golden[wanted.range.clone()]);
            let place = match tag {
                None => Some(index),
                Some(_) => got.iter().position(|m| {
                    m.as_ref()
                        .is_some_and(|m| m.reading != Reading::Cut && self.protocol.tag(&seen[m.range.clone()]) == tag)
                }),
            };
            let message = place.and_then(|place| got.get_mut(place)).and_then(Option::take);
            pairs.push((Some(wanted.clone()), message));
        }
        pairs.extend(got.into_iter().flatten().map(|message| (None, Some(message))));
        pairs
    }

    fn differs(&self, wanted: Option<&[u8]>, got: Option<&Message>, seen: &[u8]) -> Option<DeviationKind> {
        let Some(message) = got else { return Some(DeviationKind::Short) };
        let bytes = &seen[message.range.clone()];
        if wanted == Some(bytes) {
            return None;
        }
        let last = message.range.end == seen.len();
        let begins = wanted.is_some_and(|wanted| wanted.len() > bytes.len() && wanted.starts_with(bytes));
        let answers = match wanted {
            Some(wanted) => self.protocol.answers(wanted, bytes),
            // nobody asked: whoever pairs answers with questions drops it, whoever reads on takes it for the next one
            None => self.protocol.tag(bytes).is_none(),
        };
        Some(match message.reading {
            Reading::Cut => DeviationKind::Short,
            _ if last && begins => DeviationKind::Short,
            _ if self.check.as_ref().is_some_and(|check| !check.holds(bytes)) => DeviationKind::Checksum,
            Reading::Error => DeviationKind::Error,
            Reading::Malformed => DeviationKind::Rejected,
            Reading::Good if answers => DeviationKind::Corrupt,
            Reading::Good => DeviationKind::Rejected,
        })
    }
}

/// Of several connections, which decides.
fn rank(kind: DeviationKind) -> u8 {
    match kind {
        DeviationKind::Corrupt => 0,
        DeviationKind::Checksum => 1,
        DeviationKind::Error | DeviationKind::Rejected | DeviationKind::Short => 2,
    }
}

/// The bytes around `at`, with everything unprintable spelled out.
fn excerpt(bytes: &[u8], at: usize) -> String {
    let begin = at.saturating_sub(Deviation::EXCERPT / 4).min(bytes.len());
    let end = bytes.len().min(begin + Deviation::EXCERPT);
    let mut text = bytes[begin..end].escape_ascii().to_string();
    if text.len() > Deviation::EXCERPT {
        text.truncate(Deviation::EXCERPT);
    }
    let dots = |cut: bool| if cut { "…" } else { "" };
    format!("{}{text}{}", dots(begin > 0), dots(end < bytes.len() || text.len() == Deviation::EXCERPT))
}
