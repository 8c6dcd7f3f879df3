//! Serves the slices of this host: `GET /v2/slice?from_ms=…&to_ms=…` with a bearer token, over TLS.

use crate::http::{accept, serve_one};
use crate::identity::{ALPN, Identity};
use crate::protocol_1;
use crate::token::Token;
use crate::waiting_room::{Seat, WaitingRoom};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use flows::Slice;
use model::Failure;
use serde::Deserialize;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Source of the slices.
pub trait Slices: Send + Sync + 'static {
    fn slice(&self, from_ms: i64, to_ms: i64) -> impl Future<Output = Result<Slice, Failure>> + Send;
}

/// Limits of what one peer can cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections whose peer has not shown the token yet; above it, the oldest one is closed.
    pub waiting: usize,
    /// Requests with the token that are answered at the same time; further ones wait.
    pub requests: usize,
    /// Time for the TLS handshake, and then for the request.
    pub request: Duration,
    /// Time to read the slice, and then to send it.
    pub answer: Duration,
    /// Size of the request; at least 8 KiB are permitted.
    pub request_bytes: usize,
    pub answer_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            waiting: 256,
            requests: 32,
            request: Duration::from_secs(5),
            answer: Duration::from_secs(30),
            request_bytes: 8 << 10,
            answer_bytes: 64 << 20,
        }
    }
}

/// Longest permitted interval of a slice.
const INTERVAL_MAX_MS: i64 = 400 * 86_400_000;

pub struct Server {
    listener: TcpListener,
    tls: TlsAcceptor,
    router: Router,
    limits: Limits,
}

/// State of the request handler.
struct Shared<S> {
    token: Token,
    slices: S,
    limits: Limits,
    requests: Arc<Semaphore>,
}

impl Server {
    /// Binds the address. Requests are served by [`Server::run`].
    pub async fn bind<S: Slices>(
        address: SocketAddr,
        identity: &Identity,
        token: Token,
        slices: S,
        limits: Limits,
    ) -> Result<Server, Failure> {
        let listener = TcpListener::bind(address).await.map_err(|e| {
            Failure::environment(format!("cannot listen on {address}: {e}"))
                .next("choose another address with --listen")
        })?;
        let router = Router::new()
            .route("/v2/slice", get(slice::<S>))
            .fallback(|| async {
                (StatusCode::NOT_FOUND, "this host serves /v2/slice; upgrade the older of the two hosts")
            })
            .with_state(Arc::new(Shared {
                token,
                slices,
                limits,
                requests: Arc::new(Semaphore::new(limits.requests)),
            }));
        let tls = TlsAcceptor::from(identity.server_config()?);
        Ok(Server { listener, tls, router, limits })
    }

    pub fn address(&self) -> Result<SocketAddr, Failure> {
        let address = self.listener.local_addr();
        address.map_err(|e| Failure::environment(format!("cannot read the address of the listener: {e}")))
    }

    /// Serves until `stop` is ready. Requests in progress are then dropped.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let room = WaitingRoom::new(self.limits.waiting);
        let mut peers = JoinSet::new();
        tokio::pin!(stop);
        loop {
            let (stream, peer) = tokio::select! {
                () = &mut stop => return,
                accepted = accept(&self.listener) => accepted,
                Some(_) = peers.join_next() => continue,
            };
            let ticket = room.enter(peer.ip());
            let router = self.router.clone().layer(Extension(ticket.seat()));
            let (tls, limits) = (self.tls.clone(), self.limits);
            peers.spawn(ticket.keep(serve(stream, tls, router, limits)));
        }
    }
}

/// Serves one request. A peer that violates the protocol or a limit is disconnected.
async fn serve(stream: TcpStream, tls: TlsAcceptor, router: Router, limits: Limits) {
    let tls = match timeout(limits.request, tls.accept(stream)).await {
        Ok(Ok(tls)) => tls,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => return tracing::debug!("TLS handshake timed out"),
    };
    // the handler limits the time to wait for other requests and to read the slice; the rest is for sending it
    let answer_time = limits.request + 2 * limits.answer;
    if tls.get_ref().1.alpn_protocol() == Some(ALPN) {
        let serve = serve_one(tls, router, limits.request, limits.request_bytes);
        let _ = timeout(limits.request + answer_time, serve).await;
    } else {
        serve_protocol_1(tls, router, limits, answer_time).await;
    }
}

async fn serve_protocol_1(mut tls: TlsStream<TcpStream>, router: Router, limits: Limits, answer_time: Duration) {
    tracing::debug!("a client of protocol 1");
    let request = protocol_1::read_request(&mut tls, limits.request_bytes);
    let Ok(request) = timeout(limits.request, request).await else { return };
    let respond = protocol_1::respond(tls, request, router, limits.answer_bytes);
    if let Ok(Err(error)) = timeout(answer_time, respond).await {
        tracing::debug!(%error, "connection failed");
    }
}

#[derive(Deserialize)]
struct Interval {
    from_ms: i64,
    to_ms: i64,
}

async fn slice<S: Slices>(
    State(shared): State<Arc<Shared<S>>>,
    Extension(seat): Extension<Seat>,
    headers: HeaderMap,
    interval: Result<Query<Interval>, QueryRejection>,
) -> Response {
    let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    // check the token first, so that an unauthorized peer costs nothing and gets no other information
    if !header.and_then(|value| value.strip_prefix("Bearer ")).is_some_and(|token| shared.token.matches(token)) {
        return refuse(StatusCode::UNAUTHORIZED, "the token is not the one of this host");
    }
    seat.leave();
    match timeout(shared.limits.request, shared.requests.clone().acquire_owned()).await {
        Ok(Ok(permit)) => seat.keep_permit(permit),
        _ => return refuse(StatusCode::SERVICE_UNAVAILABLE, "this host answers too many requests at the moment"),
    }
    let Ok(Query(Interval { from_ms, to_ms })) = interval else {
        return refuse(StatusCode::BAD_REQUEST, "from_ms and to_ms are required");
    };
    let length = to_ms.checked_sub(from_ms);
    if !length.is_some_and(|length| (0..=INTERVAL_MAX_MS).contains(&length)) {
        return refuse(StatusCode::BAD_REQUEST, "the range ends before it starts, or is longer than 400 days");
    }
    let slice = match timeout(shared.limits.answer, shared.slices.slice(from_ms, to_ms)).await {
        Err(_) => return refuse(StatusCode::GATEWAY_TIMEOUT, "the store did not answer in time"),
        Ok(Err(failure)) => return refuse(StatusCode::SERVICE_UNAVAILABLE, failure.what),
        Ok(Ok(slice)) => slice,
    };
    match serde_json::to_vec(&slice) {
        Ok(bytes) if bytes.len() <= shared.limits.answer_bytes => {
            tracing::debug!(from_ms, to_ms, hosts = slice.hosts.len(), bytes = bytes.len(), "slice served");
            ([(header::CONTENT_TYPE, "application/json")], bytes).into_response()
        }
        Ok(bytes) => {
            let (size, max) = (bytes.len(), shared.limits.answer_bytes);
            let why = format!("the slice has {size} bytes, more than the limit of {max}: request a shorter range");
            refuse(StatusCode::UNPROCESSABLE_ENTITY, why)
        }
        Err(e) => refuse(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()),
    }
}

/// The reason is for the user of the client.
fn refuse(status: StatusCode, why: impl Into<String>) -> Response {
    let why = why.into();
    tracing::debug!(status = status.as_u16(), why, "slice refused");
    (status, why).into_response()
}
