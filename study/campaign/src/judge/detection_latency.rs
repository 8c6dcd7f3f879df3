//! Detection latency: the number of replies between a flip and the first wrong one, on all connections.
//!
//! A reply counts when its last byte is written. A reply that is buffered at the time of the flip is written after it.

use super::protocol::{Protocol, Reading};
use bit_flips::engine_messages::WriteOrder;
use model::flip::Output;
use std::ops::Range;

/// The reply that decided an outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct WrongReply<'a> {
    pub stream: &'a str,
    /// Its byte range in the stream. None: no byte of it was written.
    pub range: Option<Range<usize>>,
    /// False: it is truncated or missing. The time is then unknown, and everything that the program wrote counts as
    /// earlier.
    pub whole: bool,
}

/// None: the stream of the wrong reply is not ordered.
pub fn replies_between(
    protocol: &dyn Protocol,
    actual: &Output,
    written: &WriteOrder,
    wrong: &WrongReply,
) -> Option<u64> {
    let ends: Vec<Vec<(u64, u64)>> = (0..actual.streams.len()).map(|stream| ends(written, stream)).collect();
    let own = actual.streams.iter().position(|stream| stream.name == wrong.stream);
    if !written.connections && own != Some(0) {
        return None;
    }
    let position = |stream: usize, end: usize| position(&ends[stream], end as u64);
    let limit = match (own, &wrong.range) {
        (Some(own), Some(range)) if wrong.whole => position(own, range.end)?,
        _ => u64::MAX,
    };
    let mut replies = 0;
    for (index, stream) in actual.streams.iter().enumerate() {
        for message in protocol.messages(&stream.bytes) {
            let is_wrong_reply = Some(index) == own && Some(&message.range) == wrong.range.as_ref();
            let at = position(index, message.range.end);
            let between = at.is_some_and(|at| at > written.before && at < limit);
            replies += u64::from(between && !is_wrong_reply && message.reading != Reading::Cut);
        }
    }
    Some(replies)
}

/// For each piece of a stream: the bytes up to its end, of this stream and of all streams.
fn ends(written: &WriteOrder, stream: usize) -> Vec<(u64, u64)> {
    let (mut own, mut all) = (0, 0);
    let mut ends = Vec::new();
    for (of, length) in &written.pieces {
        all += length;
        if *of as usize == stream {
            own += length;
            ends.push((own, all));
        }
    }
    ends
}

/// The number of bytes of all streams that were written when the first `end` bytes of a stream had been.
fn position(ends: &[(u64, u64)], end: u64) -> Option<u64> {
    let (own, all) = ends.get(ends.partition_point(|(own, _)| *own < end))?;
    Some(all - (own - end))
}

#[cfg(test)]
mod tests {
    use super::super::lines::Lines;
    use super::*;
    use model::flip::Stream;

    /// Lines in the order in which they were written, each to one of three connections.
    fn written(lines: &[(usize, &str)], before: usize) -> (Output, WriteOrder) {
        let mut streams: Vec<Stream> =
            (0..3).map(|n| Stream { name: format!("connection {n}"), bytes: Vec::new() }).collect();
        lines.iter().for_each(|(to, text)| streams[*to].bytes.extend(text.as_bytes()));
        let pieces = lines.iter().map(|(to, text)| (*to as u32, text.len() as u64)).collect();
        let before = lines[..before].iter().map(|(_, text)| text.len() as u64).sum();
        (Output { streams }, WriteOrder { connections: true, pieces, before })
    }

    fn since(
        (actual, written): &(Output, WriteOrder),
        stream: &str,
        range: Option<Range<usize>>,
        whole: bool,
    ) -> Option<u64> {
        replies_between(&Lines { errors: Vec::new() }, actual, written, &WrongReply { stream, range, whole })
    }

    const LINES: [(usize, &str); 6] = [(0, "a\n"), (1, "b\n"), (0, "WRONG\n"), (2, "c\n"), (1, "d"), (1, "\n")];

    #[test]
    fn replies_on_all_connections_count_between_flip_and_wrong_reply() {
        for (before, expected) in [(0, 2), (1, 1), (2, 0)] {
            assert_eq!(since(&written(&LINES, before), "connection 0", Some(2..8), true), Some(expected));
        }
    }

    #[test]
    fn a_reply_in_pieces_counts_at_its_last_piece() {
        assert_eq!(since(&written(&LINES, 3), "connection 1", Some(2..4), true), Some(1), "c");
        assert_eq!(since(&written(&LINES, 5), "connection 0", None, false), Some(1), "the end of d");
    }

    #[test]
    fn before_a_missing_reply_all_others_count() {
        let both = written(&LINES, 2);
        assert_eq!(since(&both, "connection 0", None, false), Some(3));
        assert_eq!(since(&both, "connection 9", None, false), Some(3), "nothing at all on its connection");
        assert_eq!(since(&both, "connection 0", Some(2..8), false), Some(2), "what is cut is no reply");
        let nothing = (Output::default(), WriteOrder { connections: true, ..WriteOrder::default() });
        assert_eq!(since(&nothing, "connection 0", None, false), Some(0));
    }

    #[test]
    fn files_are_not_ordered() {
        let (mut actual, mut written) = written(&[(0, "a\n"), (0, "b\n")], 1);
        written.connections = false;
        actual.streams[1] = Stream { name: "file".into(), bytes: b"x\ny\n".to_vec() };
        let both = (actual, written);
        assert_eq!(since(&both, "file", Some(0..2), true), None);
        assert_eq!(since(&both, "one that is not there", None, false), None);
        assert_eq!(since(&both, "connection 0", Some(2..4), true), Some(0), "the lines of the file do not count");
    }
}
