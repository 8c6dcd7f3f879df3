//! What a port speaks that does not answer HTTP/1.1 without TLS. It is examined only after a request failed there.

use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const LIMIT: Duration = Duration::from_secs(1);
/// The beginning of every HTTP/2 connection, then an empty SETTINGS frame.
const HTTP2_BEGINNING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const SETTINGS: u8 = 4;

pub enum Foreign {
    Tls,
    Http2,
}

/// None: neither, or it cannot be reached.
pub async fn at(authority: &str, host: &str) -> Option<Foreign> {
    let found = async {
        if tls::speaks_tls(TcpStream::connect(authority).await.ok()?, host).await {
            return Some(Foreign::Tls);
        }
        speaks_http2(TcpStream::connect(authority).await.ok()?).await.then_some(Foreign::Http2)
    };
    tokio::time::timeout(LIMIT, found).await.ok().flatten()
}

/// A server's first frame is SETTINGS on stream 0.
async fn speaks_http2(mut stream: TcpStream) -> bool {
    let mut head = [0; 9];
    stream.write_all(HTTP2_BEGINNING).await.is_ok()
        && stream.read_exact(&mut head).await.is_ok()
        && head[3] == SETTINGS
        && head[5..] == [0; 4]
}
