//! Netlink requests to the kernel for sockets, addresses and translations.
//!
//! ```text
//! message    length u32 · kind u16 · flags u16 · sequence u32 · port u32 · body, padded to 4 bytes
//! attribute  length u16 · kind u16 · value, padded to 4 bytes
//! ```
//!
//! Numbers are in native byte order. Lengths include the header. The reader does not trust them: an entry that does not
//! fit ends the iteration.

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with, sockopt,
};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

pub const HEADER_BYTES: usize = 16;
const ATTRIBUTE_HEADER_BYTES: usize = 4;

pub const REQUEST: u16 = 0x1;
pub const ACKNOWLEDGE: u16 = 0x4;
pub const DUMP: u16 = 0x300;

const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Marks attributes that contain attributes; some requests require it.
const NESTED: u16 = 0x8000;
/// Removes the flags from an attribute's kind.
const KIND_MASK: u16 = 0x3fff;

/// The kernel sends at most 32 KiB per message.
const BUFFER_BYTES: usize = 64 * 1024;
/// The kernel answers at once; after this time the answer is lost.
const TIMEOUT: Duration = Duration::from_secs(5);

fn padded(length: usize) -> usize {
    length.saturating_add(3) & !3
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Writes one message.
pub struct Request(Vec<u8>);

impl Request {
    pub fn new(kind: u16, flags: u16) -> Request {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | REQUEST).to_ne_bytes());
        Request(bytes)
    }

    pub fn put(mut self, bytes: &[u8]) -> Request {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends an attribute; `value` must be shorter than 64 KiB.
    pub fn attribute(mut self, kind: u16, value: &[u8]) -> Request {
        push_attribute(&mut self.0, kind, value);
        self
    }

    pub fn nested(self, kind: u16, fill: impl FnOnce(Request) -> Request) -> Request {
        let inner = fill(Request(Vec::new())).0;
        self.attribute(kind | NESTED, &inner)
    }

    /// Sets length and sequence number and returns the message.
    pub fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.0
    }
}

fn push_attribute(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = (ATTRIBUTE_HEADER_BYTES + value.len()) as u16;
    bytes.extend_from_slice(&length.to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(padded(bytes.len()), 0);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    pub kind: u16,
    pub sequence: u32,
    pub body: &'a [u8],
}

/// Iterates over the messages in a received buffer.
pub struct Messages<'a>(pub &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let length = u32_at(self.0, 0)? as usize;
        let body = self.0.get(HEADER_BYTES..length)?;
        let message = Message { kind: u16_at(self.0, 4)?, sequence: u32_at(self.0, 8)?, body };
        self.0 = self.0.get(padded(length)..).unwrap_or_default();
        Some(message)
    }
}

/// Kind and value of each attribute.
pub struct Attributes<'a>(pub &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let length = u16_at(self.0, 0)? as usize;
        let kind = u16_at(self.0, 2)? & KIND_MASK;
        let value = self.0.get(ATTRIBUTE_HEADER_BYTES..length)?;
        self.0 = self.0.get(padded(length)..).unwrap_or_default();
        Some((kind, value))
    }
}

impl<'a> Attributes<'a> {
    pub fn find_kind(mut self, kind: u16) -> Option<&'a [u8]> {
        self.find(|(found, _)| *found == kind).map(|(_, value)| value)
    }
}

/// The result in a control message: an error number, or `Some(0)` for success. None: not a control message.
fn outcome(message: &Message<'_>) -> Option<i32> {
    match message.kind {
        ERROR | DONE => Some(u32_at(message.body, 0).map_or(0, |number| number as i32)),
        _ => None,
    }
}

/// A netlink socket. It stays in the network namespace of the thread that opened it.
pub struct Channel {
    socket: OwnedFd,
    buffer: Vec<u8>,
    sequence: u32,
}

impl Channel {
    pub fn open(protocol: Option<Protocol>) -> io::Result<Channel> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, protocol)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(TIMEOUT))?;
        // a smaller buffer only needs more calls
        let _ = sockopt::set_socket_recv_buffer_size(&socket, 1 << 20);
        Ok(Channel { socket, buffer: vec![0; BUFFER_BYTES], sequence: 0 })
    }

    /// Sends a request and passes each message of the answer to `each`. The request must be a dump or request an
    /// acknowledgement. Blocks until the answer is complete, at most 5 s without a message.
    ///
    /// # Errors
    /// The kernel's error number, or a timeout.
    pub fn request(&mut self, request: Request, mut each: impl FnMut(Message<'_>)) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = self.sequence;
        send(&self.socket, &request.finish(sequence), SendFlags::empty())?;
        loop {
            let (_, length) = match recv(&self.socket, &mut self.buffer[..], RecvFlags::empty()) {
                Err(Errno::INTR) => continue,
                received => received?,
            };
            // skip answers to earlier requests that timed out
            for message in Messages(&self.buffer[..length]).filter(|m| m.sequence == sequence) {
                match outcome(&message) {
                    Some(0) => return Ok(()),
                    Some(number) => return Err(io::Error::from_raw_os_error(-number)),
                    None => each(message),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn written_messages_are_parsed(kind in 16u16.., sequence: u32, attributes in prop::collection::vec((0..KIND_MASK, prop::collection::vec(any::<u8>(), 0..40)), 0..6)) {
            let mut request = Request::new(kind, DUMP).put(&[1, 2, 3, 4]);
            for (kind, value) in &attributes {
                request = request.attribute(*kind, value);
            }
            let mut twice = request.finish(sequence);
            twice.extend_from_within(..);
            let messages: Vec<Message> = Messages(&twice).collect();
            prop_assert_eq!(messages.len(), 2);
            prop_assert_eq!(messages[0], messages[1]);
            prop_assert_eq!((messages[0].kind, messages[0].sequence), (kind, sequence));
            let read: Vec<(u16, Vec<u8>)> = Attributes(&messages[0].body[4..]).map(|(k, v)| (k, v.to_vec())).collect();
            prop_assert_eq!(read, attributes);
        }

        #[test]
        fn iteration_over_any_bytes_ends(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            for message in Messages(&bytes) {
                let _ = outcome(&message);
                prop_assert!(Attributes(message.body).count() <= bytes.len() / 4);
            }
        }
    }

    #[test]
    fn invalid_lengths_end_the_iteration() {
        for length in [0u32, 3, 15, 17, u32::MAX] {
            let mut bytes = Request::new(20, 0).finish(1);
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(Messages(&bytes).count(), 0, "{length}");
        }
    }
}
