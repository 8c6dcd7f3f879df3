//! Answers of a name server, each preceded by its length in two big-endian bytes, as in DNS over TCP (RFC 1035 §4.2.2).
//!
//! A resolver drops messages that it cannot parse or that do not answer its question (id, question, answer bit), and it
//! tries another server after FORMERR, SERVFAIL, NOTIMP, REFUSED or a truncated answer. It accepts a well-formed wrong
//! answer, including `no such name`. Answers arrive in any order: an id pairs each with its question.

use super::protocol::{Message, Protocol, Reading};
use std::ops::Range;

pub struct Dns;

const HEADER: usize = 12;
/// More compression pointers than this in a name form a loop.
const JUMPS_MAX: u32 = 128;
const ANSWER: u8 = 0x80;
const TRUNCATED: u8 = 0x02;
const NO_SUCH_NAME: u8 = 3;

impl Protocol for Dns {
    fn name(&self) -> &'static str {
        "dns"
    }

    fn messages(&self, bytes: &[u8]) -> Vec<Message> {
        let mut messages = Vec::new();
        let mut begin = 0;
        while begin < bytes.len() {
            let whole = bytes.get(begin..begin + 2).map(|n| begin + 2 + usize::from(u16::from_be_bytes([n[0], n[1]])));
            let (end, reading) = match whole {
                Some(end) if end <= bytes.len() => (end, read(&bytes[begin + 2..end])),
                _ => (bytes.len(), Reading::Cut),
            };
            messages.push(Message { range: begin..end, reading });
            begin = end;
        }
        messages
    }

    fn answers(&self, golden: &[u8], actual: &[u8]) -> bool {
        let question =
            |framed: &'_ [u8]| framed.get(2..).and_then(|m| questions(m).map(|range| (m[2] & 0x78, m[range].to_vec())));
        self.tag(golden) == self.tag(actual) && question(golden).is_some() && question(golden) == question(actual)
    }

    fn tag<'a>(&self, message: &'a [u8]) -> Option<&'a [u8]> {
        message.get(2..4)
    }
}

fn read(message: &[u8]) -> Reading {
    if parse(message).is_none() {
        return Reading::Malformed;
    }
    match message[3] & 0x0f {
        _ if message[2] & TRUNCATED != 0 => Reading::Error,
        0 | NO_SUCH_NAME => Reading::Good,
        _ => Reading::Error,
    }
}

fn number(message: &[u8], at: usize) -> Option<usize> {
    message.get(at..at + 2).map(|n| usize::from(u16::from_be_bytes([n[0], n[1]])))
}

/// The end of the name at `at` in the message.
fn name(message: &[u8], at: usize) -> Option<usize> {
    let (mut at, mut end, mut length) = (at, None, 0);
    for _ in 0..JUMPS_MAX {
        match *message.get(at)? {
            0 => return Some(end.unwrap_or(at + 1)),
            label @ 1..=63 => {
                length += usize::from(label) + 1;
                if length > 254 {
                    return None;
                }
                at += 1 + usize::from(label);
            }
            0xc0.. => {
                end = end.or(Some(at + 2));
                at = number(message, at)? & 0x3fff;
            }
            _ => return None,
        }
    }
    None
}

/// The bytes of all questions. None if they are incomplete.
fn questions(message: &[u8]) -> Option<Range<usize>> {
    let mut at = HEADER;
    for _ in 0..number(message, 4)? {
        at = name(message, at)? + 4;
    }
    (at <= message.len()).then_some(HEADER..at)
}

/// Parses everything that a resolver parses before it accepts an answer. Ignores bytes after the last record, as
/// resolvers do.
fn parse(message: &[u8]) -> Option<()> {
    if message.len() < HEADER || message[2] & ANSWER == 0 {
        return None;
    }
    let records: usize = [6, 8, 10].iter().map(|at| number(message, *at)).sum::<Option<usize>>()?;
    let mut at = questions(message)?.end;
    for _ in 0..records {
        at = name(message, at)?;
        let (kind, length) = (number(message, at)?, number(message, at + 8)?);
        at += 10 + length;
        let sized = match kind {
            1 => length == 4,   // an IPv4 address
            28 => length == 16, // an IPv6 address
            _ => true,
        };
        if at > message.len() || !sized {
            return None;
        }
    }
    Some(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A framed answer `a.b A 10.0.0.last`, its name compressed.
    pub fn answer(id: u16, last: u8) -> Vec<u8> {
        let mut message = id.to_be_bytes().to_vec();
        message.extend([0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        message.extend(b"\x01a\x01b\x00\x00\x01\x00\x01");
        message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 0, 0, last]);
        framed(&message)
    }

    pub fn framed(message: &[u8]) -> Vec<u8> {
        let mut out = (message.len() as u16).to_be_bytes().to_vec();
        out.extend(message);
        out
    }

    fn reading(framed: &[u8]) -> Reading {
        Dns.messages(framed)[0].reading
    }

    fn with(at: usize, byte: u8) -> Vec<u8> {
        let mut message = answer(7, 1);
        message[2 + at] = byte;
        message
    }

    #[test]
    fn an_answer_is_classified_as_by_a_resolver() {
        assert_eq!(reading(&answer(7, 1)), Reading::Good);
        assert_eq!(reading(&with(3, 0x83)), Reading::Good, "no such name is an answer");
        for rcode in [1, 2, 4, 5, 9] {
            assert_eq!(reading(&with(3, 0x80 | rcode)), Reading::Error, "{rcode}");
        }
        assert_eq!(reading(&with(2, 0x83)), Reading::Error, "truncated");
        assert_eq!(reading(&with(2, 0x01)), Reading::Malformed, "a question");
        assert_eq!(reading(&with(7, 2)), Reading::Malformed, "a record that is not there");
        assert_eq!(reading(&with(12, 64)), Reading::Malformed, "no label");
        assert_eq!(reading(&with(21, 0xff)), Reading::Malformed, "a pointer out of the message");
        assert_eq!(reading(&with(22, 21)), Reading::Malformed, "a pointer to itself");
        assert_eq!(reading(&with(32, 3)), Reading::Malformed, "an address of three bytes");
        assert_eq!(reading(&answer(7, 1)[..20]), Reading::Cut);
    }

    #[test]
    fn an_answer_belongs_to_its_question() {
        assert!(Dns.answers(&answer(7, 1), &answer(7, 2)));
        assert!(!Dns.answers(&answer(7, 1), &answer(8, 1)));
        assert!(!Dns.answers(&answer(7, 1), &with(13, b'c')), "another name");
        assert!(!Dns.answers(&answer(7, 1), &with(18, 28)), "another type");
        assert!(!Dns.answers(&answer(7, 1), &with(2, 0x89)), "another operation");
    }

    #[test]
    fn messages_of_damaged_answers_have_no_gaps() {
        let bytes = [answer(1, 1), answer(2, 2)].concat();
        for at in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            let end = Dns.messages(&damaged).iter().fold(0, |end, m| {
                assert!(m.range.start == end && m.range.end > end);
                m.range.end
            });
            assert_eq!(end, damaged.len());
        }
    }
}
