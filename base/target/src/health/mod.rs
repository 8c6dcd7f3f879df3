//! Health checks of services, without a client library: a TCP connect, the first line of an HTTP reply, or one unary
//! gRPC call.
//!
//! The error of a check is text for the user. The supervisor decides how often to check.

mod grpc;
mod http2;

use crate::file::address::{Address, GrpcAddress, HttpAddress};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tls::{HttpVersion, Stream, TlsSettings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long a service without an address must live to count as healthy.
pub(crate) const ALIVE_FOR: Duration = Duration::from_millis(300);

/// How long an HTTP reply may take after its first line; its body does not matter.
const REST_LIMIT: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// A reply with status 200 to 399.
    Http(HttpAddress),
    /// A connection is accepted.
    Tcp(Address),
    /// `grpc.health.v1.Health/Check` of the whole server returns SERVING, or is not implemented.
    Grpc(GrpcAddress),
    /// No address to connect to: the process has run for 300 ms.
    Alive,
}

impl Health {
    /// Checks once, for at most `limit`. The error is the observed state, such as `connection refused`.
    /// [`Health::Alive`] always passes here: only the process table has that information.
    ///
    /// `tls`: how `https://` and `grpcs://` are checked; a certificate that is not trusted is unhealthy.
    pub async fn check(&self, limit: Duration, tls: &TlsSettings) -> Result<(), String> {
        let check = async {
            match self {
                Health::Http(url) => http(url, tls).await,
                Health::Tcp(address) => connect(address).await.map(drop),
                Health::Grpc(GrpcAddress { is_tls, address }) => {
                    let tls = is_tls.then_some(tls);
                    grpc::check(dial(address, tls, HttpVersion::Http2).await?, address).await
                }
                Health::Alive => Ok(()),
            }
        };
        match tokio::time::timeout(limit, check).await {
            Ok(result) => result,
            Err(_) => Err(format!("no reply within {} ms", limit.as_millis())),
        }
    }
}

impl std::fmt::Display for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Health::Http(url) => write!(f, "GET {url}"),
            Health::Tcp(address) => write!(f, "TCP connect to {address}"),
            Health::Grpc(address) => write!(f, "gRPC health of {address}"),
            Health::Alive => write!(f, "alive for {} ms", ALIVE_FOR.as_millis()),
        }
    }
}

async fn connect(address: &Address) -> Result<TcpStream, String> {
    let Address { host, port } = address.reachable();
    TcpStream::connect((host.as_str(), port)).await.map_err(|error| describe_io_error(&error))
}

/// With TLS if there are settings for it.
async fn dial(address: &Address, tls: Option<&TlsSettings>, offered: HttpVersion) -> Result<Stream, String> {
    let tcp = connect(address).await?;
    let Some(settings) = tls else { return Ok(Stream::plain(tcp)) };
    let reachable = address.reachable();
    let stream = tls::connect(tcp, &reachable.host, &reachable.to_string(), settings, &[offered]).await;
    stream.map_err(|problem| format!("{}; {}", problem.why, problem.next))
}

async fn http(url: &HttpAddress, tls: &TlsSettings) -> Result<(), String> {
    let settings = url.is_tls.then_some(tls);
    let stream = dial(&url.address, settings, HttpVersion::Http1).await;
    let selects_http1 = stream.as_ref().is_ok_and(|stream| stream.version() == Some(HttpVersion::Http1));
    let failed = match stream {
        Ok(stream) => match http1(stream, url).await {
            Ok(()) => return Ok(()),
            Err(state) => state,
        },
        Err(state) => state,
    };
    // it may support only HTTP/2, and not say so
    if settings.is_some()
        && !selects_http1
        && let Ok(stream) = dial(&url.address, settings, HttpVersion::Http2).await
        && stream.version() == Some(HttpVersion::Http2)
    {
        return http2::check(stream, url).await;
    }
    Err(failed)
}

async fn http1(mut stream: Stream, url: &HttpAddress) -> Result<(), String> {
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: faultloom-health\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        url.path, url.address
    );
    stream.write_all(request.as_bytes()).await.map_err(|error| describe_io_error(&error))?;
    let mut head = Vec::new();
    while !head.contains(&b'\n') && head.len() < 1024 {
        let read = stream.read_buf(&mut head).await.map_err(|error| describe_io_error(&error))?;
        if read == 0 {
            break;
        }
    }
    if head.is_empty() {
        return Err("it closed the connection without a reply".into());
    }
    // Read to the end, or the service would log a broken connection at every check.
    let mut rest = (&mut stream).take(64 * 1024);
    let _ = tokio::time::timeout(REST_LIMIT, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
    let line = String::from_utf8_lossy(&head);
    let line = line.lines().next().unwrap_or_default();
    let mut words = line.split_whitespace();
    let (version, status) = (words.next().unwrap_or_default(), words.next().and_then(|word| word.parse::<u16>().ok()));
    match status {
        Some(status) if version.starts_with("HTTP/1.") && (200..400).contains(&status) => Ok(()),
        Some(status) if version.starts_with("HTTP/1.") => Err(format!("HTTP status {status}")),
        _ => Err("a reply that is not HTTP/1".into()),
    }
}

/// An I/O error as text, without the `(os error 111)`.
pub(crate) fn describe_io_error(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}
