//! A scope: the work a service does to answer one call. It decides which fault fires at each send and records its
//! segment.
//!
//! Every SDK has its own implementation. The vectors are generated from this one.

use crate::WireError;
use crate::bytes::{put_str, put_varint};
use crate::call_id;
use crate::envelope::{Accept, Envelope, Hop, assemble};
use crate::history::{
    self, CALL_FAILED, Counted, EventKind, Head, NAME_BYTES_MAX, RECV_RESPONSE, SEND_REQUEST, SEND_RESPONSE, Segment,
    TAG_CHILD, TAG_CONNECTED, TAG_FAULT, TAG_GAP, TAG_HTTP, TAG_INHERITED, UNSCOPED_CALLS, VERSION, VERSION_2,
    put_head, put_prefix,
};
use crate::select::{matches, normalize_http_name};
use model::fault::AfterCounts;
use model::trace::Protocol;
use model::{Fault, Selector};

#[derive(Clone, Debug, Default)]
struct FaultCounters {
    matched: u64,
    fired: u64,
    after: Vec<u64>,
}

/// The plan with the counters that its conditions depend on.
#[derive(Clone, Debug)]
struct Evidence {
    faults: Vec<Fault>,
    counters: Vec<FaultCounters>,
}

impl Evidence {
    fn new(faults: Vec<Fault>, hop: &[u64]) -> Evidence {
        let mut values = hop.iter().copied();
        let mut next = || values.next().unwrap_or(0);
        let counters = faults
            .iter()
            .map(|fault| FaultCounters {
                matched: if fault.nth != 0 { next() } else { 0 },
                fired: if fault.max_fires != 0 { next() } else { 0 },
                after: fault.after.iter().map(|_| next()).collect(),
            })
            .collect();
        Evidence { faults, counters }
    }

    /// Whether any fault depends on what was counted.
    fn has_conditions(&self) -> bool {
        self.faults.iter().any(|fault| fault.nth != 0 || fault.max_fires != 0 || !fault.after.is_empty())
    }

    fn to_hop(&self) -> Vec<u64> {
        let mut out = Vec::new();
        for (fault, c) in self.faults.iter().zip(&self.counters) {
            if fault.nth != 0 {
                out.push(c.matched);
            }
            if fault.max_fires != 0 {
                out.push(c.fired);
            }
            out.extend(&c.after);
        }
        out
    }

    /// The index of the fault that fires at this send, if one does. Counts the send for every fault that it matches.
    fn decide_fault(&mut self, caller: &str, peer: &str, name: &str, faults_on: bool) -> Option<usize> {
        let mut chosen = None;
        for (i, (fault, c)) in self.faults.iter().zip(&mut self.counters).enumerate() {
            if !matches(&fault.selector, caller, peer, name) {
                continue;
            }
            c.matched += 1;
            let ready = faults_on
                && chosen.is_none()
                && fault.after.iter().zip(&c.after).all(|(after, count)| *count >= after.times)
                && (fault.nth == 0 || fault.nth == c.matched)
                && (fault.max_fires == 0 || c.fired < fault.max_fires);
            if ready {
                c.fired += 1;
                chosen = Some(i);
            }
        }
        chosen
    }

    fn count_after(&mut self, counts: AfterCounts, caller: &str, peer: &str, name: &str) {
        for (fault, c) in self.faults.iter().zip(&mut self.counters) {
            if fault.after_counts != counts {
                continue;
            }
            for (after, count) in fault.after.iter().zip(&mut c.after) {
                if matches(&after.selector, caller, peer, name) {
                    *count += 1;
                }
            }
        }
    }

    fn count_matched(&mut self, is_match: impl Fn(&Selector) -> bool) {
        for (fault, c) in self.faults.iter().zip(&mut self.counters) {
            if is_match(&fault.selector) {
                c.matched += 1;
            }
        }
    }

    /// Adds the sends and replies of a returned segment.
    fn count_segment(&mut self, segment: &Segment) {
        let mut sent: Vec<(&str, &str)> = Vec::new();
        let caller = segment.service.as_str();
        for event in &segment.events {
            match &event.kind {
                EventKind::SendRequest { name, peer, fault, .. } => {
                    sent.push((peer, name));
                    self.count_matched(|selector| matches(selector, caller, peer, name));
                    self.count_after(AfterCounts::Sent, caller, peer, name);
                    if let Some(c) = fault.and_then(|i| self.counters.get_mut(i as usize)) {
                        c.fired += 1;
                    }
                }
                EventKind::RecvResponse(ended) => {
                    let (peer, name) = sent[ended.call as usize - 1];
                    self.count_after(AfterCounts::Completed, caller, peer, name);
                    if let Some(child) = &ended.child {
                        self.count_segment(child);
                    }
                }
                EventKind::CallFailed(ended) => {
                    if let Some(child) = &ended.child {
                        self.count_segment(child);
                    }
                }
                EventKind::SendResponse { .. } | EventKind::UnscopedCalls(_) => {}
            }
        }
    }
}

