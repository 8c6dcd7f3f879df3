//! Carriers of a history on a reply: a protobuf field appended to the message, a header, or a tail after an HTTP body.

use crate::bytes::{Reader, put_varint};
use crate::envelope::Accept;
use crate::history::can_begin_tail;

pub const FIELD_NUMBER: u64 = 333_000_333;
pub const HEADER_BYTES_MAX: usize = 768;
pub const TRAILER_BYTES_MAX: usize = 3072;
pub const MAGIC: [u8; 4] = *b"flm\x01";
const FIELD_TAG: u64 = FIELD_NUMBER << 3 | 2;

/// Size of the whole field for a history, or a piece, of this size.
pub fn field_bytes(history_bytes: usize) -> usize {
    let mut length = Vec::with_capacity(10);
    put_varint(&mut length, history_bytes as u64 + 8);
    5 + length.len() + history_bytes + 8
}

pub fn append_field(message: &[u8], history: &[u8]) -> Vec<u8> {
    let mut field = Vec::with_capacity(field_bytes(history.len()));
    put_varint(&mut field, FIELD_TAG);
    put_varint(&mut field, history.len() as u64 + 8);
    field.extend_from_slice(history);
    let length = field.len() as u32 + 8;
    field.extend_from_slice(&length.to_be_bytes());
    field.extend_from_slice(&MAGIC);
    [message, &field].concat()
}

/// The length in the four bytes before the magic, if the bytes end with the magic.
fn stored_length(bytes: &[u8]) -> Option<usize> {
    let n = bytes.len();
    if n < 8 || bytes[n - 4..] != MAGIC {
        return None;
    }
    Some(u32::from_be_bytes(bytes[n - 8..n - 4].try_into().expect("four bytes")) as usize)
}

/// The message without the field, and the history if there was one.
pub fn split_field(bytes: &[u8]) -> (&[u8], Option<&[u8]>) {
    let Some(at) = stored_length(bytes).and_then(|length| bytes.len().checked_sub(length)) else {
        return (bytes, None);
    };
    let mut r = Reader::new(&bytes[at..]);
    let (Ok(FIELD_TAG), Ok(n)) = (r.varint(), r.varint()) else {
        return (bytes, None);
    };
    let value = r.rest();
    if n < 8 || value.len() as u64 != n {
        return (bytes, None);
    }
    (&bytes[..at], Some(&value[..value.len() - 8]))
}

pub fn append_tail(body: &[u8], history: &[u8]) -> Vec<u8> {
    [body, history, &(history.len() as u32).to_be_bytes(), &MAGIC].concat()
}

/// The body without the tail, and the history if there was one. What does not begin like a history is part of the body,
/// whatever its end looks like.
pub fn split_tail(bytes: &[u8]) -> (&[u8], Option<&[u8]>) {
    let tail = stored_length(bytes).and_then(|length| (bytes.len() - 8).checked_sub(length));
    let Some(at) = tail.filter(|at| can_begin_tail(&bytes[*at..bytes.len() - 8])) else {
        return (bytes, None);
    };
    (&bytes[..at], Some(&bytes[at..bytes.len() - 8]))
}

/// The value of one of our headers that may occur more than once: the last member of its last line. Lines of the same
/// name are one list, which servers and proxies may join with commas (RFC 9110 §5.3).
pub fn last_value<'a>(lines: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let last = lines.into_iter().last()?;
    let member = last.rsplit_once(',').map_or(last, |(_, member)| member);
    Some(member.trim_matches([' ', '\t']))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpCarrier {
    Header,
    Tail,
    TruncatedHeader,
}

/// Header names in lower case.
pub struct HttpReply<'a> {
    pub method: &'a str,
    pub request_headers: &'a [(String, String)],
    pub status: u16,
    pub headers: &'a [(String, String)],
    pub complete: bool,
    pub accept: Accept,
    pub history_bytes: usize,
}

pub fn http_carrier(reply: &HttpReply) -> HttpCarrier {
    if reply.history_bytes <= HEADER_BYTES_MAX {
        return HttpCarrier::Header;
    }
    let forbidden =
        |headers: &[(String, String)], names: &[&str]| headers.iter().any(|(name, _)| names.contains(&name.as_str()));
    let encoded = reply.headers.iter().any(|(name, value)| name == "content-encoding" && value != "identity");
    let plain = (reply.status == 200 || reply.status >= 400)
        && reply.accept.tail
        && reply.method != "HEAD"
        && reply.complete
        && !encoded
        && !is_framed(reply.headers)
        && !forbidden(
            reply.headers,
            &["content-range", "digest", "content-digest", "repr-digest", "content-md5", "trailer", "upgrade"],
        )
        && !forbidden(reply.request_headers, &["range", "upgrade"]);
    if plain { HttpCarrier::Tail } else { HttpCarrier::TruncatedHeader }
}

/// Whether a body consists of frames that a parser reads to its end: gRPC, gRPC-Web, and the streams of Connect.
fn is_framed(headers: &[(String, String)]) -> bool {
    headers.iter().filter(|(name, _)| name == "content-type").any(|(_, value)| {
        let kind = value.trim_start().to_ascii_lowercase();
        kind.starts_with("application/grpc") || kind.starts_with("application/connect+")
    })
}

/// Applies a corrupt-reply fault: overwrites the second half.
pub fn corrupt(body: &mut [u8]) {
    let half = body.len() / 2;
    body[half..].fill(0xFF);
}
