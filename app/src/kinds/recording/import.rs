//! Imports traces that OpenTelemetry recorded, as a recording.

use super::{FAULTS, NAME, TRACES};
use crate::spec::Version;
use crate::text::printable;
use crate::{Context, Event, register_schema};
use exchange::{FILE_BYTES_MAX, Imported};
use model::trace::{Outcome, Trace};
use model::{Failure, Fault, Run, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Notices beyond this number are counted only; a large file may have one per line.
const NOTICES_MAX: usize = 20;

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
    pub traces: Vec<Trace>,
    pub spans: usize,
    /// What could not be imported, or only in part.
    pub notices: Vec<String>,
}

pub async fn import(context: &Context, spec: &ImportSpec) -> Result<ImportedRun, Failure> {
    let bytes = bytes(&spec.file)?;
    let name = if spec.file == Path::new("-") { Path::new("standard input") } else { &spec.file };
    let Imported { traces, spans, mut notices } = exchange::import(name, &bytes)?;
    if notices.len() > NOTICES_MAX {
        let more = notices.len() - NOTICES_MAX;
        notices.truncate(NOTICES_MAX);
        notices.push(format!("and {more} more like these"));
    }
    let store = context.store().await?;
    let title = printable(&format!("import {}", name.file_name().unwrap_or_default().to_string_lossy()));
    let (mut run, dir) = store.begin(NAME, &title, json!({"import": {"file": name, "spans": spans}}), 0).await?;
    context.emit(Event::Started { run: run.id, kind: run.kind.clone() });
    dir.append_file(TRACES)?.append(&traces)?;
    dir.write_json(FAULTS, &Vec::<Fault>::new())?;
    // a part that could not be imported may have been a failure
    let verdict = if notices.is_empty() { Verdict::Pass } else { Verdict::Unknown };
    store.finish(&mut run, verdict, summary(&traces, &notices)).await?;
    context.emit(Event::Done { run: run.id, kind: run.kind.clone(), verdict });
    Ok(ImportedRun { run, verdict, traces, spans, notices })
}

/// The whole file. One that is too large is refused without reading the rest.
fn bytes(file: &Path) -> Result<Vec<u8>, Failure> {
    let unreadable = |e: std::io::Error| {
        Failure::request(format!("{} cannot be read: {e}", file.display()))
            .next("name a file with OTLP in JSON, or - for standard input")
    };
    let mut bytes = Vec::new();
    let source: Box<dyn Read> = if file == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(std::fs::File::open(file).map_err(unreadable)?)
    };
    source.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// The same fields as for a recording.
fn summary(traces: &[Trace], notices: &[String]) -> serde_json::Value {
    let Some(last) = traces.last() else { return json!({}) };
    let status = match last.entry.outcome {
        Outcome::Replied { status } => Some(status),
        _ => None,
    };
    let mut sorted: Vec<u64> = traces.iter().filter_map(|t| t.entry.duration_us()).collect();
    sorted.sort_unstable();
    json!({
        "requests": traces.len(), "failures": traces.iter().filter(|t| !t.entry.is_ok()).count(), "reasons": [], "unknown": notices,
        "status": status, "messages": last.messages(), "events": last.events(), "calls": last.walk().len(), "gaps": last.gaps(),
        "services": last.services(), "history_bytes": 0, "latency_us_median": sorted.get(sorted.len() / 2), "latency_us_max": sorted.last(),
    })
}
