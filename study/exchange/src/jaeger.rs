//! JSON as Jaeger's UI accepts it for upload, in the form of its query API: one entry of `data` per trace.

use crate::export::{Spans, hex16, hex32, write_list};
use serde_json::{Value, json};
use std::io::{self, Write};
use wire::span::{Attribute, Side, Span};

pub(crate) fn write(out: &mut impl Write, traces: impl Iterator<Item = Spans>) -> io::Result<()> {
    let mut total = 0;
    out.write_all(b"{\"data\":")?;
    write_list(
        out,
        traces.map(|spans| {
            total += 1;
            trace(&spans)
        }),
    )?;
    write!(out, ",\"errors\":null,\"limit\":0,\"offset\":0,\"total\":{total}}}")
}

fn trace(spans: &Spans) -> Value {
    let trace_id = hex32(spans.trace_id);
    let mut services: Vec<&str> = Vec::new();
    let mut list = Vec::new();
    for one in &spans.list {
        let at = services.iter().position(|s| *s == one.service).unwrap_or_else(|| {
            services.push(&one.service);
            services.len() - 1
        });
        list.push(span(&trace_id, one, &process(at)));
    }
    let processes: serde_json::Map<String, Value> = services
        .iter()
        .enumerate()
        .map(|(at, service)| (process(at), json!({"serviceName": service, "tags": []})))
        .collect();
    json!({"traceID": trace_id, "spans": list, "processes": processes, "warnings": null})
}

fn process(at: usize) -> String {
    format!("p{}", at + 1)
}

fn span(trace_id: &str, span: &Span, process: &str) -> Value {
    let references: Vec<Value> = span
        .parent
        .iter()
        .map(|parent| json!({"refType": "CHILD_OF", "traceID": trace_id, "spanID": hex16(*parent)}))
        .collect();
    let kind = match span.side {
        Side::Server => "server",
        Side::Client => "client",
    };
    let mut tags = vec![json!({"key": "span.kind", "type": "string", "value": kind})];
    tags.extend(span.error.then(|| json!({"key": "error", "type": "bool", "value": true})));
    tags.extend(span.attributes.iter().map(|(key, value)| match value {
        Attribute::Text(text) => json!({"key": key, "type": "string", "value": text}),
        Attribute::Int(number) => json!({"key": key, "type": "int64", "value": number}),
        Attribute::True => json!({"key": key, "type": "bool", "value": true}),
    }));
    json!({"traceID": trace_id, "spanID": hex16(span.id), "operationName": span.name, "references": references,
        "startTime": span.start_us, "duration": span.end_us.saturating_sub(span.start_us), "tags": tags, "logs": [],
        "processID": process, "warnings": null})
}
