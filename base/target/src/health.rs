//! Is a service ready? One look at it, without a client library: a TCP connect, the first line of an HTTP reply, or
//! one unary gRPC call.
//!
//! A check says what it saw, in words for the user; deciding how often to look is the supervisor's.

use crate::address::{Address, HttpAddress};
use crate::grpc_health;
use serde::{Deserialize, Serialize};
use std::time::Duration;
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
    /// `grpc.health.v1.Health/Check` of the whole server says SERVING, or is not implemented.
    Grpc(Address),
    /// Nothing to connect to: the process lives for 300 ms.
    Alive,
}

impl Health {
    /// Looks once, for at most `limit`. The error is what was seen instead, such as `connection refused`.
    /// [`Health::Alive`] is always fine here: only the process table can tell.
    pub async fn check(&self, limit: Duration) -> Result<(), String> {
        let look = async {
            match self {
                Health::Http(url) => http(url).await,
                Health::Tcp(address) => connect(address).await.map(drop),
                Health::Grpc(address) => grpc_health::check(connect(address).await?, address).await,
                Health::Alive => Ok(()),
            }
        };
        match tokio::time::timeout(limit, look).await {
            Ok(seen) => seen,
            Err(_) => Err(format!("no answer within {} ms", limit.as_millis())),
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
    TcpStream::connect((host.as_str(), port)).await.map_err(|error| in_words(&error))
}

async fn http(url: &HttpAddress) -> Result<(), String> {
    let mut stream = connect(&url.address).await?;
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: faultloom-health\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        url.path, url.address
    );
    stream.write_all(request.as_bytes()).await.map_err(|error| in_words(&error))?;
    let mut head = Vec::new();
    while !head.contains(&b'\n') && head.len() < 1024 {
        let read = stream.read_buf(&mut head).await.map_err(|error| in_words(&error))?;
        if read == 0 {
            break;
        }
    }
    if head.is_empty() {
        return Err("it closed the connection without an answer".into());
    }
    // Read on to the end, or the service would log a broken connection at every look.
    let mut rest = (&mut stream).take(64 * 1024);
    let _ = tokio::time::timeout(REST_LIMIT, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
    let line = String::from_utf8_lossy(&head);
    let line = line.lines().next().unwrap_or_default();
    let mut words = line.split_whitespace();
    let (version, status) = (words.next().unwrap_or_default(), words.next().and_then(|word| word.parse::<u16>().ok()));
    match status {
        Some(status) if version.starts_with("HTTP/1.") && (200..400).contains(&status) => Ok(()),
        Some(status) if version.starts_with("HTTP/1.") => Err(format!("HTTP status {status}")),
        _ => Err("an answer that is not HTTP/1".into()),
    }
}

/// An I/O error in words, without the `(os error 111)`.
pub(crate) fn in_words(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}
