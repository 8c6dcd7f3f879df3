//! HTTP requests, over HTTP/1.1 where the server supports it.
//!
//! With TLS, HTTP/1.1 is offered first, because every SDK is tested with it. A server that refuses it, or selects
//! nothing and then does not reply, is connected again with an offer of HTTP/2 only. Without TLS, HTTP/2 is not spoken.

use crate::connection::{self, NoReply, Peer, RequestSender};
use crate::foreign::{self, Foreign};
use crate::request::RequestSpec;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tls::{Evidence, HttpVersion, Stream};

/// Larger bodies are not read to their end.
const BODY_BYTES_MAX: usize = 64 << 20;

pub type Connection = connection::Connection<HttpSender>;

/// The version was selected when the connection was made.
pub enum HttpSender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl RequestSender for HttpSender {
    async fn is_usable(&mut self) -> bool {
        match self {
            HttpSender::Http1(sender) => sender.ready().await.is_ok(),
            HttpSender::Http2(sender) => sender.ready().await.is_ok(),
        }
    }

    async fn connect(peer: &Peer) -> Result<(HttpSender, Evidence), NoReply> {
        let first = if peer.is_http2 { HttpVersion::Http2 } else { HttpVersion::Http1 };
        let stream = match peer.dial(&[first]).await {
            Ok(stream) => stream,
            Err(none) if none.no_common_version => peer.dial(&[HttpVersion::Http2]).await?,
            Err(none) => return Err(none),
        };
        let evidence = stream.evidence();
        let sender = match stream.version() {
            Some(HttpVersion::Http2) => HttpSender::Http2(start_http2(stream).await.map_err(no_handshake)?),
            _ => HttpSender::Http1(start_http1(stream).await.map_err(no_handshake)?),
        };
        Ok((sender, evidence))
    }
}

fn no_handshake(error: hyper::Error) -> NoReply {
    NoReply::unavailable(error.to_string())
}

async fn start_http1(stream: Stream) -> hyper::Result<http1::SendRequest<Full<Bytes>>> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

