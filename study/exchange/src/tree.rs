//! Converts spans to calls: a client span and the server span below it are the two sides of one call.
//!
//! Spans in between (internal ones, a client below a client) are not messages; the spans below them belong to the
//! nearest ancestor that is one. A call that only one side recorded is kept: without the callee's span it is a gap,
//! without the caller's it has the callee's times. Every span without a parent in the file begins a trace of its own.
//!
//! Spans may be nested by the thousands, so the tree is built in loops: first a list of calls with their depths.

use crate::export::hex32;
use crate::names::Names;
use crate::otlp_spans::{Kind, SpanIn};
use model::trace::{Call, Outcome, Protocol, Scope, Trace, UnscopedCalls};
use std::collections::{HashMap, VecDeque};
use wire::call_id::answered_call;
use wire::scope::OTHER_CALLS;
use wire::tree::name_callees;

/// The caller of an entry call that has only a server span.
const UNKNOWN_CALLER: &str = "client";

/// The traces of the spans with these indices, which have one trace id. `notice` receives what is incomplete.
pub(crate) fn traces(all: &[SpanIn], group: &[u32], names: &Names, notice: &mut dyn FnMut(String)) -> Vec<Trace> {
    let spans: Vec<&SpanIn> = group.iter().map(|index| &all[*index as usize]).collect();
    let Some(first) = spans.first() else { return Vec::new() };
    let id = hex32(first.trace);
    let forest = Forest::of(&spans);
    let mut builder = Builder { spans: &spans, names, below: &forest.below, callee_only: 0 };
    let mut traces: Vec<Trace> = forest.roots.iter().map(|root| builder.trace(&id, *root)).collect();
    traces.iter_mut().for_each(|trace| name_callees(&mut trace.entry));
    let mut notice = |n: usize, words: &str| {
        if n > 0 {
            notice(format!("trace {id}: {words}: {n}"));
        }
    };
    notice(forest.orphans, "spans whose parent is not in the file");
    notice(if traces.len() > 1 { traces.len() } else { 0 }, "root spans, each imported as a request of its own");
    notice(forest.circular, "spans that are their own ancestors, left out");
    notice(builder.callee_only, "calls recorded only by their callee");
    traces
}

/// The spans that are sides of calls, each with those below it, ordered by start.
struct Forest {
    roots: Vec<usize>,
    below: Vec<Vec<usize>>,
    orphans: usize,
    circular: usize,
}

impl Forest {
    fn of(spans: &[&SpanIn]) -> Forest {
        let at: HashMap<u64, usize> = spans.iter().enumerate().map(|(i, s)| (s.id, i)).collect();
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); spans.len()];
        let mut forest = Forest { roots: Vec::new(), below: vec![Vec::new(); spans.len()], orphans: 0, circular: 0 };
        let mut queue: VecDeque<(usize, Option<usize>)> = VecDeque::new();
        for (i, span) in spans.iter().enumerate() {
            match span.parent.map(|p| at.get(&p)) {
                Some(Some(parent)) => children[*parent].push(i),
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
                Some(above) => forest.below[above].push(i),
                None => forest.roots.push(i),
            }
            let next = if between { above } else { Some(i) };
            queue.extend(std::mem::take(&mut children[i]).into_iter().map(|child| (child, next)));
        }
        forest.circular = spans.len() - reached;
        let by_start = |list: &mut Vec<usize>| list.sort_by_key(|i| (spans[*i].start_ns, *i));
        by_start(&mut forest.roots);
        forest.below.iter_mut().for_each(by_start);
        forest
    }
}

/// A call to be built, by the span of one of its sides.
struct NextCall<'a> {
    span: usize,
    /// Whether it is the caller's span; else only the callee recorded the call.
    is_client: bool,
    caller: &'a str,
    /// The start of the caller's scope.
    base_ns: u64,
    number: u32,
    depth: usize,
}

struct Builder<'a> {
    spans: &'a [&'a SpanIn],
    names: &'a Names,
    below: &'a [Vec<usize>],
    callee_only: usize,
}

impl<'a> Builder<'a> {
    fn trace(&mut self, id: &str, root: usize) -> Trace {
        let span = self.spans[root];
        let is_client = span.kind == Kind::Client;
        let caller = if is_client { self.names.text(span.service) } else { UNKNOWN_CALLER };
        let root = NextCall { span: root, is_client, caller, base_ns: span.start_ns, number: 0, depth: 0 };
        let (entry, callee) = self.call(&root);
        let mut open = callee.map_or_else(Vec::new, |callee| self.calls_of(callee, 1));
        let mut calls = Vec::new();
        while let Some(next) = open.pop() {
            let (call, callee) = self.call(&next);
            calls.push((next.depth, call));
            if let Some(callee) = callee {
                open.extend(self.calls_of(callee, next.depth + 1));
            }
        }
        Trace::of(id.to_owned(), entry, calls)
    }

    /// A call without the calls below it, and the callee's span if there is one.
    fn call(&self, next: &NextCall) -> (Call, Option<usize>) {
        if next.is_client { self.call_of_client_span(next) } else { self.call_of_server_span(next) }
    }

