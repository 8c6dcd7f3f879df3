//! The kernel's table of Unix sockets (`unix_diag`), one message per socket.
//!
//! ```text
//! request   family u8 · 0 u8 · 0 u16 · states u32 · inode u32 · what to show u32 · cookie u64
//! answer    family u8 · kind u8 · state u8 · 0 u8 · inode u32 · cookie u64 · attributes
//! ```
//!
//! An accepted socket has the name of its listener; the connecting socket usually has none. The named end is therefore
//! the passive one.

use crate::netlink::{Attributes, Channel, DUMP, Request};
use std::io;

const BY_FAMILY: u16 = 20;
const FAMILY: u8 = 1;
const ANSWER_BYTES: usize = 16;
const SHOW_NAME_AND_PEER: u32 = 0x1 | 0x4;
const ALL_STATES: u32 = 0xfff;
const ATTRIBUTE_NAME: u16 = 0;
const ATTRIBUTE_PEER: u16 = 2;
const LISTEN: u8 = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixSocket {
    pub listens: bool,
    pub datagram: bool,
    pub inode: u32,
    pub cookie: u64,
    /// Abstract names start with `@`. Invalid UTF-8 is replaced.
    pub name: Option<String>,
    /// Inode of the other end.
    pub peer: Option<u32>,
}

/// Requests all Unix sockets of the channel's namespace.
pub fn dump(channel: &mut Channel, mut each: impl FnMut(UnixSocket)) -> io::Result<()> {
    let request = Request::new(BY_FAMILY, DUMP)
        .put(&[FAMILY, 0, 0, 0])
        .put(&ALL_STATES.to_ne_bytes())
        .put(&0u32.to_ne_bytes())
        .put(&SHOW_NAME_AND_PEER.to_ne_bytes())
        .put(&[0; 8]);
    channel.request(request, |message| {
        if message.kind == BY_FAMILY
            && let Some(socket) = UnixSocket::read(message.body)
        {
            each(socket);
        }
    })
}

impl UnixSocket {
    const DATAGRAM: u8 = 2;

    /// None: too short to be an answer.
    pub fn read(body: &[u8]) -> Option<UnixSocket> {
        let (fixed, attributes) = body.split_first_chunk::<ANSWER_BYTES>()?;
        let mut socket = UnixSocket {
            listens: fixed[2] == LISTEN,
            datagram: fixed[1] == UnixSocket::DATAGRAM,
            inode: u32::from_ne_bytes(fixed[4..8].try_into().ok()?),
            cookie: u64::from_ne_bytes(fixed[8..16].try_into().ok()?),
            name: None,
            peer: None,
        };
        for (kind, value) in Attributes(attributes) {
            match kind {
                ATTRIBUTE_NAME => socket.name = readable(value),
                ATTRIBUTE_PEER => socket.peer = value.try_into().ok().map(u32::from_ne_bytes),
                _ => {}
            }
        }
        Some(socket)
    }
}

fn readable(name: &[u8]) -> Option<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('\0', "@");
    match name.split_first()? {
        (0, rest) => Some(format!("@{}", text(rest))),
        // paths may include their terminating NUL
        _ => Some(text(name.strip_suffix(b"\0").unwrap_or(name))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::Messages;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn kernel_answers_are_parsed(inode: u32, cookie: u64, peer: u32, name in "[a-z/]{1,30}") {
            let body = [&[1, 1, LISTEN, 0][..], &inode.to_ne_bytes(), &cookie.to_ne_bytes()].concat();
            let bytes = Request::new(BY_FAMILY, 0)
                .put(&body)
                .attribute(ATTRIBUTE_NAME, format!("\0{name}").as_bytes())
                .attribute(ATTRIBUTE_PEER, &peer.to_ne_bytes())
                .finish(1);
            let read = UnixSocket::read(Messages(&bytes).next().unwrap().body);
            let name = Some(format!("@{name}"));
            prop_assert_eq!(read, Some(UnixSocket { listens: true, datagram: false, inode, cookie, name, peer: Some(peer) }));
        }

        #[test]
        fn any_bytes_are_parsed_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(UnixSocket::read(&bytes).is_some(), bytes.len() >= ANSWER_BYTES);
        }
    }

    #[test]
    fn paths_and_abstract_names_differ() {
        assert_eq!(readable(b"/run/a b\n.sock\0").as_deref(), Some("/run/a b\n.sock"));
        assert_eq!(readable(b"\0bus\0x").as_deref(), Some("@bus@x"));
        assert_eq!(readable(b""), None);
    }
}
