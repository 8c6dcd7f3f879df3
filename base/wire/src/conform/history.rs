//! Vectors about histories: decoding, truncating, joining pieces, converting to spans.

use super::{bytes, error, id, list, number, parse_id, text};
use crate::bytes::{hex, unhex};
use crate::history::{self, CallEnded, Counted, EventKind, Segment};
use crate::piece::Joiner;
use crate::{call_id, otlp, span, tree, truncate};
use serde_json::{Value, json};

pub(super) fn read(input: &Value) -> Result<Value, String> {
    Ok(match history::decode(&bytes(input, "bytes")?) {
        Ok(h) => json!({"call": id(h.call), "segment": segment(&h.segment, h.call)}),
        Err(e) => error(e),
    })
}

pub(super) fn cut(input: &Value) -> Result<Value, String> {
    let limit = number(input, "limit")? as usize;
    let cut = truncate::truncate(&bytes(input, "history")?, limit).map_err(|e| e.to_string())?;
    Ok(json!({"history": cut.map(|b| hex(&b))}))
}

/// `parts`: bytes in hex, and how often they are repeated.
pub(super) fn counted(input: &Value) -> Result<Value, String> {
    let parts: Vec<(String, usize)> = serde_json::from_value(input["parts"].clone()).map_err(|e| e.to_string())?;
    let version = input["version"].as_u64().map_or(history::VERSION, |version| version as u8);
    let mut bytes = Vec::new();
    for (part, times) in parts {
        bytes.extend(unhex(&part).ok_or("a part is not hex")?.repeat(times));
    }
    Ok(json!({"result": match history::read_counted(version, &bytes) {
        Counted::Segment(_) => "counted",
        Counted::Unreadable => "unreadable",
        Counted::TooLarge => "too_large",
    }}))
}

pub(super) fn join(input: &Value) -> Result<Value, String> {
    let mut joiner = Joiner::default();
    for piece in list(input, "pieces")? {
        joiner.add(&piece.as_str().and_then(unhex).ok_or("a piece is not hex")?);
    }
    let joined = joiner.finish(parse_id(&text(input, "call")?)?);
    Ok(json!({"history": joined.history.map(|b| hex(&b)), "complete": joined.complete}))
}

pub(super) fn spans(input: &Value) -> Result<Value, String> {
    let trace = bytes(input, "trace")?.try_into().map_err(|_| "a trace id has 16 bytes")?;
    let has_parent = input["has_parent"].as_bool().ok_or("'has_parent' is not a bool")?;
    Ok(match history::decode(&bytes(input, "history")?) {
        Ok(h) => otlp::document(trace, &span::spans(h.call, &tree::scope(h.segment, h.call), has_parent)),
        Err(_) => json!({"error": "malformed"}),
    })
}

fn protocol(http: bool) -> &'static str {
    if http { "http" } else { "grpc" }
}

fn segment(s: &Segment, call: u64) -> Value {
    let mut sent = 0;
    let events: Vec<Value> = s
        .events
        .iter()
        .map(|event| {
            let at_us = event.at_us;
            let ended = |kind: &str, e: &CallEnded| {
                let child = e.child.as_ref().map(|c| segment(c, call_id::derive(call, e.call)));
                let mut event =
                    json!({"kind": kind, "at_us": at_us, "call": e.call, "status": e.status, "gap": e.gap, "child": child});
                if e.connect_us > 0 {
                    event["connect_us"] = json!(e.connect_us);
                }
                event
            };
            match &event.kind {
                EventKind::SendRequest { name, peer, http, fault, inherited } => {
                    sent += 1;
                    let mut event = json!({"kind": "SEND_REQUEST", "at_us": at_us, "call": sent, "id": id(call_id::derive(call, sent)), "name": name,
                        "peer": peer, "protocol": protocol(*http), "fault": fault});
                    if *inherited {
                        event["inherited"] = json!(true);
                    }
                    event
                }
                EventKind::RecvResponse(e) => ended("RECV_RESPONSE", e),
                EventKind::CallFailed(e) => ended("CALL_FAILED", e),
                EventKind::SendResponse { status } => json!({"kind": "SEND_RESPONSE", "at_us": at_us, "status": status}),
                EventKind::UnscopedCalls(c) => json!({"kind": "UNSCOPED_CALLS", "at_us": at_us, "name": c.name, "peer": c.peer,
                    "protocol": protocol(c.http), "count": c.count, "site": c.site}),
            }
        })
        .collect();
    json!({"service": s.service, "name": s.name, "start_us": s.start_us, "truncated": s.truncated, "faults_off": s.faults_off, "events": events})
}
