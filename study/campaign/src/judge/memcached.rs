//! Replies of memcached's text protocol, as a client library parses them.
//!
//! It detects a line that the protocol does not define, a `VALUE` with an invalid length or whose data do not end
//! there, a missing `END`, an answer that does not fit the command (`STORED` to a `get`), and the three error lines. It
//! does not detect wrong data of the right length, another key, other flags, a miss instead of a hit, or another
//! number.

use super::protocol::{Message, Protocol, Reading};

pub struct Memcached;

const LINE_MAX: usize = 2048;
const KEY_MAX: usize = 250;

/// First words of the possible answers to one command. `#` is a number.
const COMMANDS: [&[&str]; 9] = [
    &["VALUE", "END"],
    &["STORED", "NOT_STORED", "EXISTS", "NOT_FOUND"],
    &["DELETED", "NOT_FOUND"],
    &["TOUCHED", "NOT_FOUND"],
    &["#", "NOT_FOUND"],
    &["OK", "RESET"],
    &["VERSION"],
    &["STAT", "END"],
    &["HD", "EN", "VA", "NF", "NS", "EX", "MN", "ME"],
];

impl Protocol for Memcached {
    fn name(&self) -> &'static str {
        "memcached"
    }

    fn messages(&self, bytes: &[u8]) -> Vec<Message> {
        let mut messages = Vec::new();
        let mut begin = 0;
        while begin < bytes.len() {
            let (length, reading) = reply(&bytes[begin..]);
            messages.push(Message { range: begin..begin + length, reading });
            begin += length;
        }
        messages
    }

    fn answers(&self, golden: &[u8], actual: &[u8]) -> bool {
        let (golden, actual) = (first_word(golden), first_word(actual));
        COMMANDS.iter().any(|words| words.contains(&golden) && words.contains(&actual))
    }
}

fn first_word(reply: &[u8]) -> &str {
    let end = reply.iter().position(|b| b.is_ascii_whitespace()).unwrap_or(reply.len());
    match std::str::from_utf8(&reply[..end]) {
        Ok(word) if !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit()) => "#",
        Ok(word) => word,
        Err(_) => "",
    }
}

/// Why a reply cannot be parsed. The client then closes the connection, so nothing after it is parsed.
struct Stop(Reading);

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A line without its line ending.
    fn line(&mut self) -> Result<&'a str, Stop> {
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.iter().take(LINE_MAX).position(|b| *b == b'\n') else {
            return Err(Stop(if rest.len() < LINE_MAX { Reading::Cut } else { Reading::Malformed }));
        };
        self.at += end + 1;
        let line = rest[..end].strip_suffix(b"\r").ok_or(Stop(Reading::Malformed))?;
        std::str::from_utf8(line).map_err(|_| Stop(Reading::Malformed))
    }

    fn data(&mut self, length: usize) -> Result<(), Stop> {
        let rest = &self.bytes[self.at..];
        let end = length.checked_add(2).ok_or(Stop(Reading::Malformed))?;
        if rest.len() < end {
            return Err(Stop(Reading::Cut));
        }
        self.at += end;
        if &rest[length..end] == b"\r\n" { Ok(()) } else { Err(Stop(Reading::Malformed)) }
    }
}

/// Length and classification of the first reply in `bytes`, which must not be empty.
fn reply(bytes: &[u8]) -> (usize, Reading) {
    let mut reader = Reader { bytes, at: 0 };
    match read(&mut reader) {
        Ok(reading) => (reader.at, reading),
        Err(Stop(reading)) => (bytes.len(), reading),
    }
}

fn read(reader: &mut Reader) -> Result<Reading, Stop> {
    let mut line = reader.line()?;
    if is_error(line) {
        return Ok(Reading::Error);
    }
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "VALUE" | "STAT" => loop {
            match line.split_once(' ').unwrap_or((line, "")) {
                ("END", "") => return Ok(Reading::Good),
                ("VALUE", fields) if word == "VALUE" => reader.data(value(fields)?)?,
                ("STAT", fields) if word == "STAT" && !fields.is_empty() => {}
                // memcached may run out of memory between two values
                _ if is_error(line) => return Ok(Reading::Error),
                _ => return Err(Stop(Reading::Malformed)),
            }
            line = reader.line()?;
        },
        "VA" => {
            let length = rest.split(' ').next().and_then(|n| n.parse().ok()).ok_or(Stop(Reading::Malformed))?;
            reader.data(length).map(|()| Reading::Good)
        }
        "END" | "STORED" | "NOT_STORED" | "EXISTS" | "NOT_FOUND" | "DELETED" | "TOUCHED" | "OK" | "RESET"
            if rest.is_empty() =>
        {
            Ok(Reading::Good)
        }
        "VERSION" | "HD" | "EN" | "NF" | "NS" | "EX" | "MN" | "ME" => Ok(Reading::Good),
        // memcached pads a number that became shorter with spaces
        _ if line.trim_end_matches(' ').parse::<u64>().is_ok() => Ok(Reading::Good),
        _ => Err(Stop(Reading::Malformed)),
    }
}

