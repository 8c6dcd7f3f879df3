//! HTTP/1.1 requests.

use crate::connection::{self, NoReply, RequestSender};
use crate::request::RequestSpec;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Larger bodies are not read to their end.
const BODY_BYTES_MAX: usize = 64 << 20;

pub type Connection = connection::Connection<SendRequest<Full<Bytes>>>;

impl RequestSender for SendRequest<Full<Bytes>> {
    async fn is_usable(&mut self) -> bool {
        self.ready().await.is_ok()
    }

    async fn handshake(stream: TcpStream) -> hyper::Result<Self> {
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// A reply as received, including a tail.
pub struct Raw {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub body: Bytes,
}

impl Connection {
    /// Sends once, or on a new connection if the kept-alive one was closed before anything was sent.
    pub async fn send(&mut self, spec: &RequestSpec, envelope: Option<&str>) -> Result<Raw, NoReply> {
        self.within(spec.timeout_ms, async |connection| connection.exchange(spec, envelope).await).await
    }

    async fn exchange(&mut self, spec: &RequestSpec, envelope: Option<&str>) -> Result<Raw, NoReply> {
        for attempt in 0..2 {
            let request = request(spec, envelope)?;
            match self.ready().await?.send_request(request).await {
                Ok(reply) => {
                    let (parts, body) = reply.into_parts();
                    let body = Limited::new(body, BODY_BYTES_MAX)
                        .collect()
                        .await
                        .map_err(|e| NoReply::unavailable(format!("reading the reply: {e}")))?;
                    return Ok(Raw { status: parts.status.as_u16(), headers: parts.headers, body: body.to_bytes() });
                }
                Err(e) if e.is_canceled() && attempt == 0 => self.sender = None,
                Err(e) => return Err(NoReply::unavailable(format!("no reply: {e}"))),
            }
        }
        Err(NoReply::unavailable("the connection was closed twice before the request was sent"))
    }
}

fn request(spec: &RequestSpec, envelope: Option<&str>) -> Result<http::Request<Full<Bytes>>, NoReply> {
    let mut builder =
        http::Request::builder().method(spec.method.as_str()).uri(&spec.path).header("host", &spec.authority);
    for (name, value) in &spec.headers {
        builder = builder.header(name, value);
    }
    if let Some(envelope) = envelope {
        builder = builder.header("x-faultloom", envelope);
    }
    if !spec.body.is_empty() {
        builder = builder.header("content-length", spec.body.len());
    }
    builder
        .body(Full::new(Bytes::from(spec.body.clone())))
        .map_err(|e| NoReply::new(3, format!("the request cannot be built: {e}")))
}
