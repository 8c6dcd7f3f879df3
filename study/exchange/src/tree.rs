//! Converts spans to calls: a client span and the server span below it are the two sides of one call.
//!
//! Spans in between (internal ones, a client below a client) are not messages; the spans below them belong to the
//! nearest ancestor that is one. A call that only one side recorded is kept: without the callee's span it is a gap,
//! without the caller's it has the callee's times. Every span without a parent in the file begins a trace of its own.

use crate::export::hex32;
use crate::otlp_spans::{Kind, SpanIn};
use model::trace::{Call, Outcome, Protocol, Scope, Trace};
use std::collections::{HashMap, VecDeque};
use wire::call_id::answered_call;
use wire::history::DEPTH_MAX;
use wire::span::{FAILED, FAULT, FAULTS_OFF, GAP, GRPC_STATUS, HTTP_STATUS, PEER, TRUNCATED};
use wire::tree::name_callees;

/// The caller of an entry call that has only a server span.
const UNKNOWN_CALLER: &str = "client";

pub(crate) fn traces(id: [u8; 16], spans: Vec<SpanIn>, notices: &mut Vec<String>) -> Vec<Trace> {
    let forest = Forest::of(&spans);
    let mut builder = Builder { spans: &spans, below: &forest.below, too_deep: 0, callee_only: 0 };
    let mut traces: Vec<Trace> =
        forest.roots.iter().map(|root| Trace { trace_id: hex32(id), entry: builder.entry(*root) }).collect();
    traces.iter_mut().for_each(|trace| name_callees(&mut trace.entry));
    let mut notice = |n: usize, words: &str| {
        if n > 0 {
            notices.push(format!("trace {}: {words}: {n}", hex32(id)));
        }
    };
    notice(forest.orphans, "spans whose parent is not in the file");
    notice(if traces.len() > 1 { traces.len() } else { 0 }, "root spans, each imported as a request of its own");
    notice(forest.circular, "spans that are their own ancestors, left out");
    notice(builder.too_deep, &format!("calls nested deeper than {DEPTH_MAX}, left out"));
    notice(builder.callee_only, "calls recorded only by their callee");
    traces
}

/// The spans that are sides of calls, each with those below it, ordered by start.
struct Forest {
    roots: Vec<usize>,
    below: HashMap<usize, Vec<usize>>,
    orphans: usize,
    circular: usize,
}

impl Forest {
    fn of(spans: &[SpanIn]) -> Forest {
        let at: HashMap<u64, usize> = spans.iter().enumerate().map(|(i, s)| (s.id, i)).collect();
        let mut children: HashMap<usize, Vec<usize>> = HashMap::new();
        let mut forest = Forest { roots: Vec::new(), below: HashMap::new(), orphans: 0, circular: 0 };
        let mut queue: VecDeque<(usize, Option<usize>)> = VecDeque::new();
        for (i, span) in spans.iter().enumerate() {
            match span.parent.map(|p| at.get(&p)) {
                Some(Some(parent)) => children.entry(*parent).or_default().push(i),
                missing => {
                    forest.orphans += usize::from(missing.is_some());
                    queue.push_back((i, None));
                }
            }
        }
        let mut reached = 0;
        while let Some((i, above)) = queue.pop_front() {
            reached += 1;
            let between = match spans[i].kind {
                Kind::Internal => above.is_some(),
                Kind::Client => above.is_some_and(|a| spans[a].kind == Kind::Client),
                Kind::Server => false,
            };
            match above {
                _ if between => {}
                Some(above) => forest.below.entry(above).or_default().push(i),
                None => forest.roots.push(i),
            }
            let next = if between { above } else { Some(i) };
            queue.extend(children.remove(&i).into_iter().flatten().map(|child| (child, next)));
        }
        forest.circular = spans.len() - reached;
        let by_start = |list: &mut Vec<usize>| list.sort_by_key(|i| (spans[*i].start_ns, *i));
        by_start(&mut forest.roots);
        forest.below.values_mut().for_each(by_start);
        forest
    }
}

struct Builder<'a> {
    spans: &'a [SpanIn],
    below: &'a HashMap<usize, Vec<usize>>,
    too_deep: usize,
    callee_only: usize,
}

