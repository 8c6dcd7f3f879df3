//! Variable-length integers (LEB128): seven bits per byte, lowest first; the eighth bit is set if more bytes follow.

/// The bytes are not valid output of the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

pub fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Zigzag encoding, so that small negative numbers are short: 0, -1, 1, -2 …
pub fn put_signed(bytes: &mut Vec<u8>, number: i64) {
    put(bytes, ((number << 1) ^ (number >> 63)) as u64);
}

pub fn take(bytes: &mut &[u8]) -> Result<u64, Damaged> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or(Damaged)?;
        *bytes = rest;
        let bits = u64::from(first & 0x7F);
        if shift == 63 && bits > 1 {
            return Err(Damaged);
        }
        number |= bits << shift;
        if first & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Damaged)
}

pub fn take_signed(bytes: &mut &[u8]) -> Result<i64, Damaged> {
    let number = take(bytes)?;
    Ok((number >> 1) as i64 ^ -((number & 1) as i64))
}

pub fn take_slice<'b>(bytes: &mut &'b [u8], length: usize) -> Result<&'b [u8], Damaged> {
    let (taken, rest) = bytes.split_at_checked(length).ok_or(Damaged)?;
    *bytes = rest;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_survive_a_round_trip(number: u64, signed: i64) {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            put_signed(&mut bytes, signed);
            let mut rest = &bytes[..];
            prop_assert_eq!((take(&mut rest), take_signed(&mut rest)), (Ok(number), Ok(signed)));
            prop_assert!(rest.is_empty());
        }
    }
}
