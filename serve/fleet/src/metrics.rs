//! `GET /metrics`: the agent's counters, which it writes into a file, for Prometheus. Plain HTTP, on loopback unless told otherwise.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

const CONNECTIONS: usize = 8;
const PATIENCE: Duration = Duration::from_secs(5);
const REQUEST_BYTES_MAX: usize = 8 << 10;
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Never returns; to be dropped. Each request reads the file anew.
pub async fn serve_metrics(listener: TcpListener, file: PathBuf) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let file: Arc<Path> = file.into();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        if let Ok(place) = places.clone().try_acquire_owned() {
            let file = file.clone();
            tokio::spawn(async move {
                let _ = timeout(PATIENCE, serve(stream, &file)).await;
                drop(place);
            });
        }
    }
}

async fn serve(mut stream: TcpStream, file: &Path) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|w| w == b"\r\n\r\n") {
        let n = stream.read(&mut part).await?;
        if n == 0 || request.len() + n > REQUEST_BYTES_MAX {
            return reply(&mut stream, "400 Bad Request", b"the request has no end, or is too long\n").await;
        }
        request.extend_from_slice(&part[..n]);
    }
    let line = request.split(|b| *b == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    match line.split(' ').collect::<Vec<_>>()[..] {
        ["GET", "/metrics", _] => match read(file).await {
            Ok(text) => reply(&mut stream, "200 OK", &text).await,
            Err(_) => reply(&mut stream, "503 Service Unavailable", b"the agent has not written its counters\n").await,
        },
        ["GET", ..] => reply(&mut stream, "404 Not Found", b"there is /metrics, nothing else\n").await,
        _ => reply(&mut stream, "405 Method Not Allowed", b"GET is all there is\n").await,
    }
}

async fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    tokio::fs::File::open(file).await?.take(FILE_BYTES_MAX).read_to_end(&mut text).await?;
    Ok(text)
}

async fn reply(stream: &mut TcpStream, status: &str, body: &[u8]) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await?;
    stream.shutdown().await
}
