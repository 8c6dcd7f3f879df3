//! Sending a request with a plan and joining its reply into a trace.

use crate::bridge::bridged;
use crate::credentials::Credentials;
use crate::grpc;
use crate::http1::Connection;
use crate::numbered;
use crate::request::{RequestSpec, Transport};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use model::trace::{Outcome, Protocol, Trace};
use model::{Failure, Fault};
use std::collections::HashMap;
use std::time::Instant;
use wire::carrier::split_tail;
use wire::envelope::Accept;
use wire::history;
use wire::tree::{self, EntryCall};

/// What we can take in a gRPC reply.
pub(crate) const RECEIVE_LIMIT: u64 = 64 << 20;

/// What came back, and what the request did on its way.
pub struct Reply {
    pub outcome: Outcome,
    /// Body without tail; for gRPC the message without the field.
    pub body: Bytes,
    pub latency_us: u64,
    /// Why there was no reply.
    pub reason: Option<String>,
    /// Nobody listens there, or the name is not known: nothing was sent.
    pub unreachable: bool,
    /// Size of the history in bytes, 0 without one.
    pub history_bytes: usize,
    pub trace: Trace,
}

impl Reply {
    pub fn status(&self) -> Option<u32> {
        match self.outcome {
            Outcome::Replied { status } => Some(status),
            _ => None,
        }
    }
}

/// Sends requests over one connection, one after the other. Cheap to make; a sweep has one per worker.
pub struct Sender {
    credentials: Credentials,
    run: Option<[u8; 16]>,
    http: Option<Connection>,
    grpc: Option<grpc::Connection>,
    /// For what is sent before, which may go elsewhere.
    before: HashMap<String, Connection>,
}

impl Sender {
    pub fn new(credentials: Credentials, run: Option<[u8; 16]>) -> Sender {
        Sender { credentials, run, http: None, grpc: None, before: HashMap::new() }
    }

    /// An error means that the request could not even be made (keys missing, plan too large); an unreachable target is data.
    ///
    /// `{case}` in the request is filled in, and what it needs `before` is sent first; if that fails, so does this.
    pub async fn send(&mut self, spec: &RequestSpec, faults: &[Fault]) -> Result<Reply, Failure> {
        let number = numbered::number();
        for before in &spec.before {
            self.prepare(&before.with_number(&number)).await?;
        }
        let spec = &*spec.with_number(&number);
        match spec.transport {
            Transport::Http => self.send_http(spec, faults).await,
            Transport::Grpc => self.send_grpc(spec, faults).await,
        }
    }

    async fn prepare(&mut self, spec: &RequestSpec) -> Result<(), Failure> {
        let connection = self.before.entry(spec.authority.clone()).or_insert_with(|| Connection::new(&spec.authority));
        let failed = |why: String| {
            Failure::environment(format!("what is sent before failed: {} {}", spec.method, spec.url()))
                .why(why)
                .next("the request proper was not sent; look at the service's log")
        };
        match connection.send(spec, None).await {
            Ok(raw) if raw.status < 400 => Ok(()),
            Ok(raw) => Err(failed(format!("status {}", raw.status))),
            Err(none) => Err(failed(none.reason)),
        }
    }

    /// The same request without an envelope: clean traffic, as any client would send it.
    pub async fn send_clean(&mut self, spec: &RequestSpec) -> Result<(u16, Bytes), String> {
        let connection = self.http.get_or_insert_with(|| Connection::new(&spec.authority));
        connection.send(spec, None).await.map(|raw| (raw.status, raw.body)).map_err(|e| e.reason)
    }

    async fn send_http(&mut self, spec: &RequestSpec, faults: &[Fault]) -> Result<Reply, Failure> {
        let start = self.credentials.start(self.run, spec.bridge, faults, Accept { field: false, tail: true }, 0)?;
        let header = URL_SAFE_NO_PAD.encode(&start.envelope);
        let connection = self.http.get_or_insert_with(|| Connection::new(&spec.authority));
        let begin = Instant::now();
        let raw = connection.send(&bridged(spec, &start), Some(&header)).await;
        let latency_us = begin.elapsed().as_micros() as u64;
        let mut unreachable = false;
        let (outcome, body, history, reason) = match raw {
            Ok(raw) => {
                let (body, history) = split(&raw.headers, raw.body);
                (Outcome::Replied { status: raw.status.into() }, body, history, None)
            }
            Err(none) => {
                unreachable = none.unreachable;
                (Outcome::Failed { status: none.code }, Bytes::new(), None, Some(none.reason))
            }
        };
        let reply = join(spec, Protocol::Http, start.trace_id, start.call, latency_us, outcome, body, history, reason);
        Ok(Reply { unreachable, ..reply })
    }

    async fn send_grpc(&mut self, spec: &RequestSpec, faults: &[Fault]) -> Result<Reply, Failure> {
        let start = self.credentials.start(
            self.run,
            spec.bridge,
            faults,
            Accept { field: true, tail: false },
            RECEIVE_LIMIT,
        )?;
        let connection = self.grpc.get_or_insert_with(|| grpc::Connection::new(&spec.authority));
        let begin = Instant::now();
        let raw = connection.call(&bridged(spec, &start), &start.envelope).await;
        let latency_us = begin.elapsed().as_micros() as u64;
        let mut unreachable = false;
        let (outcome, body, history, reason) = match raw {
            Ok(raw) => (Outcome::Replied { status: raw.status }, raw.message, raw.history, raw.reason),
            Err(none) => {
                unreachable = none.unreachable;
                (Outcome::Failed { status: none.code }, Bytes::new(), None, Some(none.reason))
            }
        };
        let reply = join(spec, Protocol::Grpc, start.trace_id, start.call, latency_us, outcome, body, history, reason);
        Ok(Reply { unreachable, ..reply })
    }
}

fn split(headers: &http::HeaderMap, body: Bytes) -> (Bytes, Option<Bytes>) {
    if headers.get("x-faultloom-reply").is_some_and(|v| v.as_bytes() == b"tail") {
        let (plain, history) = split_tail(&body);
        let n = plain.len();
        let history = history.map(Bytes::copy_from_slice);
        return (body.slice(..n), history);
    }
    let history = headers.get("x-faultloom-history").and_then(|v| URL_SAFE_NO_PAD.decode(v.as_bytes()).ok());
    (body, history.map(Bytes::from))
}

#[allow(clippy::too_many_arguments)] // one place joins what the two transports found
fn join(
    spec: &RequestSpec,
    protocol: Protocol,
    trace_id: [u8; 16],
    call: u64,
    latency_us: u64,
    outcome: Outcome,
    body: Bytes,
    history: Option<Bytes>,
    reason: Option<String>,
) -> Reply {
    let entry = EntryCall {
        trace_id,
        call,
        name: spec.name(),
        peer: spec.authority.clone(),
        protocol,
        duration_us: latency_us,
        outcome,
    };
    let history_bytes = history.as_ref().map_or(0, Bytes::len);
    let decoded = history.and_then(|bytes| history::decode(&bytes).ok());
    Reply { outcome, body, latency_us, reason, unreachable: false, history_bytes, trace: tree::trace(entry, decoded) }
}