struct SentCall {
    id: u64,
    peer: String,
    raw_name: String,
    connect_us: u64,
}

/// Different calls without a scope that a segment lists. Further ones are counted together.
pub const UNSCOPED_MAX: usize = 16;
/// Name and peer of calls without a scope that are not listed.
pub const OTHER_CALLS: &str = "other";

/// A call without a scope, which the service made while a scope was open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnscopedCall {
    pub protocol: Protocol,
    pub peer: String,
    /// The gRPC method, or `METHOD /path`, normalized.
    pub name: String,
    /// Where the program made the call, or empty.
    pub site: String,
}

pub struct Scope {
    version: u8,
    service: String,
    call: u64,
    start_us: u64,
    faults_on: bool,
    forwarded: Vec<u8>,
    evidence: Option<Evidence>,
    sent: Vec<SentCall>,
    strings: Vec<String>,
    events: Vec<u8>,
    last_us: u64,
}

/// A literal has at least one byte: a call without an authority or a name is recorded as `unknown`.
fn name_or_unknown(text: &str) -> &str {
    if text.is_empty() { "unknown" } else { text }
}

fn flag(is_set: bool, flag: u8) -> u8 {
    if is_set { flag } else { 0 }
}

/// A call that is about to be sent.
pub struct OutgoingCall {
    /// From 1, within its scope.
    pub number: u64,
    pub id: u64,
    /// The fault that fires, as an index into the plan.
    pub fault: Option<usize>,
}

/// How a call ended.
pub struct CallEnd<'a> {
    pub call: u64,
    pub status: u64,
    pub history: Option<&'a [u8]>,
    /// Only used without a history.
    pub gap: bool,
}

impl Scope {
    pub fn new(service: &str, envelope: &Envelope, start_us: u64, faults_on: bool) -> Scope {
        let evidence = envelope.signed.plan.clone().map(|faults| Evidence::new(faults, &envelope.hop.evidence));
        Scope {
            version: VERSION,
            service: service.to_owned(),
            call: envelope.hop.call,
            start_us,
            faults_on: faults_on || evidence.is_none(),
            forwarded: envelope.forwarded.clone(),
            evidence,
            sent: Vec::new(),
            strings: Vec::new(),
            events: Vec::new(),
            last_us: 0,
        }
    }

    fn put_event(&mut self, tag: u8, at_us: u64) {
        self.events.push(tag);
        put_varint(&mut self.events, at_us.saturating_sub(self.last_us));
        self.last_us = self.last_us.max(at_us);
    }

    fn put_reference(&mut self, text: &str) {
        match self.strings.iter().position(|s| s == text) {
            Some(i) => put_varint(&mut self.events, i as u64 + 1),
            None => {
                self.strings.push(text.to_owned());
                self.events.push(0);
                put_str(&mut self.events, text);
            }
        }
    }

    /// Numbers a call, decides about faults and records SEND_REQUEST.
    ///
    /// `name`: the gRPC method, or the raw `METHOD /path`.
    pub fn begin_call(&mut self, protocol: Protocol, peer: &str, name: &str, at_us: u64) -> OutgoingCall {
        self.begin(protocol, peer, name, false, at_us)
    }

    /// The same for a call whose context had no scope, and which therefore got that of its thread or task.
    pub fn begin_inherited_call(&mut self, protocol: Protocol, peer: &str, name: &str, at_us: u64) -> OutgoingCall {
        self.begin(protocol, peer, name, true, at_us)
    }

    fn begin(&mut self, protocol: Protocol, peer: &str, name: &str, inherited: bool, at_us: u64) -> OutgoingCall {
        let number = self.sent.len() as u64 + 1;
        let id = call_id::derive(self.call, number);
        let fault = self.evidence.as_mut().and_then(|e| e.decide_fault(&self.service, peer, name, self.faults_on));
        let http = protocol == Protocol::Http;
        let recorded = if http { normalize_http_name(name) } else { name.to_owned() };
        let flags = flag(fault.is_some(), TAG_FAULT) | flag(http, TAG_HTTP) | flag(inherited, TAG_INHERITED);
        if inherited {
            self.version = VERSION_2;
        }
        self.put_event(SEND_REQUEST | flags, at_us);
        self.put_reference(name_or_unknown(&recorded));
        self.put_reference(name_or_unknown(peer));
        if let Some(i) = fault {
            put_varint(&mut self.events, i as u64);
        }
        if let Some(e) = &mut self.evidence {
            e.count_after(AfterCounts::Sent, &self.service, peer, name);
        }
        self.sent.push(SentCall { id, peer: peer.to_owned(), raw_name: name.to_owned(), connect_us: 0 });
        OutgoingCall { number, id, fault }
    }

