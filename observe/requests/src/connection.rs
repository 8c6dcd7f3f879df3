//! A kept-alive connection for HTTP/1.1 or gRPC. Every sender has its own, so no case waits for another.

use model::trace::Outcome;
use std::future::Future;
use std::time::Duration;
use tokio::net::TcpStream;

/// Connects at the first use, and again after a failure.
pub struct Connection<S> {
    pub(crate) sender: Option<S>,
    authority: String,
}

/// No reply was received.
#[derive(Debug)]
pub struct NoReply {
    /// A gRPC code, as the format requires it.
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

/// A hyper sender of one HTTP version.
pub trait RequestSender: Sized {
    /// Whether another request can be sent; waits until then.
    fn is_usable(&mut self) -> impl Future<Output = bool> + Send;

    /// Starts HTTP on a TCP connection, in a task of its own.
    fn handshake(stream: TcpStream) -> impl Future<Output = hyper::Result<Self>> + Send;
}

impl<S: RequestSender> Connection<S> {
    pub fn new(authority: &str) -> Connection<S> {
        Connection { sender: None, authority: authority.to_owned() }
    }

    /// The sender, after connecting if there is no usable connection.
    pub(crate) async fn ready(&mut self) -> Result<&mut S, NoReply> {
        let usable = match &mut self.sender {
            Some(sender) => sender.is_usable().await,
            None => false,
        };
        if !usable {
            let stream =
                TcpStream::connect(&self.authority).await.map_err(|e| NoReply::unreachable(&self.authority, &e))?;
            tracing::debug!(authority = self.authority, "connected");
            let _ = stream.set_nodelay(true);
            self.sender = Some(S::handshake(stream).await.map_err(|e| NoReply::unavailable(e.to_string()))?);
        }
        Ok(self.sender.as_mut().expect("just connected"))
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
        if result.is_err() {
            self.sender = None;
        }
        result
    }
}
