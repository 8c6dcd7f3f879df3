//! The output of a server under replay: records as they left the process, joined into one stream per connection.
//!
//! ```text
//! ┌───────────┬───────────────┬────────────┬───────────┐
//! │ "FLRO" 4  │ connection 4  │ length 4   │ bytes     │   numbers are little endian
//! └───────────┴───────────────┴────────────┴───────────┘
//! ```
//!
//! A disturbed process may write anything to the descriptor and may be killed within a record. Nothing that it wrote is
//! lost: bytes that are not a record become a separate stream, so that they count as a deviation.

use super::input_trace::CONNECTIONS;
use crate::flip::{Output, Stream};
use std::collections::BTreeMap;

/// The first bytes of every record.
pub const MAGIC: &[u8; 4] = b"FLRO";
const HEADER_BYTES: usize = 12;
/// The largest record.
pub const RECORD_BYTES: usize = 1 << 20;
/// The connection number of a note.
const NOTE: u32 = u32::MAX;

/// Name of the stream of bytes that are not a record.
pub const UNFRAMED: &str = "no record";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputRecords {
    pub streams: BTreeMap<u32, Vec<u8>>,
    /// Connections and byte counts in the order in which they were written; consecutive records of one connection are
    /// one piece.
    pub pieces: Vec<(u32, u64)>,
    /// The shim's notes on why the run ended. Not output of the server.
    pub notes: Vec<String>,
    /// Whole records, notes included.
    pub count: u64,
    /// Everything from the first byte that is not part of a record.
    pub unframed: Vec<u8>,
}

impl OutputRecords {
    /// Parses all bytes. Those of a truncated last record belong to its connection.
    pub fn parse(bytes: &[u8]) -> OutputRecords {
        let mut records = OutputRecords::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some((connection, length)) = header(rest) else {
                // a truncated header carries no output
                let truncated = rest.len() < HEADER_BYTES && MAGIC.starts_with(&rest[..rest.len().min(MAGIC.len())]);
                records.unframed = if truncated { Vec::new() } else { rest.to_vec() };
                break;
            };
            let body = &rest[HEADER_BYTES..];
            let whole = length.min(body.len());
            records.take(connection, &body[..whole]);
            records.count += u64::from(whole == length);
            rest = &body[whole..];
        }
        records
    }

    fn take(&mut self, connection: u32, bytes: &[u8]) {
        if connection == NOTE {
            self.notes.push(String::from_utf8_lossy(bytes).into_owned());
        } else {
            self.streams.entry(connection).or_default().extend(bytes);
            match self.pieces.last_mut() {
                Some((last, length)) if *last == connection => *length += bytes.len() as u64,
                _ => self.pieces.push((connection, bytes.len() as u64)),
            }
        }
    }

    /// Bytes of all connections and of [`OutputRecords::unframed`].
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|(_, length)| length).sum::<u64>() + self.unframed.len() as u64
    }

    /// The pieces, by index of their stream in [`OutputRecords::output`].
    pub fn order(&self) -> Vec<(u32, u64)> {
        let index: BTreeMap<u32, u32> = self.streams.keys().copied().zip(0..).collect();
        let pieces = self.pieces.iter().map(|(connection, length)| (index[connection], *length));
        let unframed = (!self.unframed.is_empty()).then_some((index.len() as u32, self.unframed.len() as u64));
        pieces.chain(unframed).collect()
    }

    /// One stream per connection that received anything, in the order of their numbers.
    pub fn output(self) -> Output {
        let named = |(connection, bytes)| Stream { name: format!("connection {connection}"), bytes };
        let mut streams: Vec<Stream> = self.streams.into_iter().map(named).collect();
        if !self.unframed.is_empty() {
            streams.push(Stream { name: UNFRAMED.to_owned(), bytes: self.unframed });
        }
        Output { streams }
    }
}

