//! Imports traces that OpenTelemetry recorded, as a recording.

use super::record::gap_reasons;
use super::{FAULTS, NAME, TRACES};
use crate::spec::Version;
use crate::text::printable;
use crate::{Context, Event, register_schema};
use exchange::SpanFile;
use model::trace::{Outcome, Trace};
use model::{Failure, Fault, Run, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A file of traces to import.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportSpec {
    pub version: Version<1>,
    /// OTLP in JSON, one object or one per line; `-` reads standard input.
    pub file: PathBuf,
}

register_schema!("import", ImportSpec);

pub struct ImportedRun {
    pub run: Run,
    pub verdict: Verdict,
    /// The first traces; all of them are in the run.
    pub first: Vec<Trace>,
    pub traces: usize,
    pub spans: usize,
    /// What could not be imported, or only in part.
    pub notices: Vec<String>,
}

/// Traces that are returned for display.
const FIRST: usize = 3;

pub async fn import(context: &Context, spec: &ImportSpec) -> Result<ImportedRun, Failure> {
    let name = if spec.file == Path::new("-") { Path::new("standard input") } else { &spec.file };
    let file = SpanFile::read(name, open(&spec.file)?)?;
    let store = context.store().await?;
    let title = printable(&format!("import {}", name.file_name().unwrap_or_default().to_string_lossy()));
    let stored = json!({"import": {"file": name, "spans": file.spans()}});
    let (mut run, dir) = store.begin(NAME, &title, stored, 0).await?;
    context.emit(Event::Started { run: run.id, kind: run.kind.clone() });
    let mut traces = dir.append_file(TRACES)?;
    let mut totals = Totals::default();
    let notices = file.each_trace(|trace| {
        traces.append(std::slice::from_ref(&trace))?;
        totals.add(trace);
        Ok(())
    })?;
    dir.write_json(FAULTS, &Vec::<Fault>::new())?;
    // a part that could not be imported may have been a failure
    let verdict = if notices.is_empty() { Verdict::Pass } else { Verdict::Unknown };
    let (count, summary) = (totals.durations_us.len(), totals.summary(&notices));
    store.finish(&mut run, verdict, summary).await?;
    context.emit(Event::Done { run: run.id, kind: run.kind.clone(), verdict });
    Ok(ImportedRun { run, verdict, first: totals.first, traces: count, spans: file.spans(), notices })
}

fn open(file: &Path) -> Result<Box<dyn Read>, Failure> {
    if file == Path::new("-") {
        return Ok(Box::new(std::io::stdin().lock()));
    }
    let unreadable = |e: std::io::Error| {
        Failure::request(format!("{} cannot be read: {e}", file.display()))
            .next("name a file with OTLP in JSON, or - for standard input")
    };
    let opened = std::fs::File::open(file).map_err(unreadable)?;
    if opened.metadata().map_err(unreadable)?.is_dir() {
        return Err(unreadable(std::io::ErrorKind::IsADirectory.into()));
    }
    Ok(Box::new(opened))
}

/// What is known of all traces when only some of them are in memory.
#[derive(Default)]
struct Totals {
    first: Vec<Trace>,
    last: Option<Trace>,
    failures: u64,
    /// One per trace; None for one without an end.
    durations_us: Vec<Option<u64>>,
}

impl Totals {
    fn add(&mut self, trace: Trace) {
        self.failures += u64::from(!trace.entry.is_ok());
        self.durations_us.push(trace.entry.duration_us());
        if self.first.len() < FIRST {
            self.first.push(trace.clone());
        }
        self.last = Some(trace);
    }

    /// The same fields as for a recording.
    fn summary(&self, notices: &[String]) -> serde_json::Value {
        let Some(last) = &self.last else { return json!({}) };
        let status = match last.entry.outcome {
            Outcome::Replied { status } => Some(status),
            _ => None,
        };
        let mut sorted: Vec<u64> = self.durations_us.iter().copied().flatten().collect();
        sorted.sort_unstable();
        json!({
            "requests": self.durations_us.len(), "failures": self.failures, "reasons": [], "unknown": notices,
            "status": status, "messages": last.messages(), "events": last.events(), "calls": last.walk().len(),
            "gaps": last.gaps(), "gap_reasons": gap_reasons(last), "services": last.services(), "history_bytes": 0,
            "latency_us_median": sorted.get(sorted.len() / 2), "latency_us_max": sorted.last(),
        })
    }
}
