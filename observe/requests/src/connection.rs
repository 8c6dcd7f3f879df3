//! A kept-alive connection for HTTP or gRPC. Every sender has its own, so no case waits for another.

use crate::request::{RequestSpec, Transport};
use model::trace::Outcome;
use std::future::Future;
use std::time::Duration;
use tls::{Evidence, HttpVersion, Stream, TlsProblem, TlsSettings};
use tokio::net::TcpStream;

/// Connects at the first use, and again after a failure.
pub struct Connection<S> {
    pub(crate) sender: Option<S>,
    pub(crate) peer: Peer,
    /// Of the last connection.
    pub(crate) evidence: Evidence,
    /// Whether any reply was received. Only before the first one, a failure may mean that the server expects another
    /// protocol.
    pub(crate) has_replied: bool,
}

/// A server, as the URL names it.
#[derive(Clone, Debug)]
pub struct Peer {
    pub authority: String,
    pub tls: Option<TlsSettings>,
    pub transport: Transport,
    /// It was found to support no other version of HTTP.
    pub(crate) is_http2: bool,
}

/// No reply was received.
#[derive(Debug)]
pub struct NoReply {
    /// A gRPC code, as the format requires it.
    pub code: u32,
    pub reason: String,
    /// No connection could be made, so nothing was sent.
    pub unreachable: bool,
    /// What the user can do, if the reason is known.
    pub next: Option<String>,
    pub(crate) no_common_version: bool,
}

impl NoReply {
    pub fn new(code: u32, reason: impl Into<String>) -> NoReply {
        NoReply { code, reason: reason.into(), unreachable: false, next: None, no_common_version: false }
    }

    pub fn unavailable(reason: impl Into<String>) -> NoReply {
        NoReply::new(14, reason)
    }

    /// Nothing was sent, or the server did not understand it, and the user can change that.
    pub(crate) fn advised(reason: impl Into<String>, next: impl Into<String>) -> NoReply {
        NoReply { unreachable: true, next: Some(next.into()), ..NoReply::unavailable(reason) }
    }

    pub(crate) fn of_tls(problem: TlsProblem) -> NoReply {
        NoReply { no_common_version: problem.no_common_version, ..NoReply::advised(problem.why, problem.next) }
    }

    fn unreachable(authority: &str, error: &std::io::Error) -> NoReply {
        NoReply { unreachable: true, ..NoReply::unavailable(format!("connecting to {authority}: {error}")) }
    }

    fn timeout(ms: u64) -> NoReply {
        NoReply::new(4, format!("no reply within {ms} ms"))
    }

    pub fn outcome(&self) -> Outcome {
        Outcome::Failed { status: self.code }
    }
}

impl Peer {
    pub fn of(spec: &RequestSpec) -> Peer {
        Peer { authority: spec.authority.clone(), tls: spec.tls.clone(), transport: spec.transport, is_http2: false }
    }

    /// Without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        let host = self.authority.rsplit_once(':').map_or(self.authority.as_str(), |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// For a `host` header: without the scheme's own port.
    pub fn host_header(&self) -> &str {
        let own_port = if self.tls.is_some() { ":443" } else { ":80" };
        self.authority.strip_suffix(own_port).unwrap_or(&self.authority)
    }

    /// A new connection; `offered` are the versions of HTTP that a server with TLS may select.
    pub(crate) async fn dial(&self, offered: &[HttpVersion]) -> Result<Stream, NoReply> {
        let tcp = match TcpStream::connect(&self.authority).await {
            Ok(tcp) => tcp,
            Err(error) => return Err(self.refused(&error).await),
        };
        let _ = tcp.set_nodelay(true);
        match &self.tls {
            None => Ok(Stream::plain(tcp)),
            Some(settings) => {
                tls::connect(tcp, self.host(), &self.authority, settings, offered).await.map_err(NoReply::of_tls)
            }
        }
    }

    async fn refused(&self, error: &std::io::Error) -> NoReply {
        let is_refused = error.kind() == std::io::ErrorKind::ConnectionRefused;
        if is_refused && self.tls.is_some() && tls::answers_quic(&self.authority).await {
            return NoReply::advised(
                format!(
                    "{} serves only HTTP/3 (QUIC, over UDP); nothing accepts TCP connections there",
                    self.authority
                ),
                "HTTP/3 is not supported: enable HTTP/1.1 or HTTP/2 at the server",
            );
        }
        NoReply::unreachable(&self.authority, error)
    }
}

/// A hyper sender.
pub trait RequestSender: Sized {
    /// Whether another request can be sent; waits until then.
    fn is_usable(&mut self) -> impl Future<Output = bool> + Send;

    /// Connects, and starts HTTP in a task of its own.
    fn connect(peer: &Peer) -> impl Future<Output = Result<(Self, Evidence), NoReply>> + Send;
}

impl<S: RequestSender> Connection<S> {
    pub fn new(spec: &RequestSpec) -> Connection<S> {
        Connection { sender: None, peer: Peer::of(spec), evidence: Evidence::default(), has_replied: false }
    }

    /// The sender, after connecting if there is no usable connection.
    pub(crate) async fn ready(&mut self) -> Result<&mut S, NoReply> {
        let usable = match &mut self.sender {
            Some(sender) => sender.is_usable().await,
            None => false,
        };
        if !usable {
            let (sender, evidence) = S::connect(&self.peer).await?;
            tracing::debug!(authority = self.peer.authority, tls = self.peer.tls.is_some(), "connected");
            (self.sender, self.evidence) = (Some(sender), evidence);
        }
        Ok(self.sender.as_mut().expect("just connected"))
    }

    /// Why the exchange on the last connection failed, if TLS is the reason.
    pub(crate) fn tls_problem(&self) -> Option<NoReply> {
        let problem = self.evidence.problem();
        let missing = || if self.has_replied { None } else { self.evidence.missing_certificate() };
        problem.or_else(missing).map(NoReply::of_tls)
    }

    /// Runs an exchange with a time limit. Without a reply the connection is dropped, so that a late reply is not taken
    /// for that of the next request.
    pub(crate) async fn within<T>(
        &mut self,
        timeout_ms: u64,
        exchange: impl AsyncFnOnce(&mut Self) -> Result<T, NoReply>,
    ) -> Result<T, NoReply> {
        let result = match tokio::time::timeout(Duration::from_millis(timeout_ms), exchange(self)).await {
            Ok(result) => result,
            Err(_) => Err(NoReply::timeout(timeout_ms)),
        };
        match &result {
            Ok(_) => self.has_replied = true,
            Err(_) => self.sender = None,
        }
        result
    }
}
