//! Refuses clients of protocol 1 in their own format, so that their users read what to do.
//!
//! Protocol 1 had frames: a length of four bytes, big-endian, and as many bytes of JSON. Such a client offers no ALPN
//! protocol. It sends one frame and reads one.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const REQUEST_BYTES_MAX: u32 = 4 << 10;
const ANSWER: &str =
    r#"{"refused":"this host runs a newer faultloom with another protocol; upgrade the one that asks"}"#;

/// Reads the request, so that closing the connection does not reset it, and answers with the refusal.
pub(crate) async fn refuse(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<()> {
    let length = stream.read_u32().await?.min(REQUEST_BYTES_MAX);
    (&mut stream).take(u64::from(length)).read_to_end(&mut Vec::new()).await?;
    stream.write_u32(ANSWER.len() as u32).await?;
    stream.write_all(ANSWER.as_bytes()).await?;
    stream.flush().await?;
    stream.shutdown().await
}
