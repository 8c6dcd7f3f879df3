//! A connection with or without TLS. It remembers why TLS failed, also after the handshake: a server that requires a
//! client certificate refuses a missing one only after a TLS 1.3 client believes to be connected.

use crate::problem::{Peer, TlsProblem};
use crate::settings::TlsSettings;
use crate::verifier::Trusting;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::ResolvesClientCert;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{ClientConfig, Error, SignatureScheme};

/// As it is negotiated by ALPN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersion {
    Http1,
    Http2,
}

impl HttpVersion {
    fn alpn(self) -> &'static [u8] {
        match self {
            HttpVersion::Http1 => b"http/1.1",
            HttpVersion::Http2 => b"h2",
        }
    }
}

pub struct Stream {
    connection: Connection,
    peer: Peer,
    problem: Arc<OnceLock<TlsProblem>>,
    certificate: Arc<Certificate>,
}

enum Connection {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Facts about a connection, for messages about requests that failed on it.
#[derive(Clone, Default)]
pub struct Evidence {
    version: Option<HttpVersion>,
    problem: Arc<OnceLock<TlsProblem>>,
    missing_certificate: Option<(Peer, Arc<Certificate>)>,
}

impl Evidence {
    /// As [`Stream::version`].
    pub fn version(&self) -> Option<HttpVersion> {
        self.version
    }

    /// Why TLS failed after the handshake.
    pub fn problem(&self) -> Option<TlsProblem> {
        self.problem.get().cloned()
    }

    /// The problem if the server requested a certificate and none was named.
    pub fn missing_certificate(&self) -> Option<TlsProblem> {
        let (peer, certificate) = self.missing_certificate.as_ref()?;
        certificate.is_missing().then(|| peer.missing_certificate())
    }
}

impl Stream {
    pub fn plain(tcp: TcpStream) -> Stream {
        let peer = Peer { host: String::new(), authority: String::new(), settings: TlsSettings::default() };
        Stream { connection: Connection::Plain(tcp), peer, problem: Arc::default(), certificate: Arc::default() }
    }

    /// What the server selected; None without TLS or ALPN.
    pub fn version(&self) -> Option<HttpVersion> {
        let Connection::Tls(stream) = &self.connection else { return None };
        match stream.get_ref().1.alpn_protocol()? {
            b"h2" => Some(HttpVersion::Http2),
            b"http/1.1" => Some(HttpVersion::Http1),
            _ => None,
        }
    }

    pub fn evidence(&self) -> Evidence {
        let is_tls = matches!(self.connection, Connection::Tls(_));
        Evidence {
            version: self.version(),
            problem: self.problem.clone(),
            missing_certificate: is_tls.then(|| (self.peer.clone(), self.certificate.clone())),
        }
    }

    fn note<T>(&self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let (Poll::Ready(Err(error)), Connection::Tls(_)) = (&result, &self.connection)
            && let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>())
        {
            let _ = self.problem.set(self.peer.problem(error, self.certificate.is_requested()));
        }
        result
    }
}

/// TLS over a TCP connection. `host`: a name or an address, without brackets; `authority` is for messages. `offered`:
/// the versions of HTTP that the server may select.
///
/// # Errors
/// The problem, with the next step.
pub async fn connect(
    tcp: TcpStream,
    host: &str,
    authority: &str,
    settings: &TlsSettings,
    offered: &[HttpVersion],
) -> Result<Stream, TlsProblem> {
    let peer = Peer { host: host.to_owned(), authority: authority.to_owned(), settings: settings.clone() };
    let name = ServerName::try_from(host.to_owned()).map_err(|_| peer.not_a_name())?;
    let loaded = settings.config().map_err(|failure| TlsProblem::of_settings(&failure))?;
    let certificate = Arc::new(Certificate { requested: AtomicBool::new(false), own: loaded.certificate });
    let mut config = loaded.config;
    config.alpn_protocols = offered.iter().map(|version| version.alpn().to_vec()).collect();
    config.client_auth_cert_resolver = certificate.clone();
    match TlsConnector::from(Arc::new(config)).connect(name, tcp).await {
        Ok(stream) => {
            Ok(Stream { connection: Connection::Tls(Box::new(stream)), peer, problem: Arc::default(), certificate })
        }
        Err(error) => Err(match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            Some(tls) => peer.problem(tls, certificate.is_requested()),
            None => peer.ended(&error),
        }),
    }
}

/// Whether a server begins TLS, whatever certificate it has.
pub async fn speaks_tls(tcp: TcpStream, host: &str) -> bool {
    let Ok(name) = ServerName::try_from(host.to_owned()) else { return false };
    let provider = Arc::new(ring::default_provider());
    let Ok(builder) = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()
    else {
        return false;
    };
    let config = builder
        .dangerous() // nothing is sent; the certificate does not matter
        .with_custom_certificate_verifier(Arc::new(Trusting::new(provider)))
        .with_no_client_auth();
    match TlsConnector::from(Arc::new(config)).connect(name, tcp).await {
        Ok(_) => true,
        Err(error) => {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
            matches!(inner, Some(Error::AlertReceived(_) | Error::PeerIncompatible(_)))
        }
    }
}

/// The client's certificate, and whether the server requested one.
#[derive(Debug, Default)]
struct Certificate {
    requested: AtomicBool,
    own: Option<Arc<CertifiedKey>>,
}

impl Certificate {
    fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    fn is_missing(&self) -> bool {
        self.is_requested() && self.own.is_none()
    }
}

impl ResolvesClientCert for Certificate {
    fn resolve(&self, _authorities: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.requested.store(true, Ordering::Relaxed);
        self.own.clone()
    }

    /// Also without one: otherwise the library would not call `resolve`.
    fn has_certs(&self) -> bool {
        true
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let result = match &mut self.connection {
            Connection::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Connection::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        };
        self.note(result)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = match &mut self.connection {
            Connection::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Connection::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        };
        self.note(result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = match &mut self.connection {
            Connection::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Connection::Tls(stream) => Pin::new(stream).poll_flush(cx),
        };
        self.note(result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.connection {
            Connection::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Connection::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
