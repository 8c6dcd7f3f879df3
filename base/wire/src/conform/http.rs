//! Vectors about headers: the carrier of a history, and bridges.

use super::{bytes, id, list, number, parse_id, text};
use crate::bridge::{IncomingEnvelope, TraceParent, baggage_out, find_envelope, traceparent_out};
use crate::bytes::hex;
use crate::carrier::{self, HttpCarrier, HttpReply};
use crate::envelope::Accept;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn headers(input: &Value, key: &str) -> Result<BTreeMap<String, String>, String> {
    serde_json::from_value(input[key].clone()).map_err(|e| e.to_string())
}

fn pairs(input: &Value, key: &str) -> Result<Vec<(String, String)>, String> {
    Ok(headers(input, key)?.into_iter().collect())
}

pub(super) fn bridge_out(input: &Value) -> Result<Value, String> {
    let mut headers = headers(input, "headers")?;
    let trace_id = bytes(input, "trace")?.try_into().map_err(|_| "a trace id has 16 bytes")?;
    let own = TraceParent { trace_id, parent: parse_id(&text(input, "call")?)? };
    let traceparent = traceparent_out(headers.get("traceparent").map(String::as_str), own);
    let baggage = baggage_out(headers.get("baggage").map(String::as_str), &bytes(input, "envelope")?);
    headers.clear();
    headers.insert("traceparent".into(), traceparent);
    headers.extend(baggage.map(|text| ("baggage".into(), text)));
    Ok(json!({"headers": headers}))
}

pub(super) fn bridge_in(input: &Value) -> Result<Value, String> {
    let headers = headers(input, "headers")?;
    Ok(match find_envelope(|name| headers.get(name).map(String::as_str)) {
        IncomingEnvelope::Own(envelope) => json!({"carrier": "own", "envelope": envelope, "call": null}),
        IncomingEnvelope::Baggage { envelope, call } => {
            json!({"carrier": "baggage", "envelope": envelope, "call": id(call)})
        }
        IncomingEnvelope::None => json!({"carrier": "none", "envelope": null, "call": null}),
    })
}

pub(super) fn traceparents(input: &Value) -> Result<Value, String> {
    let values = list(input, "values")?.iter().map(|value| {
        let parent = value.as_str().and_then(TraceParent::parse);
        parent.map(|p| json!({"trace": hex(&p.trace_id), "parent": id(p.parent)}))
    });
    Ok(json!({"values": values.collect::<Vec<_>>()}))
}

pub(super) fn reply_carrier(input: &Value) -> Result<Value, String> {
    let accept = list(input, "accept")?;
    let (request_headers, reply_headers) = (pairs(input, "request_headers")?, pairs(input, "headers")?);
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
