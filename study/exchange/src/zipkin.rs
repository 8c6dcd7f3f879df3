//! Zipkin's JSON, version 2: one list of spans.

use crate::export::{Spans, hex16, hex32};
use serde_json::{Map, Value, json};
use wire::span::{Attribute, PEER, Side, Span};

pub(crate) fn list(trace: &Spans) -> Vec<Value> {
    let trace_id = hex32(trace.trace_id);
    trace.list.iter().map(|one| span(&trace_id, one)).collect()
}

fn span(trace_id: &str, span: &Span) -> Value {
    let kind = match span.side {
        Side::Server => "SERVER",
        Side::Client => "CLIENT",
    };
    // Zipkin's tags are texts; an `error` tag marks an error, whatever its value
    let mut tags: Map<String, Value> = span
        .attributes
        .iter()
        .filter(|(key, _)| *key != PEER)
        .map(|(key, value)| {
            let text = match value {
                Attribute::Text(text) => text.clone(),
                Attribute::Int(number) => number.to_string(),
                Attribute::True => "true".to_owned(),
            };
            ((*key).to_owned(), Value::String(text))
        })
        .collect();
    if span.error {
        tags.insert("error".to_owned(), json!("true"));
    }
    // for Zipkin, a duration of 0 means unknown
    let duration = span.end_us.saturating_sub(span.start_us).max(1);
    let mut out = json!({"traceId": trace_id, "id": hex16(span.id), "name": span.name, "kind": kind,
        "timestamp": span.start_us, "duration": duration, "localEndpoint": {"serviceName": span.service}, "tags": tags});
    if let Some(parent) = span.parent {
        out["parentId"] = json!(hex16(parent));
    }
    if let Some((_, Attribute::Text(peer))) = span.attributes.iter().find(|(key, _)| *key == PEER) {
        out["remoteEndpoint"] = json!({"serviceName": peer});
    }
    out
}
