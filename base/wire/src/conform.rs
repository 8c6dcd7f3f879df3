//! The conformance program's logic: what each vector kind of `spec/README.md` computes from its input.

use crate::accept::Receiver;
use crate::bytes::{hex, unhex};
use crate::carrier::{self, HttpCarrier, HttpReply};
use crate::envelope::{Accept, Envelope};
use crate::history::{self, Ended, Segment, What};
use crate::scope::{End, Scope};
use crate::trust::Trust;
use crate::{WireError, call_id, select};
use model::Selector;
use model::trace::Protocol;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The result of one vector; a vector that does not have the documented shape is an error text.
pub fn result(kind: &str, input: &Value) -> Result<Value, String> {
    match kind {
        "envelope" => envelopes(input),
        "scope" => scope(input),
        "history" => Ok(match history::decode(&bytes(input, "bytes")?) {
            Ok(h) => json!({"call": id(h.call), "segment": segment(&h.segment, h.call)}),
            Err(e) => error(e),
        }),
        "truncate" => {
            let cut = history::truncate(&bytes(input, "history")?, number(input, "limit")? as usize)
                .map_err(|e| e.to_string())?;
            Ok(json!({"history": cut.map(|b| hex(&b))}))
        }
        "field" => {
            Ok(json!({"bytes": hex(&carrier::append_field(&bytes(input, "message")?, &bytes(input, "history")?))}))
        }
        "tail" => {
            Ok(json!({"bytes": hex(&carrier::append_tail(&bytes(input, "message")?, &bytes(input, "history")?))}))
        }
        "cut_field" => Ok(cut(carrier::cut_field(&bytes(input, "bytes")?))),
        "cut_tail" => Ok(cut(carrier::cut_tail(&bytes(input, "bytes")?))),
        "match" => {
            let matches = list(input, "pairs")?.iter().map(|p| {
                let s = &p["selector"];
                let selector =
                    Selector { caller: text(s, "caller")?, callee: text(s, "callee")?, call: text(s, "call")? };
                Ok(select::matches(&selector, &text(p, "caller")?, &text(p, "peer")?, &text(p, "name")?))
            });
            Ok(json!({"matches": matches.collect::<Result<Vec<bool>, String>>()?}))
        }
        "name" => {
            let names = list(input, "requests")?.iter().map(|r| {
                Ok(select::normalised_http_name(&select::raw_http_name(&text(r, "method")?, &text(r, "target")?)))
            });
            Ok(json!({"names": names.collect::<Result<Vec<String>, String>>()?}))
        }
        "carrier" => http_carrier(input),
        "call_id" => {
            let parent = parse_id(&text(input, "parent")?)?;
            let ids = list(input, "numbers")?.iter().map(|n| id(call_id::derive(parent, n.as_u64().unwrap_or(0))));
            Ok(json!({"ids": ids.collect::<Vec<_>>()}))
        }
        "corrupt" => {
            let mut body = bytes(input, "bytes")?;
            carrier::corrupt(&mut body);
            Ok(json!({"bytes": hex(&body)}))
        }
        _ => Err(format!("unknown vector kind '{kind}'")),
    }
}

fn text(value: &Value, key: &str) -> Result<String, String> {
    value[key].as_str().map(str::to_owned).ok_or_else(|| format!("'{key}' is not a string"))
}

fn number(value: &Value, key: &str) -> Result<u64, String> {
    value[key].as_u64().ok_or_else(|| format!("'{key}' is not a number"))
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
    value[key].as_array().ok_or_else(|| format!("'{key}' is not a list"))
}

fn bytes(value: &Value, key: &str) -> Result<Vec<u8>, String> {
    unhex(&text(value, key)?).ok_or_else(|| format!("'{key}' is not hex"))
}

fn id(call: u64) -> String {
    format!("{call:016x}")
}

fn parse_id(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|e| e.to_string())
}

fn error(e: WireError) -> Value {
    json!({"error": e.code()})
}

fn cut((message, history): (&[u8], Option<&[u8]>)) -> Value {
    json!({"message": hex(message), "history": history.map(hex)})
}

fn envelope_json(e: &Envelope) -> Value {
    let mut accept = Vec::new();
    if e.hop.accept.field {
        accept.push("field");
    }
    if e.hop.accept.tail {
        accept.push("tail");
    }
    json!({
        "trace": hex(&e.signed.trace_id), "run": hex(&e.signed.run), "expires": e.signed.expires, "key": e.signed.key_id,
        "environment": e.signed.environment, "history": e.signed.history, "plan": e.signed.plan,
        "call": id(e.hop.call), "accept": accept, "receive_limit": e.hop.receive_limit, "evidence": e.hop.evidence,
    })
}

fn envelopes(input: &Value) -> Result<Value, String> {
    let trust = Trust::parse(&text(input, "trust")?).map_err(|e| e.to_string())?;
    let now = number(input, "now")?;
    let mut receiver = Receiver::new(trust);
    let mut results = Vec::new();
    for attempt in list(input, "attempts")? {
        let previous = number(attempt, "attempt")?;
        let accepted = match text(attempt, "carrier")?.as_str() {
            "http" => receiver.accept_header(&text(attempt, "value")?, now, previous),
            _ => receiver.accept(&bytes(attempt, "value")?, now, previous),
        };
        results.push(match accepted {
            Ok(e) => envelope_json(&e),
            Err(e) => error(e),
        });
    }
    Ok(json!({"results": results}))
}

