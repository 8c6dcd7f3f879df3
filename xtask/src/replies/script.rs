//! Bytes that the scripts of HTTP replies send.
//!
//! A step is `pause MS`, `stall`, `reset`, `close`, or text to send. Text has placeholders: `{body A..B}` and
//! `{binary A..B}` for these bytes of a body, `{tail A..B}` for bytes of a tail (either end may be missing or
//! negative), `{N+tail}` for a number and `{#N+tail}` for one in hexadecimal, where `tail` is the tail's length.
//! `{gzip N A..B}` is for bytes of a compressed body of N bytes and its tail, and the length of all of them is `gzipN`
//! in a number.

use wire::bytes::put_str;
use wire::carrier::append_tail;
use wire::history::put_head;

pub enum Step {
    Send(Vec<u8>),
    PauseMs(u64),
    /// Wait until the client closes the connection.
    Stall,
    Reset,
    /// Close the connection although another request is to follow.
    Close,
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

/// The gzip file of a body of so many bytes and its tail. Its blocks are not compressed, so that a decoder has returned
/// all that came before a position.
fn gzip(body_bytes: usize, tail: &[u8]) -> Vec<u8> {
    let content: Vec<u8> = (0..body_bytes).map(body_byte).chain(tail.iter().copied()).collect();
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    for block in content.chunks(500) {
        let length = block.len() as u16;
        file.push(0);
        file.extend(length.to_le_bytes());
        file.extend((!length).to_le_bytes());
        file.extend_from_slice(block);
    }
    file.extend([1, 0, 0, 255, 255]); // the last block, empty
    file.extend(crc32(&content).to_le_bytes());
    file.extend((content.len() as u32).to_le_bytes());
    file
}

/// What a decoder makes of a gzip file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Gunzipped {
    pub content: Vec<u8>,
    /// All of the file is there, and its checksum is right.
    pub is_whole: bool,
    pub is_invalid: bool,
    /// Bytes after it, without padding.
    pub rest: Vec<u8>,
}

/// Decodes a gzip file without optional fields whose blocks are not compressed.
pub fn gunzip(file: &[u8]) -> Gunzipped {
    let mut out = Gunzipped::default();
    let Some((header, mut rest)) = file.split_at_checked(10) else { return out };
    out.is_invalid = header[..4] != [0x1f, 0x8b, 8, 0];
    while !out.is_invalid {
        let Some((block, after)) = rest.split_at_checked(5) else {
            // a cut header may be wrong already
            out.is_invalid = rest.first().is_some_and(|kind| *kind > 1);
            return out;
        };
        let length = u16::from_le_bytes([block[1], block[2]]);
        let is_last = block[0] == 1;
        if block[0] > 1 || length != !u16::from_le_bytes([block[3], block[4]]) {
            out.is_invalid = true;
            break;
        }
        let (content, after) = after.split_at(after.len().min(length.into()));
        out.content.extend_from_slice(content);
        rest = after;
        if is_last {
            let Some((end, after)) = rest.split_at_checked(8) else { return out };
            let expected = [crc32(&out.content).to_le_bytes(), (out.content.len() as u32).to_le_bytes()].concat();
            out.is_whole = end == expected;
            out.is_invalid = !out.is_whole;
            // zeros are padding
            let end = after.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            out.rest = after[..end].to_vec();
            break;
        }
    }
    out
}

fn crc32(bytes: &[u8]) -> u32 {
    let crc = bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ ((crc & 1) * 0xEDB8_8320))
    });
    !crc
}

fn body_byte(i: usize) -> u8 {
    b'a' + (i % 26) as u8
}

/// The body of a reply, of so many bytes.
pub fn body(bytes: usize) -> Vec<u8> {
    (0..bytes).map(body_byte).collect()
}

/// One step of a reply to this call.
pub fn step(text: &str, call: u64) -> Result<Step, String> {
    let bad = || format!("'{text}' is not a step");
    match text.split_once(' ') {
        Some(("pause", ms)) => return ms.parse().map(Step::PauseMs).map_err(|_| bad()),
        None if text == "stall" => return Ok(Step::Stall),
        None if text == "reset" => return Ok(Step::Reset),
        None if text == "close" => return Ok(Step::Close),
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
            let byte = |i: usize| if word == "body" { body_byte(i) } else { (i * 7 % 5) as u8 };
            out.extend((from..to).map(byte));
        }
        "gzip" => {
            let (bytes, range) = range.split_once(' ').unwrap_or((range, ".."));
            let file = gzip(bytes.parse().ok()?, tail);
            let (from, to) = ends(range, file.len())?;
            out.extend_from_slice(file.get(from..to)?);
        }
        "tail" if inside.contains(' ') || inside == "tail" => {
            let (from, to) = ends(range, tail.len())?;
            out.extend_from_slice(tail.get(from..to)?);
        }
        sum => {
            let (digits, is_hex) = sum.strip_prefix('#').map_or((sum, false), |digits| (digits, true));
            let term = |term: &str| match term.strip_prefix("gzip") {
                _ if term == "tail" => Some(tail.len()),
                Some(bytes) => Some(gzip(bytes.parse().ok()?, tail).len()),
                None => term.parse().ok(),
            };
            let value: usize = digits.split('+').map(term).sum::<Option<usize>>()?;
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
    if let Some((_, gzip)) = text.split_once("{gzip ") {
        let end = gzip.find(|c: char| !c.is_ascii_digit()).unwrap_or(gzip.len());
        return gzip[..end].parse().unwrap_or_default();
    }
    let ranges = text.split('{').filter_map(|part| {
        part.split_once('}')?.0.strip_prefix("body ").or_else(|| part.split_once('}')?.0.strip_prefix("binary "))
    });
    ranges.filter_map(|range| ends(range, usize::MAX)).map(|(from, to)| to - from).sum()
}

#[cfg(test)]
mod tests {
    use super::{Step, body, body_bytes, step, tail};

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
        let gzip = [sent("{gzip 600 0..40}"), sent("{gzip 600 40..}")].concat();
        assert_eq!(sent("{gzip600+7}"), (gzip.len() + 7).to_string().into_bytes());
        assert_eq!(gzip[15..19], *b"abcd");
        let whole = super::gunzip(&[&gzip[..], b"x"].concat());
        let content = [body(600), tail.clone()].concat();
        assert_eq!((whole.content, whole.is_whole, whole.is_invalid), (content, true, false));
        assert_eq!(whole.rest, b"x");
        let cut = super::gunzip(&gzip[..100]);
        assert_eq!((cut.content, cut.is_whole, cut.is_invalid), (body(85), false, false));
        assert!(super::gunzip(b"\x1f\x8b\x08\0\0\0\0\0\0\0\xff\xff").is_invalid);
        assert_eq!(super::crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(body_bytes(&["x{gzip 600 0..40}".into(), "{gzip 600 40..}".into()]), 600);
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
