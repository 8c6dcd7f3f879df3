//! Traces made from the shared vectors, which have every feature of a trace; goldens.

use exchange::{Export, Format, SpanFile};
use model::trace::{Outcome, Protocol, Trace};
use model::{Failure, Fault, FaultKind, Selector};
use serde_json::Value;
use std::path::{Path, PathBuf};
use wire::bytes::unhex;
use wire::history;
use wire::tree::{self, EntryCall};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn vector(name: &str) -> Value {
    let path = repository().join(format!("spec/vectors/good/{name}.json"));
    serde_json::from_slice(&std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))).unwrap()
}

/// A trace with this id, made from the history of a vector.
pub fn trace(name: &str, trace_id: [u8; 16]) -> Trace {
    let vector = vector(name);
    let bytes = unhex(vector["input"]["history"].as_str().unwrap()).unwrap();
    let read = history::decode(&bytes).unwrap();
    let entry = EntryCall {
        trace_id,
        call: read.call,
        name: "GET /".into(),
        peer: "127.0.0.1:8080".into(),
        protocol: Protocol::Http,
        duration_us: 2000,
        outcome: Outcome::Replied { status: 200 },
    };
    tree::trace(entry, Some(read))
}

/// The document as it is written.
pub fn export(traces: &[Trace], faults: &[Fault], format: Format) -> Result<Value, Failure> {
    let mut document = Vec::new();
    Export::new(traces, faults, format)?.write(&mut document).expect("memory is writable");
    Ok(serde_json::from_slice(&document).expect("valid JSON"))
}

/// Nested calls, faults, gaps, open calls, a truncated history.
pub fn traces() -> Vec<Trace> {
    ["otlp-nested", "otlp-faulted", "otlp-gap", "otlp-open", "otlp-truncated"]
        .into_iter()
        .zip(1..)
        .map(|(name, n)| trace(name, u128::to_be_bytes(n)))
        .collect()
}

/// The faults of the vector `otlp-faulted` that fire.
pub fn faults() -> Vec<Fault> {
    let select = |callee: &str| Selector { callee: callee.into(), ..Selector::default() };
    vec![
        Fault::new(FaultKind::Status, select("currency")).arg(13),
        Fault::new(FaultKind::Unavailable, select("currency")),
        Fault::new(FaultKind::EmptyReply, select("cart")),
    ]
}

/// An imported file.
#[derive(Debug)]
pub struct Imported {
    pub traces: Vec<Trace>,
    pub spans: usize,
    pub notices: Vec<String>,
}

pub fn import(name: &str, bytes: &[u8]) -> Result<Imported, Failure> {
    let file = SpanFile::read(Path::new(name), bytes)?;
    let mut traces = Vec::new();
    let notices = file.each_trace(|trace, _| {
        traces.push(trace);
        Ok(())
    })?;
    Ok(Imported { traces, spans: file.spans(), notices })
}

/// Compares with the golden of this name, or rewrites it (`BLESS=1`, `make bless`).
#[track_caller]
pub fn golden(name: &str, got: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(name);
    let text = serde_json::to_string_pretty(got).unwrap() + "\n";
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == text,
        "{name} differs from the current export; if the change is intended, run `make bless` and review the diff"
    );
}
