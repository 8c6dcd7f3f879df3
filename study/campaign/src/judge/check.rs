//! Checksums that a hardened program adds to its messages and that its clients verify (SEI §4: a message carries a CRC
//! of its payload).

/// A checksum of messages. Every message must have a correct one.
pub trait Check: Send + Sync {
    fn name(&self) -> &'static str;
    fn holds(&self, message: &[u8]) -> bool;
}

/// The checks of `--check`.
pub const NAMES: [&str; 1] = ["crc-line"];

pub fn by_name(name: &str) -> Option<Box<dyn Check>> {
    (name == "crc-line").then(|| Box::new(CrcLine) as Box<dyn Check>)
}

/// A line that ends in ` *` and eight lowercase hex digits: the CRC-32 of the preceding bytes.
pub struct CrcLine;

impl Check for CrcLine {
    fn name(&self) -> &'static str {
        "crc-line"
    }

    fn holds(&self, message: &[u8]) -> bool {
        let line = message.strip_suffix(b"\n").unwrap_or(message);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(at) = line.len().checked_sub(10) else { return false };
        let (payload, sum) = line.split_at(at);
        sum == format!(" *{:08x}", crc32(payload)).as_bytes()
    }
}

/// CRC-32 of IEEE 802.3, reflected.
pub fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { 0xEDB8_8320 ^ (crc >> 1) } else { crc >> 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn a_line_is_valid_only_with_its_own_checksum() {
        let line = format!("VALUE 1 *{:08x}\n", crc32(b"VALUE 1"));
        assert!(CrcLine.holds(line.as_bytes()));
        assert!(CrcLine.holds(line.trim_end().as_bytes()));
        assert!(!CrcLine.holds(line.replace("1 *", "2 *").as_bytes()));
        assert!(!CrcLine.holds(b"VALUE 1\n"));
        assert!(!CrcLine.holds(b""));
    }
}
