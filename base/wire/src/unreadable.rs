//! Why a segment of a history cannot be read, and where in it.

use crate::WireError;
use crate::history::HEAD_BYTES;

/// A segment that was left out. Its text names the problem and its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}, at {}", self.place())]
pub struct Unreadable {
    pub problem: Problem,
    /// Number of the event that cannot be read, from 1; 0: the head of the segment.
    pub event: usize,
    /// How many bytes of the segment were read.
    pub byte: usize,
    /// The size of the segment.
    pub bytes: usize,
}

impl Unreadable {
    /// For a history whose version or size is wrong.
    pub fn head(error: WireError, bytes: usize) -> Unreadable {
        let problem = match bytes {
            _ if error == WireError::UnsupportedVersion => Problem::Version,
            1..HEAD_BYTES => Problem::EndsEarly,
            _ => Problem::Size,
        };
        Unreadable { problem, event: 0, byte: 0, bytes }
    }

    fn place(&self) -> String {
        let event = if self.event == 0 { "its head".to_owned() } else { format!("event {}", self.event) };
        format!("{event}, byte {} of {}", self.byte, self.bytes)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("its version is not supported")]
    Version,
    #[error("it is empty, or larger than 4 MiB")]
    Size,
    #[error("it ends early")]
    EndsEarly,
    #[error("a number ends early or has more than 64 bits")]
    Number,
    #[error("{what} is not UTF-8: \"{}\"", bytes.escape_ascii())]
    NotUtf8 { what: &'static str, bytes: Vec<u8> },
    #[error("{what} has {bytes} bytes; {min} to {max} are allowed")]
    Length { what: &'static str, bytes: u64, min: usize, max: usize },
    #[error("it refers to string {index} of {strings}")]
    Reference { index: u64, strings: usize },
    #[error("it has undefined flags (0x{0:02x})")]
    Flags(u8),
    #[error("it has an event of the undefined kind {0}")]
    Kind(u8),
    #[error("fault index {0} is above 63")]
    Fault(u64),
    #[error("a time exceeds 64 bits")]
    Time,
    #[error("call {0} ends, but is not open")]
    NotOpen(u64),
    #[error("an event follows the reply")]
    AfterTheEnd,
    #[error("a nested history of {0} bytes exceeds the rest")]
    Child(u64),
    #[error("it is nested deeper than 64 levels")]
    Depth,
    #[error("there are more than 100,000 events")]
    Events,
}

#[cfg(test)]
mod tests {
    use super::HEAD_BYTES;
    use crate::history::{HISTORY_BYTES_MAX, read};

    #[test]
    fn the_size_of_a_history_without_a_segment_decides_the_message() {
        let message = |bytes: usize| read(&vec![1; bytes]).unwrap_err().to_string();
        assert_eq!(message(0), "it is empty, or larger than 4 MiB, at its head, byte 0 of 0");
        for bytes in 1..HEAD_BYTES {
            assert_eq!(message(bytes), format!("it ends early, at its head, byte 0 of {bytes}"));
        }
        assert!(message(HISTORY_BYTES_MAX + 1).starts_with("it is empty, or larger than 4 MiB"));
        assert!(read(&[3, 0]).unwrap_err().to_string().starts_with("its version is not supported"));
    }
}
