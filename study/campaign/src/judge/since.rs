//! How many replies lie between a flip and the first wrong one: those that the program had written whole meanwhile, to whomever.
//!
//! A reply counts when its last byte is written. What stood in a buffer when the flip was made is written after it.

use super::protocol::{Protocol, Reading};
use bit_flips::protocol::{Output, Written};
use std::ops::Range;

/// The reply that decided an outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Wrong<'a> {
    pub stream: &'a str,
    /// Its bytes there. None: nothing of it came.
    pub range: Option<Range<usize>>,
    /// False: it ends early, or never came. Nothing says when, so all that the program still wrote came before.
    pub whole: bool,
}

/// None: the stream of the wrong reply has no order.
pub fn replies(protocol: &dyn Protocol, seen: &Output, written: &Written, wrong: &Wrong) -> Option<u64> {
    let ends: Vec<Vec<(u64, u64)>> = (0..seen.streams.len()).map(|stream| ends(written, stream)).collect();
    let own = seen.streams.iter().position(|stream| stream.name == wrong.stream);
    if !written.connections && own != Some(0) {
        return None;
    }
    let place = |stream: usize, end: usize| place(&ends[stream], end as u64);
    let limit = match (own, &wrong.range) {
        (Some(own), Some(range)) if wrong.whole => place(own, range.end)?,
        _ => u64::MAX,
    };
    let mut replies = 0;
    for (index, stream) in seen.streams.iter().enumerate() {
        for message in protocol.messages(&stream.bytes) {
            let itself = Some(index) == own && Some(&message.range) == wrong.range.as_ref();
            let at = place(index, message.range.end);
            let between = at.is_some_and(|at| at > written.before && at < limit);
            replies += u64::from(between && !itself && message.reading != Reading::Cut);
        }
    }
    Some(replies)
}

/// Of the pieces of a stream: how many of its bytes there are up to the piece's end, and how many of all.
fn ends(written: &Written, stream: usize) -> Vec<(u64, u64)> {
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

/// How many bytes of all were written when the first `end` bytes of a stream were.
fn place(ends: &[(u64, u64)], end: u64) -> Option<u64> {
    let (own, all) = ends.get(ends.partition_point(|(own, _)| *own < end))?;
    Some(all - (own - end))
}

#[cfg(test)]
mod tests {
    use super::super::lines::Lines;
    use super::*;
    use bit_flips::protocol::Stream;

    /// Lines in the order in which they were written, each to one of three connections.
    fn written(lines: &[(usize, &str)], before: usize) -> (Output, Written) {
        let mut streams: Vec<Stream> =
            (0..3).map(|n| Stream { name: format!("connection {n}"), bytes: Vec::new() }).collect();
        lines.iter().for_each(|(to, text)| streams[*to].bytes.extend(text.as_bytes()));
        let pieces = lines.iter().map(|(to, text)| (*to as u32, text.len() as u64)).collect();
        let before = lines[..before].iter().map(|(_, text)| text.len() as u64).sum();
        (Output { streams }, Written { connections: true, pieces, before })
    }

    fn since(
        (seen, written): &(Output, Written),
        stream: &str,
        range: Option<Range<usize>>,
        whole: bool,
    ) -> Option<u64> {
        replies(&Lines { errors: Vec::new() }, seen, written, &Wrong { stream, range, whole })
    }

    const LINES: [(usize, &str); 6] = [(0, "a\n"), (1, "b\n"), (0, "WRONG\n"), (2, "c\n"), (1, "d"), (1, "\n")];

    #[test]
    fn replies_on_all_connections_count_from_the_flip_to_the_wrong_one() {
        for (before, expected) in [(0, 2), (1, 1), (2, 0)] {
            assert_eq!(since(&written(&LINES, before), "connection 0", Some(2..8), true), Some(expected));
        }
    }

    #[test]
    fn one_that_is_written_in_pieces_counts_at_its_last() {
        assert_eq!(since(&written(&LINES, 3), "connection 1", Some(2..4), true), Some(1), "c");
        assert_eq!(since(&written(&LINES, 5), "connection 0", None, false), Some(1), "the end of d");
    }

    #[test]
    fn before_one_that_never_came_are_all_that_came() {
        let both = written(&LINES, 2);
        assert_eq!(since(&both, "connection 0", None, false), Some(3));
        assert_eq!(since(&both, "connection 9", None, false), Some(3), "nothing at all on its connection");
        assert_eq!(since(&both, "connection 0", Some(2..8), false), Some(2), "what is cut is no reply");
        let nothing = (Output::default(), Written { connections: true, ..Written::default() });
        assert_eq!(since(&nothing, "connection 0", None, false), Some(0));
    }

    #[test]
    fn files_have_no_order() {
        let (mut seen, mut written) = written(&[(0, "a\n"), (0, "b\n")], 1);
        written.connections = false;
        seen.streams[1] = Stream { name: "file".into(), bytes: b"x\ny\n".to_vec() };
        let both = (seen, written);
        assert_eq!(since(&both, "file", Some(0..2), true), None);
        assert_eq!(since(&both, "one that is not there", None, false), None);
        assert_eq!(since(&both, "connection 0", Some(2..4), true), Some(0), "the lines of the file do not count");
    }
}
