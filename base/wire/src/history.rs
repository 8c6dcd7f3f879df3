//! The history of a reply: a segment per scope, nested in the reply event of the call that returned it.
//!
//! Anybody in the chain of calls may have written any of its segments. A segment that cannot be read is left out with
//! all that is nested in it: its call has a gap, and the rest of the history stays.

use crate::WireError;
use crate::bytes::{Reader, put_str, put_varint};
use crate::plan::FAULTS_MAX;
use crate::unreadable::{Problem, Unreadable};

pub const VERSION: u8 = 1;
/// With what version 1 does not have: calls that were inherited, calls without a scope, and times for connections.
pub const VERSION_2: u8 = 2;
pub const HEAD_BYTES: usize = 9;
pub const HISTORY_BYTES_MAX: usize = 4 << 20;
pub const DEPTH_MAX: usize = 64;
pub const EVENTS_MAX: usize = 100_000;
/// How many events a scope reads at most of the history of one reply, to count them for its plan.
pub const COUNTED_EVENTS_MAX: usize = 10_000;
/// Of a name that is not UTF-8, in messages.
const EXCERPT_BYTES: usize = 40;
const SERVICE_BYTES_MAX: usize = 64;
pub(crate) const NAME_BYTES_MAX: usize = 200;

pub(crate) const TRUNCATED: u8 = 1;
pub(crate) const FAULTS_OFF: u8 = 2;
pub(crate) const TAKES_FIELD: u8 = 4;

pub(crate) const SEND_REQUEST: u8 = 1;
pub(crate) const RECV_RESPONSE: u8 = 2;
pub(crate) const CALL_FAILED: u8 = 3;
pub(crate) const SEND_RESPONSE: u8 = 4;
pub(crate) const UNSCOPED_CALLS: u8 = 5;
// Two bits of an event's tag, whose meaning depends on the event:
/// SEND_REQUEST: a fault fired.
pub(crate) const TAG_FAULT: u8 = 8;
/// SEND_REQUEST: HTTP, else gRPC.
pub(crate) const TAG_HTTP: u8 = 16;
/// RECV_RESPONSE, CALL_FAILED: a child segment follows.
pub(crate) const TAG_CHILD: u8 = 8;
/// RECV_RESPONSE, CALL_FAILED: the callee's history is missing.
pub(crate) const TAG_GAP: u8 = 16;
/// SEND_REQUEST: the call has the scope of its thread, because its context had none.
pub(crate) const TAG_INHERITED: u8 = 32;
/// RECV_RESPONSE, CALL_FAILED: the call has set up a connection.
pub(crate) const TAG_CONNECTED: u8 = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    pub call: u64,
    pub segment: Segment,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub truncated: bool,
    pub faults_off: bool,
    pub service: String,
    pub name: String,
    pub start_us: u64,
    pub events: Vec<Event>,
}

/// `at_us` counts from the segment's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub at_us: u64,
    pub kind: EventKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    SendRequest { name: String, peer: String, http: bool, fault: Option<u64>, inherited: bool },
    RecvResponse(CallEnded),
    CallFailed(CallEnded),
    SendResponse { status: u64 },
    UnscopedCalls(UnscopedCalls),
}

/// Calls that the service made while the scope was open, and that belonged to no request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnscopedCalls {
    pub name: String,
    pub peer: String,
    pub http: bool,
    pub count: u64,
    /// Where the program made them, if its runtime provides it.
    pub site: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallEnded {
    /// The call's number in this segment, from 1.
    pub call: u64,
    pub status: u64,
    /// How long the call spent on a connection of its own, in µs. 0: it used an existing one, or this is unknown.
    pub connect_us: u64,
    pub gap: bool,
    pub child: Option<Box<Segment>>,
    /// Why the callee's segment was left out, if it was there.
    pub unreadable: Option<Box<Unreadable>>,
}

/// The first bytes of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub version: u8,
    pub call: u64,
}

/// The events that may still be read, of all nested segments together.
struct Budget {
    version: u8,
    left: usize,
    /// Reading ends where the budget ends. Otherwise only the segment that exceeds it is left out.
    ends_reading: bool,
    exceeded: bool,
}

/// Splits a history into its head and the segment's bytes.
pub fn split_head(bytes: &[u8]) -> Result<(Head, &[u8]), WireError> {
    if bytes.len() > HISTORY_BYTES_MAX {
        return Err(WireError::Malformed);
    }
    let mut r = Reader::new(bytes);
    let version = r.u8()?;
    if !is_supported(version) {
        return Err(WireError::UnsupportedVersion);
    }
    Ok((Head { version, call: u64::from_be_bytes(r.array()?) }, r.rest()))
}

fn is_supported(version: u8) -> bool {
    [VERSION, VERSION_2].contains(&version)
}

/// Whether these bytes can be the history in a tail: small enough, version 1 or 2, a call id, and a segment that can be
/// read up to its events. Readers search for the start of a tail by its first bytes, so flags that HTTP does not use
/// and control characters in the service are excluded.
pub fn can_begin_tail(bytes: &[u8]) -> bool {
    let Ok((_, rest)) = split_head(bytes) else { return false };
    let is_http = rest.first().is_some_and(|flags| flags & TAKES_FIELD == 0);
    let head = prefix(&mut Reader::new(rest));
    is_http && head.is_ok_and(|head| !head.service.bytes().any(|byte| byte < 0x20 || byte == 0x7f))
}