impl Builder<'_> {
    fn below(&self, i: usize) -> &[usize] {
        self.below.get(&i).map_or(&[], Vec::as_slice)
    }

    fn entry(&mut self, root: usize) -> Call {
        let span = &self.spans[root];
        let mut call = if span.kind == Kind::Client {
            self.call_of_client_span(root, &span.service, span.start_ns, 0)
        } else {
            self.call_of_server_span(root, UNKNOWN_CALLER, span.start_ns, 0)
        };
        call.number = 0;
        call
    }

    fn scope(&mut self, i: usize, callers_name: &str, depth: usize) -> Scope {
        let span = &self.spans[i];
        let status = answer(span);
        let mut calls: Vec<(u64, Call)> = Vec::new();
        let inside = self.below(i).to_vec();
        if depth + 1 >= DEPTH_MAX {
            self.too_deep += inside.len();
        } else {
            for child in inside {
                if self.spans[child].kind == Kind::Client {
                    calls.push((
                        self.spans[child].start_ns,
                        self.call_of_client_span(child, &span.service, span.start_ns, depth + 1),
                    ));
                    // a call has one answer: further server spans are calls whose caller did not record them
                    for extra in self.below(child).iter().skip(1).copied().collect::<Vec<_>>() {
                        let call = self.call_of_server_span(extra, &span.service, span.start_ns, depth + 1);
                        self.callee_only += 1;
                        calls.push((self.spans[extra].start_ns, call));
                    }
                } else {
                    let call = self.call_of_server_span(child, &span.service, span.start_ns, depth + 1);
                    self.callee_only += 1;
                    calls.push((self.spans[child].start_ns, call));
                }
            }
        }
        calls.sort_by_key(|(start, _)| *start);
        Scope {
            service: span.service.clone(),
            name: if span.name == callers_name { String::new() } else { span.name.clone() },
            start_us: span.start_ns / 1000,
            answered_us: status.map(|_| us(span.end_ns, span.start_ns)),
            status,
            truncated: span.is(TRUNCATED) || (depth + 1 >= DEPTH_MAX && !self.below(i).is_empty()),
            faults_off: span.is(FAULTS_OFF),
            calls: calls.into_iter().zip(1..).map(|((_, call), number)| Call { number, ..call }).collect(),
        }
    }

    /// The call of a client span and, if there is one, the server span below it. `base_ns`: start of the caller's
    /// scope.
    fn call_of_client_span(&mut self, i: usize, caller: &str, base_ns: u64, depth: usize) -> Call {
        let span = &self.spans[i];
        let scope = self.below(i).first().copied().map(|callee| Box::new(self.scope(callee, &span.name, depth)));
        let outcome = outcome(span);
        let peer = peer(span).or_else(|| scope.as_ref().map(|s| s.service.clone())).unwrap_or("unknown".to_owned());
        Call {
            id: format!("{:016x}", span.id),
            number: 0,
            caller: caller.to_owned(),
            callee: scope.as_ref().map_or_else(|| peer.clone(), |s| s.service.clone()),
            name: span.name.clone(),
            peer,
            protocol: protocol(span),
            sent_us: us(span.start_ns, base_ns),
            ended_us: (outcome != Outcome::Open).then(|| us(span.end_ns, base_ns)),
            outcome,
            fault: span.int(FAULT).map(|index| index as usize),
            gap: scope.is_none() && (!span.ours || span.is(GAP)),
            unreadable: None,
            scope,
        }
    }

    /// A call that only the callee recorded.
    fn call_of_server_span(&mut self, i: usize, caller: &str, base_ns: u64, depth: usize) -> Call {
        let span = &self.spans[i];
        let scope = self.scope(i, "", depth);
        Call {
            id: format!("{:016x}", answered_call(span.id)),
            number: 0,
            caller: caller.to_owned(),
            callee: span.service.clone(),
            name: span.name.clone(),
            peer: span.service.clone(),
            protocol: protocol(span),
            sent_us: us(span.start_ns, base_ns),
            ended_us: Some(us(span.end_ns, base_ns)),
            outcome: scope.status.map_or(Outcome::Open, |status| Outcome::Replied { status }),
            fault: None,
            gap: false,
            unreadable: None,
            scope: Some(Box::new(scope)),
        }
    }
}

fn us(ns: u64, base_ns: u64) -> u64 {
    ns.saturating_sub(base_ns) / 1000
}

/// Determined by attributes; without them, for our own spans, by the name (`GET /cart` or `/shop.Cart/GetCart`).
fn protocol(span: &SpanIn) -> Protocol {
    if span.has("http.") || (span.ours && span.name.contains(' ')) {
        return Protocol::Http;
    }
    // other spans (a query, a job) only succeed or fail, as the gRPC codes 0 and 2 express
    Protocol::Grpc
}

fn status(span: &SpanIn) -> Option<u32> {
    [GRPC_STATUS, HTTP_STATUS, "http.status_code"].into_iter().find_map(|key| span.int(key))
}

/// The status of a span without one, as its library does not record it.
fn default_status(span: &SpanIn) -> u32 {
    match (protocol(span), span.error) {
        (Protocol::Grpc, false) => 0,
        (Protocol::Grpc, true) => 2,
        (Protocol::Http, false) => 200,
        (Protocol::Http, true) => 500,
    }
}

fn answer(span: &SpanIn) -> Option<u32> {
    status(span).or_else(|| (!span.ours).then(|| default_status(span)))
}

fn outcome(span: &SpanIn) -> Outcome {
    match status(span) {
        status if span.is(FAILED) => Outcome::Failed { status: status.unwrap_or(2) },
        Some(status) => Outcome::Replied { status },
        None if span.ours => Outcome::Open,
        None if span.error => Outcome::Failed { status: 2 },
        None => Outcome::Replied { status: default_status(span) },
    }
}

/// The callee of a client span, by the attributes of its library.
fn peer(span: &SpanIn) -> Option<String> {
    for (host, port) in [("server.address", "server.port"), ("net.peer.name", "net.peer.port")] {
        if span.text(PEER).is_none()
            && let Some(host) = span.text(host)
        {
            return Some(span.int(port).map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")));
        }
    }
    [PEER, "db.system", "messaging.system"].into_iter().find_map(|key| span.text(key)).map(str::to_owned)
}
