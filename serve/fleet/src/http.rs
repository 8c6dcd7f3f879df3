//! HTTP/1.1 over an accepted connection, for the slices and for the metrics.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// Delay before the next accept after a failure, for example if there are no free descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The next connection.
pub(crate) async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
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