    /// The calls that a callee made, the last one first.
    fn calls_of(&mut self, callee: usize, depth: usize) -> Vec<NextCall<'a>> {
        let scope = self.spans[callee];
        let (caller, base_ns) = (self.names.text(scope.service), scope.start_ns);
        let mut calls = Vec::new();
        for child in &self.below[callee] {
            let is_client = self.spans[*child].kind == Kind::Client;
            calls.push((*child, is_client));
            if is_client {
                // a call has one answer: further server spans are calls whose caller did not record them
                calls.extend(self.below[*child].iter().skip(1).map(|extra| (*extra, false)));
            }
        }
        self.callee_only += calls.iter().filter(|(_, is_client)| !is_client).count();
        calls.sort_by_key(|(span, _)| self.spans[*span].start_ns);
        let numbered = calls.into_iter().zip(1..);
        let next = |((span, is_client), number)| NextCall { span, is_client, caller, base_ns, number, depth };
        let mut calls: Vec<NextCall> = numbered.map(next).collect();
        calls.reverse();
        calls
    }

    fn name(&self, span: &SpanIn) -> &'a str {
        self.names.text(span.name.unwrap_or(span.service))
    }

    fn scope(&self, i: usize, callers_name: &str) -> Scope {
        let span = self.spans[i];
        let status = self.answer(span);
        let name = self.name(span);
        Scope {
            service: self.names.text(span.service).to_owned(),
            name: if name == callers_name { String::new() } else { name.to_owned() },
            start_us: span.start_ns / 1000,
            answered_us: status.map(|_| us(span.end_ns, span.start_ns)),
            status,
            truncated: span.truncated,
            faults_off: span.faults_off,
            unscoped: unscoped(span.unscoped_calls),
            calls: Vec::new(),
        }
    }

    /// The call of a client span and, if there is one, the server span below it.
    fn call_of_client_span(&self, next: &NextCall) -> (Call, Option<usize>) {
        let span = self.spans[next.span];
        let name = self.name(span);
        let callee = self.below[next.span].first().copied();
        let scope = callee.map(|callee| Box::new(self.scope(callee, name)));
        let outcome = self.outcome(span);
        let peer = match (span.peer, &scope) {
            (Some(peer), _) => self.names.text(peer),
            (None, Some(scope)) => &scope.service,
            (None, None) => "unknown",
        };
        let call = Call {
            id: format!("{:016x}", span.id),
            number: next.number,
            caller: next.caller.to_owned(),
            callee: scope.as_ref().map_or(peer, |scope| &scope.service).to_owned(),
            name: name.to_owned(),
            peer: peer.to_owned(),
            protocol: self.protocol(span),
            sent_us: us(span.start_ns, next.base_ns),
            ended_us: (outcome != Outcome::Open).then(|| us(span.end_ns, next.base_ns)),
            outcome,
            fault: span.fault.map(|index| index as usize),
            inherited: span.inherited,
            connect_us: Some(span.connect_us.into()).filter(|us| *us > 0),
            gap: scope.is_none() && (!span.ours || span.gap),
            unreadable: None,
            scope,
        };
        (call, callee)
    }

    /// A call that only the callee recorded.
    fn call_of_server_span(&self, next: &NextCall) -> (Call, Option<usize>) {
        let span = self.spans[next.span];
        let service = self.names.text(span.service);
        let scope = self.scope(next.span, "");
        let call = Call {
            id: format!("{:016x}", answered_call(span.id)),
            number: next.number,
            caller: next.caller.to_owned(),
            callee: service.to_owned(),
            name: self.name(span).to_owned(),
            peer: service.to_owned(),
            protocol: self.protocol(span),
            sent_us: us(span.start_ns, next.base_ns),
            ended_us: Some(us(span.end_ns, next.base_ns)),
            outcome: scope.status.map_or(Outcome::Open, |status| Outcome::Replied { status }),
            fault: None,
            inherited: false,
            connect_us: None,
            gap: false,
            unreadable: None,
            scope: Some(Box::new(scope)),
        };
        (call, Some(next.span))
    }

    /// Determined by attributes; without them, for our own spans, by the name (`GET /cart` or `/shop.Cart/GetCart`).
    fn protocol(&self, span: &SpanIn) -> Protocol {
        if span.is_http || (span.ours && self.name(span).contains(' ')) {
            return Protocol::Http;
        }
        // other spans (a query, a job) only succeed or fail, as the gRPC codes 0 and 2 express
        Protocol::Grpc
    }

    /// The status of a span without one, as its library does not record it.
    fn default_status(&self, span: &SpanIn) -> u32 {
        match (self.protocol(span), span.error) {
            (Protocol::Grpc, false) => 0,
            (Protocol::Grpc, true) => 2,
            (Protocol::Http, false) => 200,
            (Protocol::Http, true) => 500,
        }
    }

    fn answer(&self, span: &SpanIn) -> Option<u32> {
        span.status.or_else(|| (!span.ours).then(|| self.default_status(span)))
    }

    fn outcome(&self, span: &SpanIn) -> Outcome {
        match span.status {
            status if span.failed => Outcome::Failed { status: status.unwrap_or(2) },
            Some(status) => Outcome::Replied { status },
            None if span.ours => Outcome::Open,
            None if span.error => Outcome::Failed { status: 2 },
            None => Outcome::Replied { status: self.default_status(span) },
        }
    }
}

fn us(ns: u64, base_ns: u64) -> u64 {
    ns.saturating_sub(base_ns) / 1000
}

/// Spans have the number of calls without a scope, but not their names.
fn unscoped(count: u32) -> Vec<UnscopedCalls> {
    let other = || OTHER_CALLS.to_owned();
    let calls = UnscopedCalls {
        name: other(),
        peer: other(),
        protocol: Protocol::Grpc,
        count: count.into(),
        site: String::new(),
    };
    if count > 0 { vec![calls] } else { Vec::new() }
}
