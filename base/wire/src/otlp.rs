//! Spans as OTLP/HTTP JSON. Source: the format, "OTLP"; the names are OpenTelemetry's.

use crate::bytes::hex;
use crate::span::{Attribute, Side, Span};
use serde_json::{Value, json};

const SCOPE: &str = "faultloom";

/// One `resourceSpans` per service, in the order in which services first appear.
pub fn document(trace_id: [u8; 16], spans: &[Span]) -> Value {
    let trace = hex(&trace_id);
    let mut services: Vec<(&str, Vec<Value>)> = Vec::new();
    for one in spans {
        let json = span(&trace, one);
        match services.iter_mut().find(|(service, _)| *service == one.service) {
            Some((_, list)) => list.push(json),
            None => services.push((&one.service, vec![json])),
        }
    }
    let resources = services.into_iter().map(|(service, spans)| {
        json!({"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]},
            "scopeSpans": [{"scope": {"name": SCOPE}, "spans": spans}]})
    });
    json!({"resourceSpans": resources.collect::<Vec<_>>()})
}

fn span(trace: &str, span: &Span) -> Value {
    let kind = match span.side {
        Side::Server => 2,
        Side::Client => 3,
    };
    let attributes = span.attributes.iter().map(|(key, value)| {
        let value = match value {
            Attribute::Text(text) => json!({"stringValue": text}),
            Attribute::Int(number) => json!({"intValue": number.to_string()}),
            Attribute::True => json!({"boolValue": true}),
        };
        json!({"key": key, "value": value})
    });
    let mut out = json!({"traceId": trace, "spanId": format!("{:016x}", span.id), "name": span.name, "kind": kind,
        "startTimeUnixNano": nanoseconds(span.start_us), "endTimeUnixNano": nanoseconds(span.end_us),
        "attributes": attributes.collect::<Vec<_>>(), "status": if span.error { json!({"code": 2}) } else { json!({}) }});
    if let Some(parent) = span.parent {
        out["parentSpanId"] = json!(format!("{parent:016x}"));
    }
    out
}

fn nanoseconds(us: u64) -> String {
    us.saturating_mul(1000).to_string()
}
