//! Vectors of kind `scope`.

use super::{bytes, id, list, number, text};
use crate::accept::Receiver;
use crate::bytes::hex;
use crate::carrier::TRAILER_BYTES_MAX;
use crate::envelope::{Accept, Envelope};
use crate::piece::{Joiner, Pieces};
use crate::scope::{CallEnd, Scope, UnscopedCall};
use crate::select;
use crate::trust::Trust;
use model::trace::Protocol;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) fn scope(input: &Value) -> Result<Value, String> {
    let trust = Trust::parse(&text(input, "trust")?).map_err(|e| e.to_string())?;
    let peers: BTreeMap<String, String> = serde_json::from_value(input["peers"].clone()).map_err(|e| e.to_string())?;
    let mut receiver = Receiver::new(trust);
    let envelope = receiver.accept(&bytes(input, "envelope")?, number(input, "now")?, 0).map_err(|e| e.to_string())?;
    let mut scope =
        Scope::new(&text(input, "service")?, &envelope, number(input, "start_us")?, receiver.faults_enabled());
    let streams = input["stream"].as_bool().unwrap_or(false);
    let mut stream = streams.then(|| Stream::new(&envelope));
    let (mut steps, mut route) = (Vec::new(), String::new());
    for step in list(input, "steps")? {
        let at_us = number(step, "at_us")?;
        steps.push(if let Some(sent) = step.get("send") {
            send(&mut scope, &envelope, &peers, sent, at_us)?
        } else if let Some(respond) = step.get("respond") {
            scope.finish(number(respond, "status")?, at_us);
            route = text(respond, "name")?;
            stream.as_mut().map_or(json!({}), |stream| stream.last(&scope, &route))
        } else if let Some(ended) = step.get("reply") {
            end(ended, |end| scope.record_reply(end, at_us))?
        } else if let Some(ended) = step.get("failed") {
            end(ended, |end| scope.record_failure(end, at_us))?
        } else if let Some(connected) = step.get("connected") {
            scope.set_connect_time(number(connected, "call")?, number(connected, "us")?);
            json!({})
        } else if let Some(unscoped) = step.get("unscoped") {
            let calls: Result<Vec<_>, _> = list(unscoped, "calls")?.iter().map(|c| unscoped_call(c, &peers)).collect();
            scope.record_unscoped(&calls?, number(unscoped, "more")?, at_us);
            json!({})
        } else if let (Some(message), Some(stream)) = (step.get("message"), stream.as_mut()) {
            stream.message(&scope, number(message, "bytes")? as usize)
        } else {
            return Err("a step is send, connected, reply, failed, unscoped, respond or, in a stream, message".into());
        });
    }
    let history = match stream {
        Some(stream) => stream.joiner.finish(envelope.hop.call).history,
        None => Some(scope.history(&route)),
    };
    Ok(json!({"steps": steps, "history": history.map(|bytes| hex(&bytes))}))
}

fn send(
    scope: &mut Scope,
    envelope: &Envelope,
    peers: &BTreeMap<String, String>,
    send: &Value,
    at_us: u64,
) -> Result<Value, String> {
    let (protocol, peer, name) = request(send, peers)?;
    let http = protocol == Protocol::Http;
    let call = match send["inherited"].as_bool() {
        Some(true) => scope.begin_inherited_call(protocol, &peer, &name, at_us),
        _ => scope.begin_call(protocol, &peer, &name, at_us),
    };
    let accept = Accept { field: !http, tail: http };
    let sent = scope.envelope(call.id, accept, if http { 0 } else { 4 << 20 }).map_err(|e| e.to_string())?;
    let kind = call.fault.and_then(|i| envelope.signed.plan.as_ref().map(|plan| plan[i].kind.as_str()));
    Ok(json!({"call": call.number, "id": id(call.id), "fault": call.fault, "kind": kind, "envelope": hex(&sent)}))
}

/// Protocol, peer and raw name.
fn request(call: &Value, peers: &BTreeMap<String, String>) -> Result<(Protocol, String, String), String> {
    let authority = text(call, "authority")?;
    let peer = peers.get(&authority).cloned().unwrap_or(authority);
    let name = text(call, "name")?;
    if text(call, "protocol")? != "http" {
        return Ok((Protocol::Grpc, peer, name));
    }
    let (method, target) = name.split_once(' ').ok_or("an HTTP name is METHOD /path")?;
    Ok((Protocol::Http, peer, select::raw_http_name(method, target)))
}

fn unscoped_call(call: &Value, peers: &BTreeMap<String, String>) -> Result<UnscopedCall, String> {
    let (protocol, peer, raw) = request(call, peers)?;
    let name = if protocol == Protocol::Http { select::normalize_http_name(&raw) } else { raw };
    Ok(UnscopedCall { protocol, peer, name, site: text(call, "site")? })
}

fn end(ended: &Value, record: impl FnOnce(CallEnd)) -> Result<Value, String> {
    let history = match &ended["history"] {
        Value::Null => None,
        _ => Some(bytes(ended, "history")?),
    };
    let gap = ended["gap"].as_bool().unwrap_or(false);
    record(CallEnd {
        call: number(ended, "call")?,
        status: number(ended, "status")?,
        history: history.as_deref(),
        gap,
    });
    Ok(json!({}))
}

/// The pieces of a stream's replies, and their receiver.
struct Stream {
    pieces: Pieces,
    joiner: Joiner,
}

impl Stream {
    fn new(envelope: &Envelope) -> Stream {
        Stream { pieces: Pieces::new(envelope.hop.accept, envelope.hop.receive_limit), joiner: Joiner::default() }
    }

    fn message(&mut self, scope: &Scope, message_bytes: usize) -> Value {
        let piece = self.pieces.next_piece(message_bytes, scope.head(""), scope.events());
        self.send_piece(piece)
    }

    fn last(&mut self, scope: &Scope, route: &str) -> Value {
        let piece = self.pieces.last_piece(TRAILER_BYTES_MAX, &scope.head(route), scope.events());
        self.send_piece(piece)
    }

    fn send_piece(&mut self, piece: Option<Vec<u8>>) -> Value {
        if let Some(bytes) = &piece {
            self.joiner.add(bytes);
        }
        json!({"piece": piece.map(|bytes| hex(&bytes))})
    }
}
