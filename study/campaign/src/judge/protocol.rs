//! How the bytes of one connection are cut into messages, and what a client notices about each.

use std::ops::Range;

/// What a client makes of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It takes it for good.
    Good,
    /// A proper message in which the program says that something went wrong.
    Error,
    /// It cannot be read: framing or syntax is wrong.
    Malformed,
    /// Its end is missing.
    Cut,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub range: Range<usize>,
    pub reading: Reading,
}

/// A protocol as its client sees it. Whoever adds one adds rows to the judge's table of cases.
pub trait Protocol: Send + Sync {
    fn name(&self) -> &'static str;

    /// Cuts everything into messages that follow each other without gaps. What cannot be read is one malformed message up to
    /// where reading can go on, if need be to the end.
    fn messages(&self, bytes: &[u8]) -> Vec<Message>;

    /// Whether a client that waits for `golden` accepts `seen` as an answer of the right kind. Both are good messages.
    fn answers(&self, _golden: &[u8], _seen: &[u8]) -> bool {
        true
    }

    /// For protocols without order: what pairs an answer with its question. Answers are then compared with the golden one of the
    /// same tag, and each stands for itself.
    fn tag<'a>(&self, _message: &'a [u8]) -> Option<&'a [u8]> {
        None
    }
}

/// The protocols of `--protocol`.
pub const NAMES: [&str; 3] = ["lines", "memcached", "dns"];

pub fn by_name(name: &str, errors: &[String]) -> Option<Box<dyn Protocol>> {
    Some(match name {
        "lines" => Box::new(super::lines::Lines { errors: errors.to_vec() }),
        "memcached" => Box::new(super::memcached::Memcached),
        "dns" => Box::new(super::dns::Dns),
        _ => return None,
    })
}
