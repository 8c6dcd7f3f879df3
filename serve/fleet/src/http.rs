//! HTTP/1.1 over an accepted connection, for the slices and for the metrics.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Delay before the next accept after a failure, for example if there are no free descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Accepts connections up to a limit. Further ones are closed at once.
pub(crate) struct Acceptor {
    listener: TcpListener,
    connections: Arc<Semaphore>,
}

impl Acceptor {
    pub fn new(listener: TcpListener, max_connections: usize) -> Acceptor {
        Acceptor { listener, connections: Arc::new(Semaphore::new(max_connections)) }
    }

    pub fn listener(&self) -> &TcpListener {
        &self.listener
    }

    /// The next connection within the limit. The permit must be kept until the connection ends.
    pub async fn accept(&self) -> (TcpStream, OwnedSemaphorePermit) {
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            };
            if let Ok(permit) = self.connections.clone().try_acquire_owned() {
                return (stream, permit);
            }
            tracing::debug!("closed a connection above the limit");
        }
    }
}

/// Smallest buffer that hyper accepts.
const REQUEST_BYTES_MIN: usize = 8 << 10;

/// Serves one request and closes the connection. An error affects only this peer.
pub(crate) async fn serve_one<I>(io: I, router: Router, header_timeout: Duration, request_bytes: usize)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .max_buf_size(request_bytes.max(REQUEST_BYTES_MIN))
        .keep_alive(false)
        .serve_connection(TokioIo::new(io), TowerToHyperService::new(router));
    if let Err(error) = connection.await {
        tracing::debug!(%error, "connection failed");
    }
}
