//! Reads traces from OTLP in JSON, as SDKs export it and as a collector's file exporter writes it.

use crate::otlp_spans::{self, SpanIn};
use crate::tree;
use model::Failure;
use model::trace::Trace;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Larger files are refused.
pub const FILE_BYTES_MAX: u64 = 64 << 20;

pub struct Imported {
    /// Ordered by the time of their first span. A trace with several root spans becomes several traces.
    pub traces: Vec<Trace>,
    pub spans: usize,
    /// Messages about what is missing or was left out; empty if the traces are complete.
    pub notices: Vec<String>,
}

/// `name`: the file's name in error messages.
pub fn import(name: &Path, bytes: &[u8]) -> Result<Imported, Failure> {
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(too_large(name));
    }
    let mut spans = Vec::new();
    let mut documents = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    let mut location = Location { bytes, at: 0, line: 1 };
    while let Some(document) = documents.next() {
        let document = document.map_err(|e| not_json(name, &e))?;
        let line = location.next_document();
        otlp_spans::read(&document, &mut spans).map_err(|invalid| {
            Failure::request(format!("{}: line {line}: {}: {}", name.display(), invalid.at, invalid.why))
                .next("OTLP in JSON is expected, as `faultloom export` and OpenTelemetry's collectors write it")
        })?;
        location.advance(documents.byte_offset());
    }
    if spans.is_empty() {
        let why = if location.at == 0 { "the file is empty" } else { "it contains no span" };
        return Err(Failure::request(format!("{} contains no trace", name.display()))
            .why(why)
            .next("a file with OTLP in JSON, one object or one per line: {\"resourceSpans\":[…]}"));
    }
    Ok(into_traces(spans))
}

/// A position in the file and its line.
struct Location<'a> {
    bytes: &'a [u8],
    at: usize,
    line: usize,
}

impl Location<'_> {
    /// The line on which the next document begins.
    fn next_document(&mut self) -> usize {
        let blank = self.bytes[self.at..].iter().take_while(|b| b.is_ascii_whitespace()).count();
        self.advance(self.at + blank);
        self.line
    }

    fn advance(&mut self, to: usize) {
        self.line += self.bytes[self.at..to].iter().filter(|b| **b == b'\n').count();
        self.at = to;
    }
}

fn too_large(name: &Path) -> Failure {
    Failure::request(format!("{} is larger than {} MiB", name.display(), FILE_BYTES_MAX >> 20))
        .next("split it by lines; the spans of one trace must stay together")
}

fn not_json(name: &Path, error: &serde_json::Error) -> Failure {
    let words = error.to_string();
    let why = words.split(" at line ").next().unwrap_or_default();
    Failure::request(format!("{}: line {} column {}: {why}", name.display(), error.line(), error.column()))
        .why("it is not valid JSON, or truncated")
        .next("OTLP in JSON is expected: one object, or one per line")
}

fn into_traces(spans: Vec<SpanIn>) -> Imported {
    let count = spans.len();
    let mut ids = HashSet::new();
    let mut by_trace: HashMap<[u8; 16], Vec<SpanIn>> = HashMap::new();
    let mut duplicates = 0;
    for span in spans {
        if ids.insert((span.trace, span.id)) {
            by_trace.entry(span.trace).or_default().push(span);
        } else {
            duplicates += 1;
        }
    }
    let mut notices = Vec::new();
    if duplicates > 0 {
        notices.push(format!("duplicate spans, of which the first is used: {duplicates}"));
    }
    let mut groups: Vec<([u8; 16], Vec<SpanIn>)> = by_trace.into_iter().collect();
    groups.sort_by_key(|(id, spans)| (spans.iter().map(|s| s.start_ns).min(), *id));
    let traces = groups.into_iter().flat_map(|(id, spans)| tree::traces(id, spans, &mut notices)).collect();
    Imported { traces, spans: count, notices }
}
