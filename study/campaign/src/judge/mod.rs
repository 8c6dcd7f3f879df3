//! Judges the outcome of one injection: what a client of the program notices (SEI §7.1, table 2).
//!
//! Only deviations of the output trace are manifested errors. Each connection is compared with its golden one, message
//! by message, up to the first difference. That one decides, since a client that notices an error turns elsewhere. Of
//! several connections the worst counts: corrupt, then detected by hardening, then detected otherwise. The rules are
//! frozen in `docs/decisions/0023`; the table in `tests.rs` has a case for each rule, which fails without it.
//!
//! Stricter than the paper's text: an unexpected message counts as detected only if its client can recognize it.

pub mod check;
pub mod command_judge;
pub mod detection_latency;
pub mod dns;
pub mod lines;
pub mod memcached;
pub mod protocol;
#[cfg(test)]
mod tests;

pub use check::Check;
pub use command_judge::CommandJudge;
pub use protocol::{Message, Protocol, Reading};

use bit_flips::engine_messages::WriteOrder;
use detection_latency::WrongReply;
use model::Failure;
use model::campaign::{Deviation, DeviationKind};
use model::flip::{Effect, Ending, Outcome};
use model::flip::{Output, Stream};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::Range;

/// The protocols of `--protocol`.
pub const PROTOCOLS: [&str; 3] = ["lines", "memcached", "dns"];

fn protocol_by_name(name: &str, errors: &[String]) -> Option<Box<dyn Protocol>> {
    Some(match name {
        "lines" => Box::new(lines::Lines { errors: errors.to_vec() }),
        "memcached" => Box::new(memcached::Memcached),
        "dns" => Box::new(dns::Dns),
        _ => return None,
    })
}

/// The rules by which outputs are judged, as a campaign keeps them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// One of [`PROTOCOLS`].
    pub protocol: String,
    /// One of [`check::NAMES`].
    pub check: Option<String>,
    /// The exit status with which a hardened program stops itself.
    pub abort_status: Option<i32>,
    /// What a hardened program writes to its standard error when it stops itself.
    pub abort_marker: Option<String>,
    /// Beginnings of lines that are error messages, for `lines`.
    pub errors: Vec<String>,
    /// A command that judges each deviating output instead.
    pub command: Option<String>,
    /// The exit status of the undisturbed program.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub expect_exit: i32,
}

fn is_zero(status: &i32) -> bool {
    *status == 0
}

