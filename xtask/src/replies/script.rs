//! Bytes that the scripts of HTTP replies send.
//!
//! A step is `pause MS`, `stall`, `reset`, or text to send. Text has placeholders: `{body A..B}` and `{binary A..B}`
//! for these bytes of a body, `{tail A..B}` for bytes of a tail (either end may be missing or negative), `{N+tail}`
//! for a number and `{#N+tail}` for one in hexadecimal, where `tail` is the tail's length.

use wire::bytes::put_str;
use wire::carrier::append_tail;
use wire::history::put_head;

pub enum Step {
    Send(Vec<u8>),
    PauseMs(u64),
    /// Wait until the client closes the connection.
    Stall,
    Reset,
}

/// A history of the call that did nothing.
pub fn history(call: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_head(&mut bytes, wire::history::VERSION, call);
    bytes.push(0); // flags
    put_str(&mut bytes, "a-callee-whose-name-makes-the-history-long-enough-to-be-cut");
    put_str(&mut bytes, "");
    bytes.push(1); // start
    bytes.extend([4, 1, 0xC8, 1]); // SEND_RESPONSE 200 after 1 µs
    bytes
}

/// The tail with the history of a call.
pub fn tail(call: u64) -> Vec<u8> {
    append_tail(&[], &history(call))
}

/// One step of a reply to this call.
pub fn step(text: &str, call: u64) -> Result<Step, String> {
    let bad = || format!("'{text}' is not a step");
    match text.split_once(' ') {
        Some(("pause", ms)) => return ms.parse().map(Step::PauseMs).map_err(|_| bad()),
        None if text == "stall" => return Ok(Step::Stall),
        None if text == "reset" => return Ok(Step::Reset),
        _ => {}
    }
    let tail = tail(call);
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        bytes.extend_from_slice(before.as_bytes());
        let (inside, after) = after.split_once('}').ok_or_else(bad)?;
        placeholder(inside, &tail, &mut bytes).ok_or_else(bad)?;
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(Step::Send(bytes))
}

fn placeholder(inside: &str, tail: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (word, range) = inside.split_once(' ').unwrap_or((inside, ".."));
    match word {
        "body" | "binary" => {
            let (from, to) = ends(range, usize::MAX)?;
            // binary bodies have many bytes that could begin a tail
            let byte = |i: usize| if word == "body" { b'a' + (i % 26) as u8 } else { (i * 7 % 5) as u8 };
            out.extend((from..to).map(byte));
        }
        "tail" if inside.contains(' ') || inside == "tail" => {
            let (from, to) = ends(range, tail.len())?;
            out.extend_from_slice(tail.get(from..to)?);
        }
        sum => {
            let (digits, is_hex) = sum.strip_prefix('#').map_or((sum, false), |digits| (digits, true));
            let terms = digits.split('+').map(|term| if term == "tail" { Some(tail.len()) } else { term.parse().ok() });
            let value: usize = terms.sum::<Option<usize>>()?;
            out.extend(if is_hex { format!("{value:x}") } else { value.to_string() }.into_bytes());
        }
    }
    Some(())
}

fn ends(range: &str, length: usize) -> Option<(usize, usize)> {
    let (from, to) = range.split_once("..")?;
    let end = |text: &str, missing| match text.strip_prefix('-') {
        _ if text.is_empty() => Some(missing),
        Some(before_end) => length.checked_sub(before_end.parse().ok()?),
        None => text.parse().ok(),
    };
    Some((end(from, 0)?, end(to, length)?))
}

/// Number of bytes of the body before the tail.
pub fn body_bytes(reply: &[String]) -> usize {
    let text = reply.concat();
    let ranges = text.split('{').filter_map(|part| {
        part.split_once('}')?.0.strip_prefix("body ").or_else(|| part.split_once('}')?.0.strip_prefix("binary "))
    });
    ranges.filter_map(|range| ends(range, usize::MAX)).map(|(from, to)| to - from).sum()
}

#[cfg(test)]
mod tests {
    use super::{Step, body_bytes, step, tail};

    fn sent(text: &str) -> Vec<u8> {
        match step(text, 7) {
            Ok(Step::Send(bytes)) => bytes,
            _ => panic!("{text} sends nothing"),
        }
    }

    #[test]
    fn placeholders_are_replaced() {
        let tail = tail(7);
        assert_eq!(sent("a {body 1..4}\r\n"), b"a bcd\r\n");
        assert_eq!(sent("{tail 0..3}{tail 3..-2}{tail -2..}"), tail);
        assert_eq!(sent("{10+tail} {#255}"), format!("{} ff", 10 + tail.len()).into_bytes());
        assert!(step("{tail 0..9999}", 7).is_err() && step("pause long", 7).is_err() && step("{what}", 7).is_err());
        assert_eq!(body_bytes(&["x{body 0..10}".into(), "pause 3".into(), "{binary 5..9}{tail}".into()]), 14);
    }

    #[test]
    fn the_tail_can_be_split_off_and_its_history_read() {
        let body = [b"body".as_slice(), &tail(7)].concat();
        let (body, history) = wire::carrier::split_tail(&body);
        assert_eq!(body, b"body");
        assert_eq!(wire::history::decode(history.unwrap_or_default()).map(|history| history.call), Ok(7));
    }
}
