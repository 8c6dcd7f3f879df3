//! Whether a server answers QUIC, which HTTP/3 uses, at a UDP port. This distinguishes an HTTP/3-only server from none.
//!
//! A server must answer a long header with a version that it does not support by a list of those that it does
//! (RFC 9000 §6.1), if the datagram has at least 1,200 bytes. Versions of the form 0x?a?a?a?a are reserved for this.
//!
//! ```text
//! request   c0  1a 2a 3a 4a  08 destination id (8)  08 source id (8)  zeros up to 1,200 bytes
//! reply     8…  00 00 00 00  08 our source id (8)   08 …              supported versions
//! ```

use std::time::Duration;
use tokio::net::UdpSocket;

const LIMIT: Duration = Duration::from_millis(500);
const DATAGRAM_BYTES: usize = 1200;
const DESTINATION_ID: [u8; 8] = [0x66, 0x6c, 0x1a, 0x02, 0x93, 0x44, 0x85, 0x96];
const SOURCE_ID: [u8; 8] = [0x66, 0x6c, 0x5b, 0x11, 0x27, 0x38, 0x49, 0x5a];

/// `authority`: `host:port`.
pub async fn answers_quic(authority: &str) -> bool {
    let answered = async {
        let address = tokio::net::lookup_host(authority).await.ok()?.next()?;
        let local = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(local).await.ok()?;
        socket.connect(address).await.ok()?;
        socket.send(&request()).await.ok()?;
        let mut reply = [0; 2048];
        let length = socket.recv(&mut reply).await.ok()?;
        Some(is_version_negotiation(&reply[..length]))
    };
    tokio::time::timeout(LIMIT, answered).await.ok().flatten().unwrap_or(false)
}

fn request() -> Vec<u8> {
    let mut datagram = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a];
    for id in [DESTINATION_ID, SOURCE_ID] {
        datagram.push(id.len() as u8);
        datagram.extend_from_slice(&id);
    }
    datagram.resize(DATAGRAM_BYTES, 0);
    datagram
}

fn is_version_negotiation(reply: &[u8]) -> bool {
    let ours = [&[SOURCE_ID.len() as u8][..], &SOURCE_ID].concat();
    reply.len() > 14 && reply[0] & 0x80 != 0 && reply[1..5] == [0; 4] && reply[5..14] == ours[..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_list_of_versions_is_an_answer_and_an_echo_is_not() {
        for (negotiates, expected) in [(true, true), (false, false)] {
            let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let authority = server.local_addr().unwrap().to_string();
            let answer = async {
                let mut datagram = [0; 2048];
                let (length, from) = server.recv_from(&mut datagram).await.unwrap();
                assert!(length >= 1200 && datagram[0] & 0xc0 == 0xc0);
                let (destination, source) = (&datagram[5..14], &datagram[14..23]);
                let reply = match negotiates {
                    true => [&[0x80, 0, 0, 0, 0][..], source, destination, &[0, 0, 0, 1]].concat(),
                    false => datagram[..length].to_vec(),
                };
                server.send_to(&reply, from).await.unwrap();
            };
            let (answers, ()) = tokio::join!(answers_quic(&authority), answer);
            assert_eq!(answers, expected);
        }
        assert!(!answers_quic("127.0.0.1:9").await, "nothing listens there");
    }
}