/// Whether the service of this history accepts envelopes in a field of this method's request messages.
pub fn takes_field(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|version| is_supported(*version))
        && bytes.get(HEAD_BYTES).is_some_and(|flags| flags & TAKES_FIELD != 0)
}

/// Reads a history. A nested segment that cannot be read, or with which there would be more than 100,000 events, is
/// left out, and its call has a gap.
pub fn read(bytes: &[u8]) -> Result<History, Unreadable> {
    let (Head { version, call }, rest) = split_head(bytes).map_err(|e| Unreadable::head(e, bytes.len()))?;
    let mut budget = Budget { version, left: EVENTS_MAX, ends_reading: false, exceeded: false };
    Ok(History { call, segment: segment(rest, 0, &mut budget)? })
}

/// Like [`read`], with the error codes of the format.
pub fn decode(bytes: &[u8]) -> Result<History, WireError> {
    split_head(bytes)?;
    read(bytes).map_err(|_| WireError::Malformed)
}

/// What a scope reads of the segment that a reply brought.
pub enum Counted {
    Segment(Segment),
    /// The segment is kept, but nothing of it counts.
    Unreadable,
    /// It has more than [`COUNTED_EVENTS_MAX`] events: the segment is not kept.
    TooLarge,
}

/// Reads a segment without a head, as parents embed it, to count its events. `version`: that of its history.
pub fn read_counted(version: u8, bytes: &[u8]) -> Counted {
    let mut budget = Budget { version, left: COUNTED_EVENTS_MAX, ends_reading: true, exceeded: false };
    match segment(bytes, 0, &mut budget) {
        _ if budget.exceeded => Counted::TooLarge,
        Ok(segment) => Counted::Segment(segment),
        Err(_) => Counted::Unreadable,
    }
}

/// A segment up to its events.
pub(crate) fn prefix(r: &mut Reader) -> Result<Segment, WireError> {
    let mut reader = SegmentReader { r: Reader::new(r.rest()), events_read: 0 };
    let head = reader.head();
    *r = reader.r;
    head.map_err(|_| WireError::Malformed)
}

fn segment(bytes: &[u8], depth: usize, budget: &mut Budget) -> Result<Segment, Unreadable> {
    let mut reader = SegmentReader { r: Reader::new(bytes), events_read: 0 };
    reader.segment(depth, budget).map_err(|problem| Unreadable {
        problem,
        event: reader.events_read,
        byte: bytes.len() - reader.r.remaining(),
        bytes: bytes.len(),
    })
}

/// Reads one segment and counts its events, so that an error can name its place.
struct SegmentReader<'a> {
    r: Reader<'a>,
    events_read: usize,
}

impl<'a> SegmentReader<'a> {
    fn number(&mut self) -> Result<u64, Problem> {
        self.r.varint().map_err(|_| Problem::Number)
    }

    fn text(&mut self, what: &'static str, min: usize, max: usize) -> Result<String, Problem> {
        let bytes = self.number()?;
        let n = usize::try_from(bytes).ok().filter(|n| (min..=max).contains(n));
        let n = n.ok_or(Problem::Length { what, bytes, min, max })?;
        let text = self.r.take(n).map_err(|_| Problem::EndsEarly)?;
        std::str::from_utf8(text)
            .map(str::to_owned)
            .map_err(|_| Problem::NotUtf8 { what, bytes: text[..n.min(EXCERPT_BYTES)].to_vec() })
    }

    fn reference(&mut self, what: &'static str, table: &mut Vec<String>) -> Result<String, Problem> {
        match self.number()? {
            0 => {
                let text = self.text(what, 1, NAME_BYTES_MAX)?;
                table.push(text.clone());
                Ok(text)
            }
            k => {
                let known = usize::try_from(k).ok().and_then(|k| table.get(k - 1));
                known.cloned().ok_or(Problem::Reference { index: k, strings: table.len() })
            }
        }
    }

    fn head(&mut self) -> Result<Segment, Problem> {
        let flags = self.r.u8().map_err(|_| Problem::EndsEarly)?;
        if flags & !(TRUNCATED | FAULTS_OFF | TAKES_FIELD) != 0 {
            return Err(Problem::Flags(flags));
        }
        Ok(Segment {
            truncated: flags & TRUNCATED != 0,
            faults_off: flags & FAULTS_OFF != 0,
            service: self.text("the service", 1, SERVICE_BYTES_MAX)?,
            name: self.text("the name of the call", 0, NAME_BYTES_MAX)?,
            start_us: self.number()?,
            events: Vec::new(),
        })
    }