fn is_error(line: &str) -> bool {
    line == "ERROR" || line.starts_with("CLIENT_ERROR ") || line.starts_with("SERVER_ERROR ")
}

/// The length in `key flags length [cas]`.
fn value(fields: &str) -> Result<usize, Stop> {
    let fields: Vec<&str> = fields.split(' ').collect();
    let numbers = |texts: &[&str]| texts.iter().all(|t| t.parse::<u64>().is_ok());
    match fields.as_slice() {
        [key, flags, length, cas @ ..]
            if (1..=KEY_MAX).contains(&key.len())
                && !key.bytes().any(|b| b.is_ascii_control())
                && flags.parse::<u32>().is_ok()
                && cas.len() <= 1
                && numbers(cas) =>
        {
            length.parse::<u32>().map(|n| n as usize).map_err(|_| Stop(Reading::Malformed))
        }
        _ => Err(Stop(Reading::Malformed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(bytes: &[u8]) -> Vec<(usize, Reading)> {
        Memcached.messages(bytes).iter().map(|m| (m.range.len(), m.reading)).collect()
    }

    #[test]
    fn replies_are_split_as_by_a_client() {
        use Reading::{Cut, Error, Good, Malformed};
        for (bytes, expected) in [
            ("STORED\r\nEND\r\n", vec![(8, Good), (5, Good)]),
            ("VALUE k 0 3\r\na\r\n\r\nEND\r\n12\r\n", vec![(23, Good), (4, Good)]),
            ("VALUE k 0 1 77\r\na\r\nVALUE l 0 0\r\n\r\nEND\r\n", vec![(39, Good)]),
            ("VALUE k 0 2\r\na\r\nEND\r\n", vec![(21, Malformed)]),
            ("VALUE k 0 1\r\nab\r\nEND\r\n", vec![(22, Malformed)]),
            ("VALUE k 0 1\r\na\r\nSTORED\r\n", vec![(24, Malformed)]),
            ("VALUE k 0 x\r\na\r\nEND\r\n", vec![(21, Malformed)]),
            ("VALUE k 0 1\r\na\r\nEN", vec![(18, Cut)]),
            ("VALUE k 0 4000000000\r\na\r\nEND\r\n", vec![(30, Cut)]),
            ("STORED\nEND\r\n", vec![(12, Malformed)]),
            ("STORFD\r\nEND\r\n", vec![(13, Malformed)]),
            ("VALUE k 0 1\r\na\r\nSERVER_ERROR out of memory\r\nEND\r\n", vec![(44, Error), (5, Good)]),
            ("ERROR\r\nCLIENT_ERROR bad data chunk\r\n5  \r\n", vec![(7, Error), (29, Error), (5, Good)]),
            ("STAT pid 7\r\nSTAT uptime 0\r\nEND\r\n", vec![(32, Good)]),
            ("VA 2 t0\r\nhi\r\nHD\r\n", vec![(13, Good), (4, Good)]),
        ] {
            assert_eq!(readings(bytes.as_bytes()), expected, "{bytes:?}");
        }
    }

    #[test]
    fn an_answer_belongs_to_its_command() {
        for (golden, actual, expected) in [
            ("VALUE k 0 1\r\na\r\nEND\r\n", "END\r\n", true),
            ("STORED\r\n", "NOT_STORED\r\n", true),
            ("STORED\r\n", "END\r\n", false),
            ("END\r\n", "STORED\r\n", false),
            ("41\r\n", "42\r\n", true),
            ("41\r\n", "STORED\r\n", false),
            ("NOT_FOUND\r\n", "7\r\n", true),
            ("ERROR\r\n", "STORED\r\n", false),
        ] {
            assert_eq!(Memcached.answers(golden.as_bytes(), actual.as_bytes()), expected, "{golden:?} {actual:?}");
        }
    }

    #[test]
    fn messages_of_any_bytes_have_no_gaps() {
        let mut state = 7u64;
        for _ in 0..2000 {
            let words = [
                "VALUE ",
                "k 0 2",
                "\r\n",
                "ab",
                "END",
                "STORED",
                "\n",
                " ",
                "\r",
                "9",
                "\u{e9}",
                "SERVER_ERROR x",
                "STAT a",
            ];
            let mut text = String::new();
            for _ in 0..12 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push_str(words[(state >> 33) as usize % words.len()]);
            }
            let messages = Memcached.messages(text.as_bytes());
            let mut at = 0;
            for message in &messages {
                assert!(message.range.start == at && message.range.end > at, "{text:?}");
                at = message.range.end;
            }
            assert_eq!(at, text.len());
        }
    }
}
