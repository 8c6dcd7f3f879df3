//! One unary call of `grpc.health.v1.Health/Check` on a new connection, with `h2` only.
//!
//! The request message is empty (it means the whole server). Only field 1 of the reply matters: 1 is SERVING.
//!
//! ```text
//! request body   00 00 00 00 00            not compressed, length 0
//! reply body     00 00 00 00 02  08 01     not compressed, length 2, field 1 = varint 1
//! ```

use crate::file::address::Address;
use bytes::Bytes;
use tls::Stream;

const UNIMPLEMENTED: &str = "12";

/// The error is the state other than SERVING. A server without the health service counts as healthy: it accepts
/// connections and implements gRPC.
pub(crate) async fn check(stream: Stream, address: &Address) -> Result<(), String> {
    let no_http2 = |error: h2::Error| format!("it does not speak HTTP/2: {error}");
    let (sender, connection) = h2::client::handshake(stream).await.map_err(no_http2)?;
    tokio::select! {
        result = call(sender, address) => result,
        ended = connection => match ended {
            Ok(()) => Err("it closed the connection without a reply".into()),
            Err(error) => Err(no_http2(error)),
        },
    }
}

async fn call(sender: h2::client::SendRequest<Bytes>, address: &Address) -> Result<(), String> {
    let text = |error: h2::Error| error.to_string();
    let mut sender = sender.ready().await.map_err(text)?;
    let request = http::Request::post(format!("http://{address}/grpc.health.v1.Health/Check"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .map_err(|error| error.to_string())?;
    let (reply, mut body) = sender.send_request(request, false).map_err(text)?;
    body.send_data(Bytes::from_static(&[0; 5]), true).map_err(text)?;
    let (head, mut body) = reply.await.map_err(text)?.into_parts();
    if head.status != http::StatusCode::OK {
        return Err(format!("HTTP status {}", head.status.as_u16()));
    }
    let mut message = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.map_err(text)?;
        // Flow control is not updated: a health reply never fills the initial window.
        message.extend_from_slice(&data);
        if message.len() > 4096 {
            return Err("a reply far too long for a health check".into());
        }
    }
    let trailers = body.trailers().await.map_err(text)?;
    let status = trailers.as_ref().and_then(|trailers| trailers.get("grpc-status"));
    let status = status.or_else(|| head.headers.get("grpc-status")).and_then(|value| value.to_str().ok());
    match status {
        Some(UNIMPLEMENTED) => Ok(()),
        Some("0") => match serving(&message) {
            Some(1) => Ok(()),
            Some(2) => Err("health status NOT_SERVING".into()),
            Some(other) => Err(format!("health status {other}")),
            None => Err("a health reply that cannot be decoded".into()),
        },
        Some(code) => Err(format!("gRPC status {code}")),
        None => Err("a reply without a gRPC status".into()),
    }
}

/// The status in a reply body; 0 (UNKNOWN) if the message is empty.
fn serving(body: &[u8]) -> Option<u8> {
    match body.get(5..)? {
        [] => Some(0),
        [0x08, status, ..] => Some(*status),
        _ => None,
    }
}