    fn segment(&mut self, depth: usize, budget: &mut Budget) -> Result<Segment, Problem> {
        if depth >= DEPTH_MAX {
            return Err(Problem::Depth);
        }
        let mut segment = self.head()?;
        let mut table = Vec::new();
        let mut sent = 0u64;
        let mut at_us = 0u64;
        let mut ended = std::collections::HashSet::new();
        let mut nested: Vec<(usize, &[u8])> = Vec::new();
        while !self.r.is_empty() {
            let Some(left) = budget.left.checked_sub(1) else {
                budget.exceeded = true;
                return Err(Problem::Events);
            };
            budget.left = left;
            self.events_read += 1;
            if matches!(segment.events.last(), Some(Event { kind: EventKind::SendResponse { .. }, .. })) {
                return Err(Problem::AfterTheEnd);
            }
            let tag = self.r.u8().map_err(|_| Problem::EndsEarly)?;
            at_us = at_us.checked_add(self.number()?).ok_or(Problem::Time)?;
            let has_bit_5 = tag & (TAG_INHERITED | TAG_CONNECTED) != 0;
            let may_have_bit_5 =
                budget.version == VERSION_2 && matches!(tag & 7, SEND_REQUEST | RECV_RESPONSE | CALL_FAILED);
            if tag & !(7 | TAG_CHILD | TAG_GAP | TAG_INHERITED) != 0 || has_bit_5 && !may_have_bit_5 {
                return Err(Problem::Flags(tag));
            }
            let kind = match tag & 7 {
                SEND_REQUEST => {
                    sent += 1;
                    let name = self.reference("a call's name", &mut table)?;
                    let peer = self.reference("a callee's name", &mut table)?;
                    let fault = if tag & TAG_FAULT != 0 { Some(self.fault()?) } else { None };
                    EventKind::SendRequest { name, peer, http: tag & TAG_HTTP != 0, fault, inherited: has_bit_5 }
                }
                tag_kind @ (RECV_RESPONSE | CALL_FAILED) => {
                    let call = self.number()?;
                    let status = self.number()?;
                    if call == 0 || call > sent || !ended.insert(call) {
                        return Err(Problem::NotOpen(call));
                    }
                    let connect_us = if has_bit_5 { self.number()? } else { 0 };
                    if tag & TAG_CHILD != 0 {
                        nested.push((segment.events.len(), self.nested()?));
                    }
                    let gap = tag & TAG_GAP != 0;
                    let ended = CallEnded { call, status, connect_us, gap, child: None, unreadable: None };
                    if tag_kind == RECV_RESPONSE {
                        EventKind::RecvResponse(ended)
                    } else {
                        EventKind::CallFailed(ended)
                    }
                }
                SEND_RESPONSE if tag & (TAG_CHILD | TAG_GAP) == 0 => EventKind::SendResponse { status: self.number()? },
                UNSCOPED_CALLS if budget.version == VERSION_2 && tag & TAG_CHILD == 0 => {
                    EventKind::UnscopedCalls(UnscopedCalls {
                        name: self.reference("a call's name", &mut table)?,
                        peer: self.reference("a callee's name", &mut table)?,
                        http: tag & TAG_HTTP != 0,
                        count: self.number()?,
                        site: self.text("the place of a call", 0, NAME_BYTES_MAX)?,
                    })
                }
                kind => return Err(Problem::Kind(kind)),
            };
            segment.events.push(Event { at_us, kind });
        }
        // after the segment's own events: however large a nested segment is, they are not left out
        for (event, bytes) in nested {
            let child = child(bytes, depth + 1, budget)?;
            if let EventKind::RecvResponse(ended) | EventKind::CallFailed(ended) = &mut segment.events[event].kind {
                match child {
                    Ok(child) => ended.child = Some(Box::new(child)),
                    Err(unreadable) => {
                        ended.gap = true;
                        ended.unreadable = Some(Box::new(unreadable));
                    }
                }
            }
        }
        Ok(segment)
    }

    fn fault(&mut self) -> Result<u64, Problem> {
        let index = self.number()?;
        if index < FAULTS_MAX as u64 { Ok(index) } else { Err(Problem::Fault(index)) }
    }

    fn nested(&mut self) -> Result<&'a [u8], Problem> {
        let n = self.number()?;
        usize::try_from(n).ok().and_then(|n| self.r.take(n).ok()).ok_or(Problem::Child(n))
    }
}

/// The segment of a callee, or why it is left out.
fn child(bytes: &[u8], depth: usize, budget: &mut Budget) -> Result<Result<Segment, Unreadable>, Problem> {
    let before = budget.left;
    let child = segment(bytes, depth, budget);
    if child.is_err() {
        if budget.ends_reading && budget.exceeded {
            return Err(Problem::Events);
        }
        if !budget.ends_reading {
            budget.left = before; // events that are left out do not count
        }
    }
    Ok(child)
}

pub fn put_head(out: &mut Vec<u8>, version: u8, call: u64) {
    out.push(version);
    out.extend_from_slice(&call.to_be_bytes());
}

pub(crate) fn put_prefix(out: &mut Vec<u8>, faults_off: bool, service: &str, name: &str, start_us: u64) {
    out.push(if faults_off { FAULTS_OFF } else { 0 });
    put_str(out, service);
    put_str(out, name);
    put_varint(out, start_us);
}
