//! Sends a request with a plan and joins its reply into a trace.

use crate::bridge::bridged;
use crate::connection::NoReply;
use crate::credentials::{Credentials, Start};
use crate::numbered;
use crate::redirect::{self, REDIRECTS_MAX, Redirect};
use crate::request::{RequestSpec, Transport};
use crate::{grpc, http_call};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use model::trace::{Outcome, Protocol, Trace};
use model::{Failure, Fault, Verdict};
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};
use wire::carrier::{last_value, split_tail};
use wire::envelope::Accept;
use wire::history;
use wire::tree::{self, EntryCall};

/// The largest gRPC reply that is accepted, in bytes.
pub(crate) const RECEIVE_LIMIT: u64 = 64 << 20;

/// The reply to a request, and its trace.
pub struct Reply {
    pub outcome: Outcome,
    /// Body without tail; for gRPC the message without the field.
    pub body: Bytes,
    pub latency_us: u64,
    /// Why there was no reply, or the status message of a failed gRPC call.
    pub reason: Option<String>,
    /// No connection could be made, so nothing was sent.
    pub unreachable: bool,
    /// What the user can do about a missing reply, if that is known.
    pub next: Option<String>,
    /// Size of the history in bytes, 0 without one.
    pub history_bytes: usize,
    pub trace: Trace,
    /// Where the reply redirects to.
    pub location: Option<String>,
    /// The redirects that were followed. The rest of this is about the last request.
    pub redirects: Vec<Redirect>,
    /// Why a redirect could not be followed to its end.
    pub redirect_problem: Option<String>,
    /// The last request went to another origin, so it had no envelope.
    pub is_foreign: bool,
    /// Indices of faults that fired in redirected requests.
    pub fired_before: BTreeSet<usize>,
    /// What `{case}` expanded to.
    pub number: String,
    /// The replies to the requests sent after this one.
    pub after: Vec<StateReply>,
    /// What the oracles that need more than this reply decided. Empty until they have run.
    pub checks: Vec<Checked>,
}

/// A reply to a request that was sent after another one, to query its state. The error is the reason for no reply.
pub type StateReply = Result<(u16, Bytes), String>;

/// The decision of one oracle about a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    pub verdict: Verdict,
    /// For fail and unknown: which oracle, and why.
    pub reason: String,
}

impl Reply {
    pub fn status(&self) -> Option<u32> {
        match self.outcome {
            Outcome::Replied { status } => Some(status),
            _ => None,
        }
    }
}

/// Sends requests one after the other over one connection. Cheap to create; a sweep has one per worker.
pub struct Sender {
    credentials: Credentials,
    run: Option<[u8; 16]>,
    http: Option<http_call::Connection>,
    grpc: Option<grpc::Connection>,
    /// Connections for the requests sent before and after, by origin.
    others: HashMap<String, http_call::Connection>,
}

impl Sender {
    pub fn new(credentials: Credentials, run: Option<[u8; 16]>) -> Sender {
        Sender { credentials, run, http: None, grpc: None, others: HashMap::new() }
    }

    /// Replaces `{case}`, sends the `before` requests, the request, then the `after` requests.
    ///
    /// Errors: the request cannot be built (no key, plan too large), or a `before` request failed. An unreachable
    /// target is data.
    pub async fn send(&mut self, spec: &RequestSpec, faults: &[Fault]) -> Result<Reply, Failure> {
        let number = numbered::number();
        for before in &spec.before {
            self.prepare(&before.with_number(&number)).await?;
        }
        let filled = &*spec.with_number(&number);
        let mut reply = match spec.transport {
            Transport::Http if spec.follow => self.send_following(filled, faults).await,
            Transport::Http => self.send_http(filled, faults).await,
            Transport::Grpc => self.send_grpc(filled, faults).await,
        }?;
        reply.after = self.send_after(spec, &number).await;
        reply.number = number;
        Ok(reply)
    }

