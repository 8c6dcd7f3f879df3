//! Splits the bytes of one connection into messages, and classifies each as a client would.

use std::ops::Range;

/// How a client classifies one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Accepted.
    Good,
    /// A valid error message.
    Error,
    /// Invalid framing or syntax.
    Malformed,
    /// Truncated.
    Cut,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub range: Range<usize>,
    pub reading: Reading,
}

/// A protocol from the client's side. A new one needs rows in the judge's table of test cases.
pub trait Protocol: Send + Sync {
    fn name(&self) -> &'static str;

    /// Splits all bytes into consecutive messages without gaps. Invalid bytes are one malformed message, up to where
    /// parsing can continue, or to the end.
    fn messages(&self, bytes: &[u8]) -> Vec<Message>;

    /// Whether a client that expects `golden` accepts `actual` as an answer of the right kind. Both are valid messages.
    fn answers(&self, _golden: &[u8], _actual: &[u8]) -> bool {
        true
    }

    /// For unordered protocols: the tag that pairs an answer with its request. Answers are then compared with the
    /// golden one of the same tag, independently.
    fn tag<'a>(&self, _message: &'a [u8]) -> Option<&'a [u8]> {
        None
    }
}