/// Connection and length. None: this is not a record header.
fn header(bytes: &[u8]) -> Option<(u32, usize)> {
    let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (connection, length) = (number(4)?, number(8)? as usize);
    let valid = bytes.starts_with(MAGIC) && (connection < CONNECTIONS || connection == NOTE);
    (valid && (1..=RECORD_BYTES).contains(&length)).then_some((connection, length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(connection: u32, bytes: &[u8]) -> Vec<u8> {
        [MAGIC, &connection.to_le_bytes()[..], &(bytes.len() as u32).to_le_bytes(), bytes].concat()
    }

    fn writes() -> impl Strategy<Value = Vec<(u32, Vec<u8>)>> {
        prop::collection::vec((0..3u32, prop::collection::vec(any::<u8>(), 1..30)), 0..10)
    }

    fn file(writes: &[(u32, Vec<u8>)]) -> Vec<u8> {
        writes.iter().flat_map(|(connection, bytes)| record(*connection, bytes)).collect()
    }

    fn written_to(writes: &[(u32, Vec<u8>)], to: u32) -> Vec<u8> {
        writes.iter().filter(|(connection, _)| *connection == to).flat_map(|(_, bytes)| bytes.clone()).collect()
    }

    proptest! {
        #[test]
        fn every_connection_gets_its_bytes(writes in writes()) {
            let records = OutputRecords::parse(&file(&writes));
            prop_assert_eq!(records.count, writes.len() as u64);
            prop_assert!(records.unframed.is_empty());
            for connection in 0..3 {
                prop_assert_eq!(records.streams.get(&connection).cloned().unwrap_or_default(), written_to(&writes, connection));
            }
        }

        #[test]
        fn truncation_leaves_a_prefix(writes in writes(), at: prop::sample::Index) {
            let whole = file(&writes);
            let cut = OutputRecords::parse(&whole[..at.index(whole.len() + 1)]);
            prop_assert!(cut.unframed.is_empty());
            for (connection, bytes) in cut.streams {
                prop_assert!(written_to(&writes, connection).starts_with(&bytes));
            }
        }

        #[test]
        fn no_written_byte_is_lost(bytes: Vec<u8>, writes in writes()) {
            let before = file(&writes);
            let records = OutputRecords::parse(&[before, b"!".to_vec(), bytes.clone()].concat());
            prop_assert_eq!(records.count, writes.len() as u64);
            prop_assert_eq!(records.unframed, [b"!".to_vec(), bytes].concat());
        }
    }

    #[test]
    fn the_order_of_writes_is_kept() {
        let writes = [(7, "a"), (2, "bc"), (2, "d"), (NOTE, "note"), (7, "e")];
        let mut file: Vec<u8> = writes.iter().flat_map(|(to, text)| record(*to, text.as_bytes())).collect();
        file.extend(b"rubbish");
        let records = OutputRecords::parse(&file);
        assert_eq!(records.order(), [(1, 1), (0, 3), (1, 1), (2, 7)]);
        assert_eq!(records.bytes(), 12);
        let names: Vec<String> = records.output().streams.into_iter().map(|stream| stream.name).collect();
        assert_eq!(names, ["connection 2", "connection 7", UNFRAMED]);
        assert_eq!(
            OutputRecords::parse(&file[..2 * HEADER_BYTES + 2]).bytes(),
            2,
            "the rest of the second record is to come"
        );
    }

    #[test]
    fn notes_are_not_output() {
        let records = OutputRecords::parse(&[record(NOTE, b"deadlock"), record(7, b"a")].concat());
        assert_eq!(records.notes, ["deadlock"]);
        assert_eq!(records.output().streams, [Stream { name: "connection 7".into(), bytes: b"a".to_vec() }]);
    }

    #[test]
    fn a_header_out_of_bounds_is_not_a_record() {
        for (connection, length) in [(CONNECTIONS, 1), (0, 0), (0, RECORD_BYTES as u32 + 1)] {
            let bytes = [MAGIC, &connection.to_le_bytes()[..], &length.to_le_bytes(), b"a"].concat();
            let output = OutputRecords::parse(&bytes).output();
            assert_eq!(output.streams, [Stream { name: UNFRAMED.into(), bytes }]);
        }
    }
}
