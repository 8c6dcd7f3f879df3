//! `GET /metrics`: exposes the counters that the agent writes to a file, for Prometheus. Plain HTTP, on loopback by
//! default.

use crate::http::{accept, serve_one};
use crate::waiting_room::WaitingRoom;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::time::timeout;

/// Above it, the oldest one is closed.
const CONNECTIONS_MAX: usize = 64;
const TIMEOUT: Duration = Duration::from_secs(5);
const REQUEST_BYTES_MAX: usize = 8 << 10;
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Serves until the future is dropped. Reads the file for each request.
pub async fn serve_metrics(listener: TcpListener, file: PathBuf) {
    let file: Arc<Path> = file.into();
    let router = Router::new()
        .route("/metrics", get(move || respond(file.clone())))
        .fallback(|| async { (StatusCode::NOT_FOUND, "not found; the only path is /metrics\n") })
        .method_not_allowed_fallback(|| async { (StatusCode::METHOD_NOT_ALLOWED, "only GET is supported\n") });
    let room = WaitingRoom::new(CONNECTIONS_MAX);
    loop {
        let (stream, peer) = accept(&listener).await;
        let (router, ticket) = (router.clone(), room.enter(peer.ip()));
        tokio::spawn(ticket.keep(async move {
            let _ = timeout(TIMEOUT, serve_one(stream, router, TIMEOUT, REQUEST_BYTES_MAX)).await;
        }));
    }
}

async fn respond(file: Arc<Path>) -> axum::response::Response {
    match read(&file).await {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the agent has not written its counters\n").into_response(),
    }
}

async fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    tokio::fs::File::open(file).await?.take(FILE_BYTES_MAX).read_to_end(&mut text).await?;
    Ok(text)
}
