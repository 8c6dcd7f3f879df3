//! Protocol 1, of older versions, in both directions: hosts of a fleet are not upgraded at the same moment.
//!
//! Over TLS without ALPN, the client sends one frame with its request and reads one with the answer. A frame is a
//! length of four bytes, big-endian, and as many bytes of JSON. The answer is `{"slice": …}` or
//! `{"refused": "REASON"}`.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request as HttpRequest, StatusCode, header};
use flows::Slice;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Request {
    version: u32,
    token: String,
    from_ms: i64,
    to_ms: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Slice(Slice),
    Refused(String),
}

/// The request of a client, as a request for the routes of protocol 2.
///
/// # Errors
/// The frame is longer than `bytes_max`, incomplete, or not a request of this version.
pub(crate) async fn read_request(
    stream: &mut (impl AsyncRead + Unpin),
    bytes_max: usize,
) -> Result<HttpRequest<Body>, String> {
    let Request { version, token, from_ms, to_ms } = read(stream, bytes_max).await?;
    if version != VERSION {
        return Err(format!("version {version} is not supported"));
    }
    HttpRequest::get(format!("/v2/slice?from_ms={from_ms}&to_ms={to_ms}"))
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .body(Body::empty())
        .map_err(|e| e.to_string())
}

/// Answers a request and closes the stream. The routes check the token and the limits.
pub(crate) async fn respond(
    mut stream: impl AsyncWrite + Unpin,
    request: Result<HttpRequest<Body>, String>,
    router: Router,
    bytes_max: usize,
) -> std::io::Result<()> {
    let (status, body) = match request {
        Ok(request) => {
            let Ok(response) = TowerToHyperService::new(router).call(request).await;
            let status = response.status();
            (status, to_bytes(response.into_body(), bytes_max).await.map_err(std::io::Error::other)?)
        }
        Err(why) => (StatusCode::BAD_REQUEST, format!("the request is invalid: {why}").into()),
    };
    let answer = match status {
        StatusCode::OK => [b"{\"slice\":", &body[..], b"}"].concat(),
        _ => serde_json::json!({"refused": String::from_utf8_lossy(&body)}).to_string().into_bytes(),
    };
    write(&mut stream, &answer).await?;
    stream.shutdown().await
}

/// Requests a slice from a server.
pub(crate) async fn request(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    token: &str,
    (from_ms, to_ms): (i64, i64),
    bytes_max: usize,
) -> Result<Slice, String> {
    let request = Request { version: VERSION, token: token.to_owned(), from_ms, to_ms };
    let request = serde_json::to_vec(&request).map_err(|e| e.to_string())?;
    write(&mut stream, &request).await.map_err(|e| e.to_string())?;
    match read(&mut stream, bytes_max).await? {
        Answer::Slice(slice) => Ok(slice),
        Answer::Refused(reason) => Err(reason),
    }
}

async fn read<T: DeserializeOwned>(stream: &mut (impl AsyncRead + Unpin), bytes_max: usize) -> Result<T, String> {
    let length = stream.read_u32().await.map_err(|e| e.to_string())? as usize;
    if length > bytes_max {
        return Err(format!("{length} bytes are more than the limit of {bytes_max}"));
    }
    // the buffer grows with the received bytes, not with the announced length
    let mut bytes = Vec::new();
    stream.take(length as u64).read_to_end(&mut bytes).await.map_err(|e| e.to_string())?;
    if bytes.len() < length {
        return Err("the frame is incomplete".to_owned());
    }
    serde_json::from_slice(&bytes).map_err(|e| e.to_string())
}

async fn write(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> std::io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(std::io::Error::other)?;
    stream.write_u32(length).await?;
    stream.write_all(bytes).await?;
    stream.flush().await
}
