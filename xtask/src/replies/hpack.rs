//! HPACK (RFC 7541), as far as the first request of a connection needs it: no dynamic table is kept.
//!
//! Huffman codes are canonical: codes of one length are consecutive in the order of their characters, so the characters
//! by length define them. Only characters are listed that occur in paths and in base64.

const BY_LENGTH: [(u32, &str); 6] = [
    (5, "012aceiost"),
    (6, " %-./3456789=A_bdfghlmnpru"),
    (7, ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    (8, "&*,;XZ"),
    (10, "!\"()?"),
    (11, "'+|"),
];
/// Entries of the static table whose name is `:path`.
const PATH: [u64; 2] = [4, 5];

/// The parts of a request that the server uses.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub path: String,
    pub envelope: Option<Vec<u8>>,
}

impl Request {
    /// What is missing is taken from the connection's previous request, which the library repeats: it refers to the
    /// dynamic table.
    pub fn or(self, previous: Request) -> Request {
        Request {
            path: if self.path.is_empty() { previous.path } else { self.path },
            envelope: self.envelope.or(previous.envelope),
        }
    }
}

/// Reads a block of fields. `None`: it does not follow the format.
pub fn request(block: &[u8]) -> Option<Request> {
    let (mut path, mut envelope, mut at) = (None, None, 0);
    while at < block.len() {
        let first = block[at];
        if first & 0x80 != 0 {
            integer(block, &mut at, 7)?;
            continue;
        }
        if first & 0xE0 == 0x20 {
            integer(block, &mut at, 5)?; // size of the dynamic table
            continue;
        }
        let index = integer(block, &mut at, if first & 0x40 != 0 { 6 } else { 4 })?;
        let name = if index == 0 { string(block, &mut at)? } else { None };
        let value = string(block, &mut at)?;
        if PATH.contains(&index) || name.as_deref() == Some(":path") {
            path = value;
        } else if name.as_deref() == Some("x-faultloom-bin") {
            envelope = value.and_then(|text| decode_base64(&text));
        }
    }
    Some(Request { path: path.unwrap_or_default(), envelope })
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD_NO_PAD.decode(text.trim_end_matches('=')).ok()
}

fn integer(block: &[u8], at: &mut usize, bits: u32) -> Option<u64> {
    let max = (1u64 << bits) - 1;
    let mut value = u64::from(*block.get(*at)?) & max;
    *at += 1;
    if value < max {
        return Some(value);
    }
    for shift in (0..35).step_by(7) {
        let byte = *block.get(*at)?;
        *at += 1;
        value += u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// A string. The inner value is `None` if it has a character that is not listed.
fn string(block: &[u8], at: &mut usize) -> Option<Option<String>> {
    let is_huffman = block.get(*at)? & 0x80 != 0;
    let length = usize::try_from(integer(block, at, 7)?).ok()?;
    let bytes = block.get(*at..*at + length)?;
    *at += length;
    Some(if is_huffman { huffman(bytes) } else { String::from_utf8(bytes.to_vec()).ok() })
}

fn huffman(bytes: &[u8]) -> Option<String> {
    let mut text = String::new();
    let (mut code, mut length) = (0u32, 0u32);
    for bit in bytes.iter().flat_map(|byte| (0..8).rev().map(move |i| byte >> i & 1)) {
        (code, length) = (code << 1 | u32::from(bit), length + 1);
        let (mut first, mut previous) = (0, 0);
        for (bits, characters) in BY_LENGTH {
            first <<= bits - previous;
            previous = bits;
            if bits == length && code >= first && code - first < characters.len() as u32 {
                text.push(characters.as_bytes()[(code - first) as usize].into());
                (code, length) = (0, 0);
                break;
            }
            first += characters.len() as u32;
        }
        if length > 11 {
            return None;
        }
    }
    (length < 8).then_some(text) // what remains is padding
}

/// Encodes fields as literals.
pub fn fields(all: &[(&str, String)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in all {
        out.push(0);
        for text in [name.as_bytes(), value.as_bytes()] {
            let length = text.len();
            if length < 127 {
                out.push(length as u8);
            } else {
                out.push(127);
                wire::bytes::put_varint(&mut out, length as u64 - 127);
            }
            out.extend_from_slice(text);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{fields, huffman, request};

    #[test]
    fn the_example_of_the_standard_is_decoded() {
        // RFC 7541, C.4.1
        let code = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert_eq!(huffman(&code).as_deref(), Some("www.example.com"));
    }

    #[test]
    fn path_and_envelope_are_found_among_other_fields() {
        let long = "a".repeat(300);
        let list = [("te", long), (":path", "/unary/x~1".to_owned()), ("x-faultloom-bin", "AQID".to_owned())];
        let block = [&[0x83], &fields(&list)[..]].concat();
        let request = request(&block).expect("a request");
        assert_eq!((request.path.as_str(), request.envelope.as_deref()), ("/unary/x~1", Some(&[1u8, 2, 3][..])));
    }
}
