//! Traces of a run as one document.

use crate::{jaeger, perfetto, zipkin};
use model::trace::Trace;
use model::{Failure, Fault};
use serde_json::{Value, json};
use wire::otlp;
use wire::span::{Span, spans};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Otlp,
    Jaeger,
    Zipkin,
    Perfetto,
}

/// The spans of a trace; empty if its reply had no history.
pub(crate) struct Spans {
    pub trace_id: [u8; 16],
    pub list: Vec<Span>,
}

/// `faults`: the plan, to name the faults that fired. Error: no reply had a history.
pub fn export(traces: &[Trace], faults: &[Fault], format: Format) -> Result<Value, Failure> {
    let all: Vec<Spans> = traces.iter().map(of).filter(|spans| !spans.list.is_empty()).collect();
    if all.is_empty() {
        return Err(Failure::unknown("there is nothing to export")
            .why("no reply of this run has a history")
            .next("`faultloom doctor --target` lists the services that have an SDK"));
    }
    Ok(match format {
        Format::Otlp => {
            let documents = all.iter().map(|spans| otlp::document(spans.trace_id, &spans.list));
            let resources = documents.filter_map(|d| d["resourceSpans"].as_array().cloned()).flatten();
            json!({"resourceSpans": resources.collect::<Vec<_>>()})
        }
        Format::Jaeger => jaeger::document(&all),
        Format::Zipkin => zipkin::document(&all),
        Format::Perfetto => perfetto::document(&all, faults),
    })
}

fn of(trace: &Trace) -> Spans {
    let trace_id = u128::from_str_radix(&trace.trace_id, 16).unwrap_or_default().to_be_bytes();
    let call = u64::from_str_radix(&trace.entry.id, 16).unwrap_or_default();
    let list = trace.entry.scope.as_deref().map_or(Vec::new(), |scope| spans(call, scope, false));
    Spans { trace_id, list }
}

pub(crate) fn hex16(id: u64) -> String {
    format!("{id:016x}")
}

pub(crate) fn hex32(id: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(id))
}
