//! One kept-alive HTTP/1.1 connection. A sweep has one per worker; nothing is shared between them, so no case can wait for another.

use crate::request::RequestSpec;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use model::trace::Outcome;

/// Bodies beyond this are not read to their end.
const BODY_BYTES_MAX: usize = 64 << 20;

pub struct Connection {
    sender: Option<SendRequest<Full<Bytes>>>,
    authority: String,
}

/// A reply as it came, tail and all.
pub struct Raw {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub body: Bytes,
}

/// No reply: a gRPC code as the format wants it, and words.
#[derive(Debug)]
pub struct NoReply {
    pub code: u32,
    pub reason: String,
    /// No connection could be made, so nothing was sent.
    pub unreachable: bool,
}

impl NoReply {
    pub fn new(code: u32, reason: impl Into<String>) -> NoReply {
        NoReply { code, reason: reason.into(), unreachable: false }
    }

    pub fn unavailable(reason: impl Into<String>) -> NoReply {
        NoReply::new(14, reason)
    }

    pub fn unreachable(authority: &str, error: &std::io::Error) -> NoReply {
        NoReply { unreachable: true, ..NoReply::unavailable(format!("connecting to {authority}: {error}")) }
    }

    pub fn timeout(ms: u64) -> NoReply {
        NoReply::new(4, format!("no reply within {ms} ms"))
    }

    pub fn outcome(&self) -> Outcome {
        Outcome::Failed { status: self.code }
    }
}

impl Connection {
    pub fn new(authority: &str) -> Connection {
        Connection { sender: None, authority: authority.to_owned() }
    }

    async fn ready(&mut self) -> Result<&mut SendRequest<Full<Bytes>>, NoReply> {
        let usable = match &mut self.sender {
            Some(sender) => sender.ready().await.is_ok(),
            None => false,
        };
        if !usable {
            let stream = tokio::net::TcpStream::connect(&self.authority)
                .await
                .map_err(|e| NoReply::unreachable(&self.authority, &e))?;
            let _ = stream.set_nodelay(true);
            let (sender, connection) =
                handshake(TokioIo::new(stream)).await.map_err(|e| NoReply::unavailable(e.to_string()))?;
            tokio::spawn(connection);
            self.sender = Some(sender);
        }
        Ok(self.sender.as_mut().expect("just connected"))
    }

    /// Sends once; if a kept-alive connection turns out to be closed before anything was sent, on a fresh one.
    pub async fn send(&mut self, spec: &RequestSpec, envelope: Option<&str>) -> Result<Raw, NoReply> {
        let limit = std::time::Duration::from_millis(spec.timeout_ms);
        let sent = match tokio::time::timeout(limit, self.exchange(spec, envelope)).await {
            Ok(result) => result,
            Err(_) => Err(NoReply::timeout(spec.timeout_ms)),
        };
        if sent.is_err() {
            self.sender = None; // a late reply must not be taken for the next request's
        }
        sent
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
