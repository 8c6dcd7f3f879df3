//! One `GET` over HTTP/2, for servers with TLS that support nothing else.

use crate::file::address::HttpAddress;
use bytes::Bytes;
use tls::Stream;

/// The error is the state other than a status of 200 to 399.
pub(crate) async fn check(stream: Stream, url: &HttpAddress) -> Result<(), String> {
    let (sender, connection) = h2::client::handshake(stream).await.map_err(|error| error.to_string())?;
    tokio::select! {
        result = get(sender, url) => result,
        ended = connection => Err(match ended {
            Ok(()) => "it closed the connection without a reply".into(),
            Err(error) => error.to_string(),
        }),
    }
}

async fn get(sender: h2::client::SendRequest<Bytes>, url: &HttpAddress) -> Result<(), String> {
    let text = |error: h2::Error| error.to_string();
    let mut sender = sender.ready().await.map_err(text)?;
    let request = http::Request::get(url.to_string())
        .header("user-agent", "faultloom-health")
        .body(())
        .map_err(|error| error.to_string())?;
    let (reply, _) = sender.send_request(request, true).map_err(text)?;
    match reply.await.map_err(text)?.status().as_u16() {
        200..400 => Ok(()),
        status => Err(format!("HTTP status {status}")),
    }
}
