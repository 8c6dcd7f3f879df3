//! The history of a stream, in pieces: sent by a scope, joined by its caller.
//!
//! Source: the format, "The history of a stream".
//!
//! A piece begins with its offset, so the receiver detects a missing piece. Pieces end between events, so the pieces
//! received before a stream breaks off form a valid, truncated history.

use crate::bytes::{Reader, put_varint};
use crate::carrier::field_bytes;
use crate::envelope::Accept;
use crate::history::{HEAD_BYTES, HISTORY_BYTES_MAX, TRUNCATED, VERSION_2, split_head};
use crate::truncate::{prefix_bytes, shorten};

/// Distinguishes a piece from a history, whose first byte is its version.
pub const PIECE: u8 = 0x81;

const LAST: u8 = 1;
const PIECE_TRUNCATED: u8 = 2;
/// The history has version 2, although a head that was sent before has version 1.
const PIECE_VERSION_2: u8 = 4;

/// `version`: that of the history now.
fn piece(flags: u8, version: u8, offset: usize) -> Vec<u8> {
    let mut out = vec![PIECE, if version == VERSION_2 { flags | PIECE_VERSION_2 } else { flags }];
    put_varint(&mut out, offset as u64);
    out
}

fn version(head: &[u8]) -> u8 {
    head.first().copied().unwrap_or_default()
}

/// The state of a stream's history on the callee's side. The scope keeps the history and passes its current bytes in.
#[derive(Clone, Debug)]
pub struct Pieces {
    accept: Accept,
    receive_limit: u64,
    /// The head as sent with the first piece; it cannot change afterwards.
    head: Option<Vec<u8>>,
    events_sent: usize,
}

impl Pieces {
    pub fn new(accept: Accept, receive_limit: u64) -> Pieces {
        Pieces { accept, receive_limit, head: None, events_sent: 0 }
    }

    fn offset(&self) -> usize {
        self.head.as_ref().map_or(0, |head| head.len() + self.events_sent)
    }

    /// The piece to send with a reply message of this size, if any. `head`: the history up to its events; `events`: all
    /// so far.
    pub fn next_piece(&mut self, message_bytes: usize, head: Vec<u8>, events: &[u8]) -> Option<Vec<u8>> {
        let unsent = &events[self.events_sent..];
        if !self.accept.field || (self.head.is_some() && unsent.is_empty()) {
            return None;
        }
        let mut out = piece(0, version(&head), self.offset());
        if self.head.is_none() {
            out.extend_from_slice(&head);
        }
        out.extend_from_slice(unsent);
        let size = message_bytes.saturating_add(field_bytes(out.len()));
        if u64::try_from(size).is_ok_and(|size| size > self.receive_limit) {
            return None;
        }
        self.head.get_or_insert(head);
        self.events_sent = events.len();
        Some(out)
    }

    /// The piece for the trailer, at most `limit` bytes; None if it does not fit even when truncated.
    pub fn last_piece(&self, limit: usize, head: &[u8], events: &[u8]) -> Option<Vec<u8>> {
        let unsent = &events[self.events_sent..];
        let mut out = piece(LAST, version(head), self.offset());
        if self.head.is_none() {
            out.extend_from_slice(head);
        }
        let left = limit.checked_sub(out.len())?;
        if unsent.len() <= left {
            out.extend_from_slice(unsent);
            return Some(out);
        }
        out[1] |= PIECE_TRUNCATED;
        out.extend(shorten(unsent, left).ok().flatten()?);
        Some(out)
    }
}

/// The history joined from pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// None if no head was received, or it belongs to another call.
    pub history: Option<Vec<u8>>,
    /// The last piece was received, and none was truncated.
    pub complete: bool,
}

/// Joins the pieces of one call, in the order of their arrival.
#[derive(Clone, Debug, Default)]
pub struct Joiner {
    bytes: Vec<u8>,
    truncated: bool,
    version_2: bool,
    last: bool,
    /// A piece did not continue the history. Later pieces are ignored, as they may depend on missing events.
    ended: bool,
}

impl Joiner {
    pub fn add(&mut self, piece: &[u8]) {
        if self.ended || self.last || !self.append(piece) {
            self.ended = true;
        }
    }

    /// False if the piece does not continue the history.
    fn append(&mut self, piece: &[u8]) -> bool {
        let mut r = Reader::new(piece);
        let (Ok(PIECE), Ok(flags), Ok(offset)) = (r.u8(), r.u8(), r.varint()) else { return false };
        let bytes = r.rest();
        if flags & !(LAST | PIECE_TRUNCATED | PIECE_VERSION_2) != 0
            || offset != self.bytes.len() as u64
            || self.bytes.len() + bytes.len() > HISTORY_BYTES_MAX
        {
            return false;
        }
        self.bytes.extend_from_slice(bytes);
        self.truncated |= flags & PIECE_TRUNCATED != 0;
        self.version_2 |= flags & PIECE_VERSION_2 != 0;
        self.last |= flags & LAST != 0;
        true
    }

    /// `call`: the id of the answered call.
    pub fn finish(self, call: u64) -> Joined {
        let mut bytes = self.bytes;
        let has_head =
            split_head(&bytes).is_ok_and(|(head, segment)| head.call == call && prefix_bytes(segment).is_ok());
        if !has_head {
            return Joined { history: None, complete: false };
        }
        if self.version_2 {
            bytes[0] = VERSION_2;
        }
        let complete = self.last && !self.truncated;
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
        [&piece(flags, 1, offset)[..], bytes].concat()
    }

    #[test]
    fn a_history_is_joined_up_to_four_megabytes() {
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
        assert_eq!(pieces.last_piece(25, &head, &events), None);
        assert_eq!(pieces.last_piece(26, &head, &events), Some([&[PIECE, LAST, 0][..], &head, &events].concat()));
    }
}
