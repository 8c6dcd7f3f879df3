//! The history of a reply: a segment per scope, nested in the reply event of the call that returned it.

use crate::WireError;
use crate::bytes::{Reader, put_str, put_varint};

pub const VERSION: u8 = 1;
pub const HEAD_BYTES: usize = 9;
pub const HISTORY_BYTES_MAX: usize = 4 << 20;
pub const DEPTH_MAX: usize = 64;
pub const EVENTS_MAX: usize = 100_000;
const SERVICE_BYTES_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 200;

pub(crate) const TRUNCATED: u8 = 1;
pub(crate) const FAULTS_OFF: u8 = 2;
pub(crate) const TAKES_FIELD: u8 = 4;

pub(crate) const SEND_REQUEST: u8 = 1;
pub(crate) const RECV_RESPONSE: u8 = 2;
pub(crate) const CALL_FAILED: u8 = 3;
pub(crate) const SEND_RESPONSE: u8 = 4;
// Two bits of an event's tag, whose meaning depends on the event:
/// SEND_REQUEST: a fault fired.
pub(crate) const TAG_FAULT: u8 = 8;
/// SEND_REQUEST: HTTP, else gRPC.
pub(crate) const TAG_HTTP: u8 = 16;
/// RECV_RESPONSE, CALL_FAILED: a child segment follows.
pub(crate) const TAG_CHILD: u8 = 8;
/// RECV_RESPONSE, CALL_FAILED: the callee's history is missing.
pub(crate) const TAG_GAP: u8 = 16;

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
    SendRequest { name: String, peer: String, http: bool, fault: Option<u64> },
    RecvResponse(CallEnded),
    CallFailed(CallEnded),
    SendResponse { status: u64 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallEnded {
    /// The call's number in this segment, from 1.
    pub call: u64,
    pub status: u64,
    pub gap: bool,
    pub child: Option<Box<Segment>>,
}

/// Splits a history into the call id and the segment's bytes.
pub fn split_head(bytes: &[u8]) -> Result<(u64, &[u8]), WireError> {
    if bytes.len() > HISTORY_BYTES_MAX {
        return Err(WireError::Malformed);
    }
    let mut r = Reader::new(bytes);
    if r.u8()? != VERSION {
        return Err(WireError::UnsupportedVersion);
    }
    Ok((u64::from_be_bytes(r.array()?), r.rest()))
}

/// Whether these bytes can be the history in a tail: small enough, version 1, a call id, and a segment that can be read
/// up to its events. Readers search for the start of a tail by its first bytes, so flags that HTTP does not use and
/// control characters in the service are excluded.
pub fn can_begin_tail(bytes: &[u8]) -> bool {
    let Ok((_, rest)) = split_head(bytes) else { return false };
    let is_http = rest.first().is_some_and(|flags| flags & TAKES_FIELD == 0);
    let head = prefix(&mut Reader::new(rest));
    is_http && head.is_ok_and(|head| !head.service.bytes().any(|byte| byte < 0x20 || byte == 0x7f))
}

/// Whether the service of this history accepts envelopes in a field of this method's request messages.
pub fn takes_field(bytes: &[u8]) -> bool {
    bytes.first() == Some(&VERSION) && bytes.get(HEAD_BYTES).is_some_and(|flags| flags & TAKES_FIELD != 0)
}

pub fn decode(bytes: &[u8]) -> Result<History, WireError> {
    let (call, rest) = split_head(bytes)?;
    let mut budget = EVENTS_MAX;
    Ok(History { call, segment: segment(rest, 0, &mut budget)? })
}

/// A segment without a head, as parents embed it.
pub fn decode_segment(bytes: &[u8]) -> Result<Segment, WireError> {
    segment(bytes, 0, &mut { EVENTS_MAX })
}

/// A segment up to its events.
pub(crate) fn prefix(r: &mut Reader) -> Result<Segment, WireError> {
    let flags = r.u8()?;
    if flags & !(TRUNCATED | FAULTS_OFF | TAKES_FIELD) != 0 {
        return Err(WireError::Malformed);
    }
    Ok(Segment {
        truncated: flags & TRUNCATED != 0,
        faults_off: flags & FAULTS_OFF != 0,
        service: r.str(1, SERVICE_BYTES_MAX)?.to_owned(),
        name: r.str(0, NAME_BYTES_MAX)?.to_owned(),
        start_us: r.varint()?,
        events: Vec::new(),
    })
}

fn reference(r: &mut Reader, table: &mut Vec<String>) -> Result<String, WireError> {
    match r.count(table.len())? {
        0 => {
            let text = r.str(1, NAME_BYTES_MAX)?.to_owned();
            table.push(text.clone());
            Ok(text)
        }
        k => Ok(table[k - 1].clone()),
    }
}

fn segment(bytes: &[u8], depth: usize, budget: &mut usize) -> Result<Segment, WireError> {
    if depth >= DEPTH_MAX {
        return Err(WireError::Malformed);
    }
    let mut r = Reader::new(bytes);
    let mut segment = prefix(&mut r)?;
    let mut table = Vec::new();
    let mut sent = 0u64;
    let mut at_us = 0u64;
    let mut ended = std::collections::HashSet::new();
    while !r.is_empty() {
        *budget = budget.checked_sub(1).ok_or(WireError::Malformed)?;
        if matches!(segment.events.last(), Some(Event { kind: EventKind::SendResponse { .. }, .. })) {
            return Err(WireError::Malformed);
        }
        let tag = r.u8()?;
        at_us = at_us.checked_add(r.varint()?).ok_or(WireError::Malformed)?;
        if tag & !(7 | TAG_CHILD | TAG_GAP) != 0 {
            return Err(WireError::Malformed);
        }
        let kind = match tag & 7 {
            SEND_REQUEST => {
                sent += 1;
                let name = reference(&mut r, &mut table)?;
                let peer = reference(&mut r, &mut table)?;
                let fault = if tag & TAG_FAULT != 0 { Some(r.varint()?) } else { None };
                EventKind::SendRequest { name, peer, http: tag & TAG_HTTP != 0, fault }
            }
            tag_kind @ (RECV_RESPONSE | CALL_FAILED) => {
                let call = r.varint()?;
                if call == 0 || call > sent || !ended.insert(call) {
                    return Err(WireError::Malformed);
                }
                let status = r.varint()?;
                let child = if tag & TAG_CHILD != 0 {
                    let n = r.count(HISTORY_BYTES_MAX)?;
                    Some(Box::new(self::segment(r.take(n)?, depth + 1, budget)?))
                } else {
                    None
                };
                let ended = CallEnded { call, status, gap: tag & TAG_GAP != 0, child };
                if tag_kind == RECV_RESPONSE { EventKind::RecvResponse(ended) } else { EventKind::CallFailed(ended) }
            }
            SEND_RESPONSE if tag & (TAG_CHILD | TAG_GAP) == 0 => EventKind::SendResponse { status: r.varint()? },
            _ => return Err(WireError::Malformed),
        };
        segment.events.push(Event { at_us, kind });
    }
    Ok(segment)
}

pub fn put_head(out: &mut Vec<u8>, call: u64) {
    out.push(VERSION);
    out.extend_from_slice(&call.to_be_bytes());
}

pub(crate) fn put_prefix(out: &mut Vec<u8>, faults_off: bool, service: &str, name: &str, start_us: u64) {
    out.push(if faults_off { FAULTS_OFF } else { 0 });
    put_str(out, service);
    put_str(out, name);
    put_varint(out, start_us);
}