fn segment(s: &Segment, call: u64) -> Value {
    let mut sent = 0;
    let events: Vec<Value> = s
        .events
        .iter()
        .map(|event| {
            let at_us = event.at_us;
            let ended = |kind: &str, e: &Ended| {
                let child = e.child.as_ref().map(|c| segment(c, call_id::derive(call, e.call)));
                json!({"kind": kind, "at_us": at_us, "call": e.call, "status": e.status, "gap": e.gap, "child": child})
            };
            match &event.what {
                What::SendRequest { name, peer, http, fault } => {
                    sent += 1;
                    json!({"kind": "SEND_REQUEST", "at_us": at_us, "call": sent, "id": id(call_id::derive(call, sent)), "name": name,
                        "peer": peer, "protocol": if *http { "http" } else { "grpc" }, "fault": fault})
                }
                What::RecvResponse(e) => ended("RECV_RESPONSE", e),
                What::CallFailed(e) => ended("CALL_FAILED", e),
                What::SendResponse { status } => json!({"kind": "SEND_RESPONSE", "at_us": at_us, "status": status}),
            }
        })
        .collect();
    json!({"service": s.service, "name": s.name, "start_us": s.start_us, "truncated": s.truncated, "faults_off": s.faults_off, "events": events})
}

fn scope(input: &Value) -> Result<Value, String> {
    let trust = Trust::parse(&text(input, "trust")?).map_err(|e| e.to_string())?;
    let peers: BTreeMap<String, String> = serde_json::from_value(input["peers"].clone()).map_err(|e| e.to_string())?;
    let mut receiver = Receiver::new(trust);
    let envelope = receiver.accept(&bytes(input, "envelope")?, number(input, "now")?, 0).map_err(|e| e.to_string())?;
    let mut scope = Scope::new(&text(input, "service")?, &envelope, number(input, "start_us")?, receiver.faults_on());
    let (mut steps, mut route) = (Vec::new(), String::new());
    for step in list(input, "steps")? {
        let at_us = number(step, "at_us")?;
        if let Some(send) = step.get("send") {
            let authority = text(send, "authority")?;
            let peer = peers.get(&authority).cloned().unwrap_or(authority);
            let http = text(send, "protocol")? == "http";
            let name = text(send, "name")?;
            let (protocol, name) = if http {
                let (method, target) = name.split_once(' ').ok_or("an HTTP name is METHOD /path")?;
                (Protocol::Http, select::raw_http_name(method, target))
            } else {
                (Protocol::Grpc, name)
            };
            let decision = scope.send(protocol, &peer, &name, at_us);
            let accept = Accept { field: !http, tail: http };
            let sent =
                scope.envelope(decision.id, accept, if http { 0 } else { 4 << 20 }).map_err(|e| e.to_string())?;
            let kind = decision.fault.and_then(|i| envelope.signed.plan.as_ref().map(|plan| plan[i].kind.as_str()));
            steps.push(json!({"call": decision.number, "id": id(decision.id), "fault": decision.fault, "kind": kind, "envelope": hex(&sent)}));
            continue;
        }
        if let Some(respond) = step.get("respond") {
            scope.respond(number(respond, "status")?, at_us);
            route = text(respond, "name")?;
        } else if let Some((ended, replied)) =
            step.get("reply").map(|r| (r, true)).or_else(|| step.get("failed").map(|f| (f, false)))
        {
            let history = match &ended["history"] {
                Value::Null => None,
                _ => Some(bytes(ended, "history")?),
            };
            let gap = ended["gap"].as_bool().unwrap_or(false);
            let end = End {
                call: number(ended, "call")?,
                status: number(ended, "status")?,
                history: history.as_deref(),
                gap,
            };
            if replied { scope.reply(end, at_us) } else { scope.failed(end, at_us) }
        } else {
            return Err("a step is send, reply, failed or respond".into());
        }
        steps.push(json!({}));
    }
    Ok(json!({"steps": steps, "history": hex(&scope.history(&route))}))
}

fn http_carrier(input: &Value) -> Result<Value, String> {
    let headers = |key: &str| -> Result<Vec<(String, String)>, String> {
        let map: BTreeMap<String, String> = serde_json::from_value(input[key].clone()).map_err(|e| e.to_string())?;
        Ok(map.into_iter().collect())
    };
    let accept = list(input, "accept")?;
    let (request_headers, reply_headers) = (headers("request_headers")?, headers("headers")?);
    let carrier = carrier::http_carrier(&HttpReply {
        method: &text(input, "method")?,
        request_headers: &request_headers,
        status: number(input, "status")? as u16,
        headers: &reply_headers,
        complete: input["complete"].as_bool().unwrap_or(false),
        accept: Accept { field: accept.contains(&json!("field")), tail: accept.contains(&json!("tail")) },
        history_bytes: number(input, "history_bytes")? as usize,
    });
    Ok(json!({"carrier": match carrier {
        HttpCarrier::Header => "header",
        HttpCarrier::Tail => "tail",
        HttpCarrier::TruncatedHeader => "truncated_header",
    }}))
}
