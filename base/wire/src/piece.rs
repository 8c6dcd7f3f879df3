//! The history of a stream, in pieces: written by a scope, joined by its caller. The format, "The history of a stream".
//!
//! A piece begins with its offset, so a receiver knows that nothing before it is missing. Pieces end between events; what has
//! arrived when a stream breaks off is therefore a history, only shorter.

use crate::bytes::{Reader, put_varint};
use crate::carrier::field_bytes;
use crate::envelope::Accept;
use crate::history::{HEAD_BYTES, HISTORY_BYTES_MAX, TRUNCATED, head};
use crate::truncate::{prefix_bytes, shorten};

/// Distinguishes a piece from a history, whose first byte is its version.
pub const PIECE: u8 = 0x81;

const LAST: u8 = 1;
const CUT: u8 = 2;

fn piece(flags: u8, offset: usize) -> Vec<u8> {
    let mut out = vec![PIECE, flags];
    put_varint(&mut out, offset as u64);
    out
}

/// How far a stream's history has left. The history itself is kept by the scope, which hands it in as it stands.
#[derive(Clone, Debug)]
pub struct Pieces {
    accept: Accept,
    receive_limit: u64,
    /// The head as it left: what the first piece said stays said.
    head: Option<Vec<u8>>,
    events_gone: usize,
}

impl Pieces {
    pub fn new(accept: Accept, receive_limit: u64) -> Pieces {
        Pieces { accept, receive_limit, head: None, events_gone: 0 }
    }

    fn offset(&self) -> usize {
        self.head.as_ref().map_or(0, |head| head.len() + self.events_gone)
    }

    /// What goes along with a reply message of this size. `head`: the history up to its events, `events`: all so far.
    pub fn message(&mut self, message_bytes: usize, head: Vec<u8>, events: &[u8]) -> Option<Vec<u8>> {
        let news = &events[self.events_gone..];
        if !self.accept.field || (self.head.is_some() && news.is_empty()) {
            return None;
        }
        let mut out = piece(0, self.offset());
        if self.head.is_none() {
            out.extend_from_slice(&head);
        }
        out.extend_from_slice(news);
        let size = message_bytes.saturating_add(field_bytes(out.len()));
        if u64::try_from(size).is_ok_and(|size| size > self.receive_limit) {
            return None;
        }
        self.head.get_or_insert(head);
        self.events_gone = events.len();
        Some(out)
    }

    /// What is left for the trailer, at most `limit` bytes; None if nothing of it fits.
    pub fn last(&self, limit: usize, head: &[u8], events: &[u8]) -> Option<Vec<u8>> {
        let news = &events[self.events_gone..];
        let mut out = piece(LAST, self.offset());
        if self.head.is_none() {
            out.extend_from_slice(head);
        }
        let room = limit.checked_sub(out.len())?;
        if news.len() <= room {
            out.extend_from_slice(news);
            return Some(out);
        }
        out[1] |= CUT;
        out.extend(shorten(news, room).ok().flatten()?);
        Some(out)
    }
}

/// What pieces made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// None: not even a head arrived, or it answers another call.
    pub history: Option<Vec<u8>>,
    /// The last piece is there, and none was truncated.
    pub complete: bool,
}

/// Collects the pieces of one call in the order in which they arrive.
#[derive(Clone, Debug, Default)]
pub struct Joiner {
    bytes: Vec<u8>,
    cut: bool,
    last: bool,
    /// A piece that did not fit ends the history: what follows it may hang in the air.
    ended: bool,
}

impl Joiner {
    pub fn add(&mut self, piece: &[u8]) {
        if self.ended || self.last || !self.fits(piece) {
            self.ended = true;
        }
    }

    fn fits(&mut self, piece: &[u8]) -> bool {
        let mut r = Reader::new(piece);
        let (Ok(PIECE), Ok(flags), Ok(offset)) = (r.u8(), r.u8(), r.varint()) else { return false };
        let bytes = r.rest();
        if flags & !(LAST | CUT) != 0
            || offset != self.bytes.len() as u64
            || self.bytes.len() + bytes.len() > HISTORY_BYTES_MAX
        {
            return false;
        }
        self.bytes.extend_from_slice(bytes);
        self.cut |= flags & CUT != 0;
        self.last |= flags & LAST != 0;
        true
    }

    /// `call`: the id of the call that was answered.
    pub fn finish(self, call: u64) -> Joined {
        let mut bytes = self.bytes;
        let whole = head(&bytes).is_ok_and(|(id, segment)| id == call && prefix_bytes(segment).is_ok());
        if !whole {
            return Joined { history: None, complete: false };
        }
        let complete = self.last && !self.cut;
        if !complete {
            bytes[HEAD_BYTES] |= TRUNCATED;
        }
        Joined { history: Some(bytes), complete }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::SEND_RESPONSE;

    fn with(bytes: &[u8], flags: u8, offset: usize) -> Vec<u8> {
        [&piece(flags, offset)[..], bytes].concat()
    }

    #[test]
    fn a_history_of_four_megabytes_is_joined_and_not_a_byte_more() {
        let head = [&[1][..], &9u64.to_be_bytes(), &[0, 1, b'a', 0, 0]].concat();
        let rest = vec![0; HISTORY_BYTES_MAX - head.len()];
        let mut joiner = Joiner::default();
        joiner.add(&with(&head, 0, 0));
        joiner.add(&with(&rest, 0, head.len()));
        let mut over = joiner.clone();
        joiner.add(&with(&[], LAST, HISTORY_BYTES_MAX));
        assert!(joiner.finish(9).complete);
        over.add(&with(b"x", LAST, HISTORY_BYTES_MAX));
        let joined = over.finish(9);
        assert!(!joined.complete && joined.history.is_some_and(|h| h.len() == HISTORY_BYTES_MAX));
    }

    #[test]
    fn a_limit_below_the_head_leaves_no_last_piece() {
        let (head, events) = ([7; 20], [SEND_RESPONSE, 9, 0]);
        let pieces = Pieces::new(Accept::default(), 0);
        assert_eq!(pieces.last(25, &head, &events), None);
        assert_eq!(pieces.last(26, &head, &events), Some([&[PIECE, LAST, 0][..], &head, &events].concat()));
    }
}