    /// The envelope of the call with this id.
    pub fn envelope(&self, call: u64, accept: Accept, receive_limit: u64) -> Result<Vec<u8>, WireError> {
        let evidence = self.evidence.as_ref().map(Evidence::to_hop).unwrap_or_default();
        assemble(&self.forwarded, &Hop { call, accept, receive_limit, evidence })
    }

    /// Sets how long a call spent on a connection of its own, in µs. Its end records that.
    pub fn set_connect_time(&mut self, call: u64, us: u64) {
        self.sent[call as usize - 1].connect_us = us;
    }

    /// Records RECV_RESPONSE.
    pub fn record_reply(&mut self, end: CallEnd, at_us: u64) {
        self.record_end(RECV_RESPONSE, end, at_us);
    }

    /// Records CALL_FAILED.
    pub fn record_failure(&mut self, end: CallEnd, at_us: u64) {
        self.record_end(CALL_FAILED, end, at_us);
    }

    fn record_end(&mut self, kind: u8, end: CallEnd, at_us: u64) {
        let sent = &self.sent[end.call as usize - 1];
        let mut child =
            end.history.and_then(|bytes| history::split_head(bytes).ok()).filter(|(head, _)| head.call == sent.id);
        if let Some(e) = &mut self.evidence {
            if kind == RECV_RESPONSE {
                e.count_after(AfterCounts::Completed, &self.service, &sent.peer, &sent.raw_name);
            }
            let counted = child.filter(|_| e.has_conditions());
            match counted.map(|(head, segment)| history::read_counted(head.version, segment)) {
                Some(Counted::Segment(segment)) => e.count_segment(&segment),
                Some(Counted::TooLarge) => child = None,
                Some(Counted::Unreadable) | None => {}
            }
        }
        let gap = if end.history.is_some() { child.is_none() } else { end.gap };
        let connect_us = sent.connect_us;
        let flags = flag(child.is_some(), TAG_CHILD) | flag(gap, TAG_GAP) | flag(connect_us > 0, TAG_CONNECTED);
        self.put_event(kind | flags, at_us);
        put_varint(&mut self.events, end.call);
        put_varint(&mut self.events, end.status);
        if connect_us > 0 {
            self.version = VERSION_2;
            put_varint(&mut self.events, connect_us);
        }
        if let Some((Head { version, .. }, bytes)) = child {
            self.version = self.version.max(version);
            put_varint(&mut self.events, bytes.len() as u64);
            self.events.extend_from_slice(bytes);
        }
    }

    /// Records UNSCOPED_CALLS: equal calls together, in the order of the first of each. `more`: calls of which only the
    /// number is known.
    pub fn record_unscoped(&mut self, calls: &[UnscopedCall], more: u64, at_us: u64) {
        let mut counted: Vec<(&UnscopedCall, u64)> = Vec::new();
        let mut others = more;
        for call in calls {
            match counted.iter().position(|(known, _)| *known == call) {
                Some(at) => counted[at].1 += 1,
                None if counted.len() < UNSCOPED_MAX => counted.push((call, 1)),
                None => others += 1,
            }
        }
        for (call, count) in counted {
            self.put_unscoped(call.protocol, (&call.name, &call.peer), count, &call.site, at_us);
        }
        if others > 0 {
            self.put_unscoped(Protocol::Grpc, (OTHER_CALLS, OTHER_CALLS), others, "", at_us);
        }
    }

    fn put_unscoped(&mut self, protocol: Protocol, (name, peer): (&str, &str), count: u64, site: &str, at_us: u64) {
        self.version = VERSION_2;
        self.put_event(UNSCOPED_CALLS | if protocol == Protocol::Http { TAG_HTTP } else { 0 }, at_us);
        self.put_reference(name_or_unknown(name));
        self.put_reference(name_or_unknown(peer));
        put_varint(&mut self.events, count);
        put_str(&mut self.events, &site[..site.floor_char_boundary(NAME_BYTES_MAX)]);
    }

    /// Records SEND_RESPONSE, which must be the last event.
    pub fn finish(&mut self, status: u64, at_us: u64) {
        self.put_event(SEND_RESPONSE, at_us);
        put_varint(&mut self.events, status);
    }

    /// The history up to its events; `name` is the callee's route template or empty.
    pub fn head(&self, name: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.service.len() + name.len() + 32);
        put_head(&mut out, self.version, self.call);
        put_prefix(&mut out, !self.faults_on, &self.service, name, self.start_us);
        out
    }

    /// 2 if the history has events that version 1 does not have.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// The events so far.
    pub fn events(&self) -> &[u8] {
        &self.events
    }

    /// The whole history.
    pub fn history(&self, name: &str) -> Vec<u8> {
        [&self.head(name)[..], &self.events].concat()
    }
}
