//! Reads and writes the format's primitives. Every length is checked before use.

use crate::WireError;

pub struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { left: bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    pub fn remaining(&self) -> usize {
        self.left.len()
    }

    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.left)
    }

    pub fn take(&mut self, n: usize) -> Result<&'a [u8], WireError> {
        if n > self.left.len() {
            return Err(WireError::Malformed);
        }
        let (head, tail) = self.left.split_at(n);
        self.left = tail;
        Ok(head)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        Ok(self.take(N)?.try_into().expect("take returned N bytes"))
    }

    pub fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.take(1)?[0])
    }

    pub fn varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0u64;
        for i in 0..10 {
            let byte = self.u8()?;
            if i == 9 && byte > 1 {
                return Err(WireError::Malformed);
            }
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(WireError::Malformed)
    }

    /// A varint used as a count or an index: at most `max`.
    pub fn count(&mut self, max: usize) -> Result<usize, WireError> {
        match usize::try_from(self.varint()?) {
            Ok(n) if n <= max => Ok(n),
            _ => Err(WireError::Malformed),
        }
    }

    pub fn str(&mut self, min: usize, max: usize) -> Result<&'a str, WireError> {
        let n = self.count(max)?;
        if n < min {
            return Err(WireError::Malformed);
        }
        std::str::from_utf8(self.take(n)?).map_err(|_| WireError::Malformed)
    }
}

pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub fn put_str(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return None;
    }
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_survive_a_round_trip(value: u64) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert!(reader.is_empty());
        }
    }

    #[test]
    fn an_eleventh_byte_or_a_sixty_fifth_bit_is_malformed() {
        assert_eq!(Reader::new(&[0x80; 11]).varint(), Err(WireError::Malformed));
        let mut over = [0xffu8; 10];
        over[9] = 2;
        assert_eq!(Reader::new(&over).varint(), Err(WireError::Malformed));
    }
}
