//! Traces of a run as one document. It is written trace by trace, except for Perfetto, whose lanes depend on all
//! traces: the document of a large import would need more memory than its traces.

use crate::{annotations, jaeger, perfetto, zipkin};
use model::trace::Trace;
use model::{Failure, Fault, Verdict};
use serde_json::Value;
use std::io::{self, Write};
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

/// A run's traces, of which at least one has spans.
pub struct Export<'a> {
    traces: &'a [Trace],
    faults: &'a [Fault],
    format: Format,
    verdict: Option<Verdict>,
}

impl<'a> Export<'a> {
    /// `faults`: the plan, to name the faults that fired. Error: no reply had a history.
    pub fn new(traces: &'a [Trace], faults: &'a [Fault], format: Format) -> Result<Export<'a>, Failure> {
        if traces.iter().all(|trace| of(trace).list.is_empty()) {
            return Err(Failure::unknown("there is nothing to export")
                .why("no reply of this run has a history")
                .next("`faultloom doctor --target` lists the services that have an SDK"));
        }
        Ok(Export { traces, faults, format, verdict: None })
    }

    /// On each of the traces.
    pub fn with_verdict(mut self, verdict: Option<Verdict>) -> Export<'a> {
        self.verdict = verdict;
        self
    }

    fn annotated(&self, trace: &Trace) -> Spans {
        let mut spans = of(trace);
        annotations::add(&mut spans, trace, self.faults, self.verdict);
        spans
    }

    /// Writes the document.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let all = self.traces.iter().map(|trace| self.annotated(trace)).filter(|spans| !spans.list.is_empty());
        match self.format {
            Format::Otlp => {
                let resources = all.flat_map(|spans| {
                    let mut document = otlp::document(spans.trace_id, &spans.list);
                    let mut resources =
                        serde_json::from_value::<Vec<Value>>(document["resourceSpans"].take()).unwrap_or_default();
                    resources.iter_mut().for_each(annotations::add_events);
                    resources
                });
                out.write_all(b"{\"resourceSpans\":")?;
                write_list(out, resources)?;
                out.write_all(b"}")
            }
            Format::Jaeger => jaeger::write(out, all),
            Format::Zipkin => write_list(out, all.flat_map(|spans| zipkin::list(&spans))),
            Format::Perfetto => {
                Ok(serde_json::to_writer(out, &perfetto::document(&all.collect::<Vec<_>>(), self.faults))?)
            }
        }
    }
}

/// Writes a JSON array, one element after the other, which has at least one.
pub(crate) fn write_list(out: &mut impl Write, list: impl Iterator<Item = Value>) -> io::Result<()> {
    for (index, value) in list.enumerate() {
        out.write_all(if index == 0 { b"[" } else { b"," })?;
        serde_json::to_writer(&mut *out, &value)?;
    }
    out.write_all(b"]")
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