    /// Sends the requests that query the state after the request with this number.
    pub async fn send_after(&mut self, spec: &RequestSpec, number: &str) -> Vec<StateReply> {
        let mut replies = Vec::with_capacity(spec.after.len());
        for query in &spec.after {
            let query = query.with_number(number);
            let sent = self.other(&query).send(&query, None).await;
            replies.push(sent.map(|raw| (raw.status, raw.body)).map_err(|none| none.reason));
        }
        replies
    }

    fn other(&mut self, spec: &RequestSpec) -> &mut http_call::Connection {
        self.others.entry(spec.origin()).or_insert_with(|| http_call::Connection::new(spec))
    }

    async fn prepare(&mut self, spec: &RequestSpec) -> Result<(), Failure> {
        let connection = self.other(spec);
        let failed = |why: String| {
            Failure::environment(format!("a request of --before failed: {} {}", spec.method, spec.url()))
                .why(why)
                .next("the request itself was not sent; check the service's log")
        };
        match connection.send(spec, None).await {
            Ok(raw) if raw.status < 400 => Ok(()),
            Ok(raw) => Err(failed(format!("status {}", raw.status))),
            Err(none) => Err(failed(none.reason)),
        }
    }

    /// Sends the request without an envelope.
    pub async fn send_clean(&mut self, spec: &RequestSpec) -> Result<(u16, Bytes), String> {
        let connection = self.http.get_or_insert_with(|| http_call::Connection::new(spec));
        connection.send(spec, None).await.map(|raw| (raw.status, raw.body)).map_err(|e| e.reason)
    }

    /// Sends the request, then those that the replies redirect to. Those of its own origin have the same faults.
    async fn send_following(&mut self, first: &RequestSpec, faults: &[Fault]) -> Result<Reply, Failure> {
        let mut current = first.clone();
        let mut reply = self.send_http(first, faults).await?;
        let mut visited = vec![format!("{} {}", first.method, first.url())];
        let (mut redirects, mut fired, mut latency_us) = (Vec::new(), BTreeSet::new(), 0);
        while let Some(to) = reply.location.clone() {
            let status = reply.status().unwrap_or_default();
            let next = match redirect::following(first, &current, status, &to) {
                Ok(next) => next,
                Err(why) => {
                    reply.redirect_problem = Some(why);
                    break;
                }
            };
            let step = format!("{} {}", next.method, next.url());
            let from = visited.last().cloned().unwrap_or_default();
            redirects.push(Redirect { status, from, calls: reply.trace.walk().len(), to: step.clone() });
            if let Some(at) = visited.iter().position(|earlier| *earlier == step) {
                let circle = [&visited[at..], &[step]].concat().join(" → ");
                reply.redirect_problem = Some(format!("redirect loop: {circle}"));
                break;
            }
            if redirects.len() > REDIRECTS_MAX {
                reply.redirect_problem =
                    Some(format!("redirected more than {REDIRECTS_MAX} times; the last one to {step}"));
                break;
            }
            visited.push(step);
            fired.extend(reply.trace.walk().iter().filter_map(|call| call.fault));
            latency_us += reply.latency_us;
            reply = if next.origin() == first.origin() {
                self.send_http(&next, faults).await?
            } else {
                self.send_foreign(&next).await?
            };
            current = next;
        }
        (reply.redirects, reply.fired_before) = (redirects, fired);
        reply.latency_us += latency_us;
        Ok(reply)
    }

    /// To another origin: without an envelope.
    async fn send_foreign(&mut self, spec: &RequestSpec) -> Result<Reply, Failure> {
        let start = self.credentials.start(self.run, false, &[], Accept { field: false, tail: false }, 0)?;
        let begin = Instant::now();
        let result = self.other(spec).send(spec, None).await;
        let location = location(spec, &result);
        let received =
            result.map(|raw| Received { status: raw.status.into(), body: raw.body, history: None, reason: None });
        let reply = join(spec, Protocol::Http, &start, begin.elapsed(), received);
        Ok(Reply { location, is_foreign: true, ..reply })
    }