impl Rules {
    /// Whether the rules can recognize detection by hardening.
    pub fn recognize_hardening(&self) -> bool {
        self.check.is_some() || self.abort_status.is_some() || self.abort_marker.is_some() || self.command.is_some()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Judgment {
    /// None: the command judge failed, for the reason in `remark`.
    pub outcome: Option<Outcome>,
    pub deviation: Option<Deviation>,
    pub remark: Option<String>,
}

pub struct Judge {
    protocol: Box<dyn Protocol>,
    check: Option<Box<dyn Check>>,
    rules: Rules,
    command: Option<CommandJudge>,
}

/// The difference on one connection, and its byte range.
#[derive(Clone)]
struct Finding {
    deviation: Deviation,
    range: Option<Range<usize>>,
}

impl Judge {
    /// Refuses unknown names of protocols and checks.
    pub fn new(rules: &Rules) -> Result<Judge, Failure> {
        let protocol = protocol_by_name(&rules.protocol, &rules.errors).ok_or_else(|| {
            Failure::request(format!("there is no protocol '{}'", rules.protocol))
                .next(format!("one of: {}", PROTOCOLS.join(", ")))
        })?;
        let check = match &rules.check {
            None => None,
            Some(name) => Some(check::by_name(name).ok_or_else(|| {
                Failure::request(format!("there is no check '{name}'"))
                    .next(format!("one of: {}", check::NAMES.join(", ")))
            })?),
        };
        Ok(Judge { protocol, check, command: rules.command.clone().map(CommandJudge::new), rules: rules.clone() })
    }

    /// Why this golden output cannot serve as the reference: a client would reject it.
    pub fn invalid_reference(&self, golden: &Output) -> Option<String> {
        golden.streams.iter().find_map(|stream| {
            let messages = self.protocol.messages(&stream.bytes);
            let bad = messages.iter().position(|m| {
                let unreadable = matches!(m.reading, Reading::Malformed | Reading::Cut);
                unreadable || self.check.as_ref().is_some_and(|check| !check.holds(&stream.bytes[m.range.clone()]))
            })?;
            let text = excerpt(&stream.bytes[messages[bad].range.clone()], 0);
            let check = self.check.as_ref().map_or(String::new(), |c| format!(" with a right {}", c.name()));
            Some(format!(
                "{}: message {} is not a valid {} message{check}: {text}",
                stream.name,
                bad + 1,
                self.protocol.name()
            ))
        })
    }

    /// The number of messages in an output.
    pub fn messages(&self, output: &Output) -> u64 {
        output.streams.iter().map(|s| self.protocol.messages(&s.bytes).len() as u64).sum()
    }

    /// Judges an output; None is the golden one. `written`: the order in which it was written, if known.
    pub fn judge(
        &self,
        golden: &Output,
        output: Option<&Output>,
        written: Option<&WriteOrder>,
        effect: &Effect,
        stderr: &[u8],
    ) -> Judgment {
        let findings = output.map_or(Vec::new(), |output| self.compare(golden, output));
        let worst = findings.iter().min_by_key(|f| rank(f.deviation.kind)).cloned();
        let Some(Finding { mut deviation, range }) = worst else {
            return Judgment { outcome: Some(Outcome::None), deviation: None, remark: None };
        };
        deviation.connections = findings.len() as u32;
        deviation.corrupt_later = findings.iter().any(|f| f.deviation.corrupt_later);
        let wrong = WrongReply { stream: &deviation.connection, range, whole: deviation.kind != DeviationKind::Short };
        deviation.replies_since = output.zip(written).and_then(|(output, written)| {
            detection_latency::replies_between(self.protocol.as_ref(), output, written, &wrong)
        });
        if let (Some(command), Some(output)) = (&self.command, output) {
            return match command.judge(golden, output, effect, stderr) {
                Ok(outcome) => Judgment { outcome: Some(outcome), deviation: Some(deviation), remark: None },
                Err(why) => Judgment { outcome: None, deviation: Some(deviation), remark: Some(why) },
            };
        }
        let outcome = match deviation.kind {
            DeviationKind::Corrupt => Outcome::Undetected,
            DeviationKind::Checksum => Outcome::Hardening,
            _ if self.aborted(effect, stderr) => Outcome::Hardening,
            _ => Outcome::Otherwise,
        };
        Judgment { outcome: Some(outcome), deviation: Some(deviation), remark: None }
    }

    fn aborted(&self, effect: &Effect, stderr: &[u8]) -> bool {
        let by_status = matches!(effect.ending, Ending::Exit(status) if Some(status) == self.rules.abort_status);
        let marker = self.rules.abort_marker.as_deref().map(str::as_bytes).filter(|m| !m.is_empty());
        by_status || marker.is_some_and(|marker| stderr.windows(marker.len()).any(|part| part == marker))
    }

    /// One finding per differing connection.
    fn compare(&self, golden: &Output, actual: &Output) -> Vec<Finding> {
        let by_name: HashMap<&str, &Stream> = actual.streams.iter().map(|s| (s.name.as_str(), s)).collect();
        let expected_names: HashMap<&str, &Stream> = golden.streams.iter().map(|s| (s.name.as_str(), s)).collect();
        let expected =
            golden.streams.iter().map(|s| (s.name.as_str(), s.bytes.as_slice(), by_name.get(s.name.as_str())));
        let expected =
            expected.map(|(name, golden, actual)| (name, golden, actual.map_or(&[][..], |s| s.bytes.as_slice())));
        let extra = actual.streams.iter().filter(|s| !expected_names.contains_key(s.name.as_str()));
        let extra = extra.map(|s| (s.name.as_str(), &[][..], s.bytes.as_slice()));
        expected.chain(extra).filter_map(|(name, golden, actual)| self.connection(name, golden, actual)).collect()
    }

    fn connection(&self, name: &str, golden: &[u8], actual: &[u8]) -> Option<Finding> {
        if golden == actual {
            return None;
        }
        let expected = self.protocol.messages(golden);
        let pairs = self.pairs(golden, &expected, actual);
        let independent = expected.first().is_some_and(|m| self.protocol.tag(&golden[m.range.clone()]).is_some());
        let mut found: Option<Finding> = None;
        for (index, (reference, got)) in pairs.iter().enumerate() {
            let reference = reference.as_ref().map(|m| &golden[m.range.clone()]);
            let Some(kind) = self.differs(reference, got.as_ref(), actual) else { continue };
            let corrupt = kind == DeviationKind::Corrupt;
            match &mut found {
                Some(first) if !corrupt || first.deviation.kind == DeviationKind::Corrupt => {}
                Some(first) if !independent => first.deviation.corrupt_later = true,
                // the first, or a worse one if answers are independent
                _ => {
                    let range = got.as_ref().map(|m| m.range.clone());
                    let got = range.clone().unwrap_or(actual.len()..actual.len());
                    let reference = reference.unwrap_or_default();
                    let same = reference.iter().zip(&actual[got.clone()]).take_while(|(a, b)| a == b).count();
                    let deviation = Deviation {
                        kind,
                        connection: name.to_owned(),
                        reply: index as u64,
                        replies: expected.len() as u64,
                        byte: (got.start + same) as u64,
                        golden: excerpt(reference, same),
                        actual: excerpt(&actual[got], same),
                        connections: 1,
                        corrupt_later: false,
                        replies_since: None,
                    };
                    found = Some(Finding { deviation, range });
                }
            }
        }
        // the same messages in another order, which a client of such a protocol does not notice
        found
    }

    /// Pairs expected messages with received ones, by their order or by tag.
    fn pairs(&self, golden: &[u8], expected: &[Message], actual: &[u8]) -> Vec<(Option<Message>, Option<Message>)> {
        let mut got: Vec<Option<Message>> = self.protocol.messages(actual).into_iter().map(Some).collect();
        let mut pairs = Vec::with_capacity(expected.len().max(got.len()));
        for (index, reference) in expected.iter().enumerate() {
            let tag = self.protocol.tag(&golden[reference.range.clone()]);
            let position = match tag {
                None => Some(index),
                Some(_) => got.iter().position(|m| {
                    m.as_ref().is_some_and(|m| {
                        m.reading != Reading::Cut && self.protocol.tag(&actual[m.range.clone()]) == tag
                    })
                }),
            };
            let message = position.and_then(|position| got.get_mut(position)).and_then(Option::take);
            pairs.push((Some(reference.clone()), message));
        }
        pairs.extend(got.into_iter().flatten().map(|message| (None, Some(message))));
        pairs
    }

    fn differs(&self, reference: Option<&[u8]>, got: Option<&Message>, actual: &[u8]) -> Option<DeviationKind> {
        let Some(message) = got else { return Some(DeviationKind::Short) };
        let bytes = &actual[message.range.clone()];
        if reference == Some(bytes) {
            return None;
        }
        let last = message.range.end == actual.len();
        let begins = reference.is_some_and(|reference| reference.len() > bytes.len() && reference.starts_with(bytes));
        let answers = match reference {
            Some(reference) => self.protocol.answers(reference, bytes),
            // unsolicited: a client that pairs by tag drops it, another one takes it for the next answer
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

/// The order in which findings on several connections decide.
fn rank(kind: DeviationKind) -> u8 {
    match kind {
        DeviationKind::Corrupt => 0,
        DeviationKind::Checksum => 1,
        DeviationKind::Error | DeviationKind::Rejected | DeviationKind::Short => 2,
    }
}

/// The bytes around `at`, with unprintable ones escaped.
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