pub(crate) async fn start_http2(stream: Stream) -> hyper::Result<http2::SendRequest<Full<Bytes>>> {
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// A reply as received, including a tail.
#[derive(Debug)]
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
        for attempt in 0..3 {
            let failed = match self.exchange_once(spec, envelope).await? {
                Ok(raw) if raw.status == 400 && !self.has_replied => {
                    return match self.explain_refusal(&raw).await {
                        Some(none) => Err(none),
                        None => Ok(raw),
                    };
                }
                Ok(raw) => {
                    return match http3_only(&self.peer.authority, &raw) {
                        Some(none) => Err(none),
                        None => Ok(raw),
                    };
                }
                Err(error) => error,
            };
            if let Some(none) = self.tls_problem() {
                return Err(none);
            }
            self.sender = None;
            if self.switch_to_http2().await {
                continue;
            }
            if failed.is_canceled() && attempt == 0 {
                continue;
            }
            if !self.has_replied
                && let Some(none) = self.foreign().await
            {
                return Err(none);
            }
            return Err(NoReply::unavailable(format!("no reply: {failed}")));
        }
        Err(NoReply::unavailable("the connection was closed twice before the request was sent"))
    }

    async fn exchange_once(
        &mut self,
        spec: &RequestSpec,
        envelope: Option<&str>,
    ) -> Result<Result<Raw, hyper::Error>, NoReply> {
        let peer = self.peer.clone();
        let sent = match self.ready().await? {
            HttpSender::Http1(sender) => sender.send_request(request(spec, &peer, false, envelope)?).await,
            HttpSender::Http2(sender) => sender.send_request(request(spec, &peer, true, envelope)?).await,
        };
        let reply = match sent {
            Ok(reply) => reply,
            Err(error) => return Ok(Err(error)),
        };
        let (parts, body) = reply.into_parts();
        let body = Limited::new(body, BODY_BYTES_MAX)
            .collect()
            .await
            .map_err(|e| NoReply::unavailable(format!("reading the reply: {e}")))?;
        Ok(Ok(Raw { status: parts.status.as_u16(), headers: parts.headers, body: body.to_bytes() }))
    }

    /// Whether a server that selected no version, and did not reply to HTTP/1.1, supports HTTP/2 instead. The earlier
    /// connection must have ended: some servers serve one at a time.
    async fn switch_to_http2(&mut self) -> bool {
        let may_be = self.peer.tls.is_some() && !self.has_replied && self.evidence.version().is_none();
        if !may_be || self.peer.is_http2 {
            return false;
        }
        let supports = match self.peer.dial(&[HttpVersion::Http2]).await {
            Ok(stream) => stream.version() == Some(HttpVersion::Http2),
            Err(_) => false,
        };
        self.peer.is_http2 = supports;
        supports
    }

    /// A server that expects another protocol may answer 400 in HTTP: so do Go and nginx at a port with TLS, and nginx
    /// without a client certificate.
    async fn explain_refusal(&self, refused: &Raw) -> Option<NoReply> {
        if refused.headers.keys().any(|name| name.as_str().starts_with("x-faultloom")) {
            return None;
        }
        match self.peer.tls {
            Some(_) => self.tls_problem().filter(|_| String::from_utf8_lossy(&refused.body).contains("certificate")),
            None => self.foreign().await,
        }
    }

    /// What the server at this port speaks instead of HTTP/1.1 without TLS.
    async fn foreign(&self) -> Option<NoReply> {
        if self.peer.tls.is_some() {
            return None;
        }
        let authority = &self.peer.authority;
        match foreign::at(authority, self.peer.host()).await? {
            Foreign::Tls => {
                Some(NoReply::advised(format!("{authority} uses TLS"), format!("use https://{authority}/…")))
            }
            Foreign::Http2 => Some(NoReply::advised(
                format!("{authority} speaks only HTTP/2, without TLS"),
                "use grpc:// if it is a gRPC server; otherwise enable HTTP/1.1 or TLS at the server",
            )),
        }
    }
}

/// A server that refuses HTTP/1.1 and HTTP/2 by its status and advertises HTTP/3.
fn http3_only(authority: &str, raw: &Raw) -> Option<NoReply> {
    const REFUSALS: [u16; 3] = [421, 426, 505];
    let advertised = raw.headers.get_all("alt-svc").into_iter().filter_map(|line| line.to_str().ok());
    let is_http3 = advertised.flat_map(|line| line.split(',')).any(|service| service.trim().starts_with("h3"));
    (is_http3 && REFUSALS.contains(&raw.status)).then(|| {
        NoReply::advised(
            format!("{authority} refuses this version of HTTP (status {}) and advertises only HTTP/3", raw.status),
            "HTTP/3 is not supported: enable HTTP/1.1 or HTTP/2 at the server",
        )
    })
}

fn request(
    spec: &RequestSpec,
    peer: &Peer,
    is_http2: bool,
    envelope: Option<&str>,
) -> Result<http::Request<Full<Bytes>>, NoReply> {
    let mut builder = http::Request::builder().method(spec.method.as_str());
    builder = if is_http2 {
        builder.uri(format!("https://{}{}", peer.host_header(), spec.path))
    } else {
        builder.uri(&spec.path).header("host", peer.host_header())
    };
    let own = |name: &String| name == "cookie" && spec.cookies.is_some();
    for (name, value) in spec.headers.iter().filter(|(name, _)| !own(name)) {
        builder = builder.header(name, value);
    }
    if let Some(cookies) = &spec.cookies {
        // in one header: HTTP/1.1 does not allow more
        let theirs = spec.headers.iter().filter(|(name, _)| own(name)).map(|(_, value)| value.clone());
        let all: Vec<String> = theirs.chain(cookies.header(spec)).collect();
        if !all.is_empty() {
            builder = builder.header("cookie", all.join("; "));
        }
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