    async fn send_http(&mut self, spec: &RequestSpec, faults: &[Fault]) -> Result<Reply, Failure> {
        let start = self.credentials.start(self.run, spec.bridge, faults, Accept { field: false, tail: true }, 0)?;
        let header = URL_SAFE_NO_PAD.encode(&start.envelope);
        let connection = self.http.get_or_insert_with(|| http_call::Connection::new(spec));
        let begin = Instant::now();
        let result = connection.send(&bridged(spec, &start), Some(&header)).await;
        let latency = begin.elapsed();
        let location = location(spec, &result);
        let received = result.map(|raw| {
            let (body, history) = split(&raw.headers, raw.body);
            Received { status: raw.status.into(), body, history, reason: None }
        });
        Ok(Reply { location, ..join(spec, Protocol::Http, &start, latency, received) })
    }

    async fn send_grpc(&mut self, spec: &RequestSpec, faults: &[Fault]) -> Result<Reply, Failure> {
        let accept = Accept { field: true, tail: false };
        let start = self.credentials.start(self.run, spec.bridge, faults, accept, RECEIVE_LIMIT)?;
        let connection = self.grpc.get_or_insert_with(|| grpc::Connection::new(spec));
        let begin = Instant::now();
        let result = connection.call(&bridged(spec, &start), &start.envelope).await;
        let latency = begin.elapsed();
        let received = result.map(|raw| Received {
            status: raw.status,
            body: raw.message,
            history: raw.history,
            reason: raw.reason,
        });
        Ok(join(spec, Protocol::Grpc, &start, latency, received))
    }
}

fn location(spec: &RequestSpec, result: &Result<http_call::Raw, NoReply>) -> Option<String> {
    result.as_ref().ok().and_then(|raw| redirect::target(spec, raw.status, &raw.headers))
}

/// A reply of either transport.
struct Received {
    status: u32,
    body: Bytes,
    history: Option<Bytes>,
    reason: Option<String>,
}

fn split(headers: &http::HeaderMap, body: Bytes) -> (Bytes, Option<Bytes>) {
    let value =
        |name: &str| last_value(headers.get_all(name).into_iter().map(|line| line.to_str().unwrap_or_default()));
    if value("x-faultloom-reply") == Some("tail")
        && let (plain, Some(history)) = split_tail(&body)
    {
        return (body.slice(..plain.len()), Some(Bytes::copy_from_slice(history)));
    }
    let history = value("x-faultloom-history").and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
    (body, history.map(Bytes::from))
}

fn join(
    spec: &RequestSpec,
    protocol: Protocol,
    start: &Start,
    latency: Duration,
    received: Result<Received, NoReply>,
) -> Reply {
    let unreachable = received.as_ref().is_err_and(|none| none.unreachable);
    let next = received.as_ref().err().and_then(|none| none.next.clone());
    let (outcome, body, history, reason) = match received {
        Ok(reply) => (Outcome::Replied { status: reply.status }, reply.body, reply.history, reply.reason),
        Err(none) => (none.outcome(), Bytes::new(), None, Some(none.reason)),
    };
    let latency_us = latency.as_micros() as u64;
    let entry = EntryCall {
        trace_id: start.trace_id,
        call: start.call,
        name: spec.name(),
        peer: spec.authority.clone(),
        protocol,
        duration_us: latency_us,
        outcome,
    };
    let history_bytes = history.as_ref().map_or(0, Bytes::len);
    tracing::debug!(request = entry.name, peer = entry.peer, ?outcome, latency_us, history_bytes, reason, "request");
    let (history, unreadable) = match history.map(|bytes| history::read(&bytes)) {
        None => (None, None),
        Some(Ok(history)) if history.call == start.call => (Some(history), None),
        Some(Ok(_)) => (None, Some("it answers another call".to_owned())),
        Some(Err(why)) => (None, Some(why.to_string())),
    };
    let mut trace = tree::trace(entry, history);
    trace.entry.unreadable = unreadable;
    Reply {
        outcome,
        body,
        latency_us,
        reason,
        unreachable,
        next,
        history_bytes,
        trace,
        location: None,
        redirects: Vec::new(),
        redirect_problem: None,
        is_foreign: false,
        fired_before: BTreeSet::new(),
        number: String::new(),
        after: Vec::new(),
        checks: Vec::new(),
    }
}
