//! Imports traces that OpenTelemetry recorded, as a recording.

use super::record::gap_reasons;
use super::{FAULTS, NAME, TRACES};
use crate::event::Progress;
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

/// The key of the file in the stored description of the run; other recordings do not have it.
pub(super) const SOURCE: &str = "import";

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
    let (opened, bytes) = open(&spec.file)?;
    let file = SpanFile::read(name, ReadProgress { from: opened, context, read: 0, bytes, reported: 0 })?;
    let store = context.store().await?;
    let title = printable(&format!("import {}", name.file_name().unwrap_or_default().to_string_lossy()));
    let stored = json!({SOURCE: {"file": name, "spans": file.spans()}});
    let (mut run, dir) = store.begin(NAME, &title, stored, 0).await?;
    context.emit(Event::Started { run: run.id, kind: run.kind.clone() });
    let mut traces = dir.append_file(TRACES)?;
    let mut totals = Totals::default();
    let mut reported = 0;
    let notices = file.each_trace(|trace, spans| {
        if spans >= reported + REPORT_SPANS {
            reported = spans;
            context.progress(counts("store", spans as u64, file.spans() as u64, "spans"));
        }
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

/// The content of a file or of standard input, whose size is unknown (0).
fn open(file: &Path) -> Result<(Box<dyn Read>, u64), Failure> {
    if file == Path::new("-") {
        return Ok((Box::new(std::io::stdin().lock()), 0));
    }
    let unreadable = |e: std::io::Error| {
        Failure::request(format!("{} cannot be read: {e}", file.display()))
            .next("name a file with OTLP in JSON, or - for standard input")
    };
    let opened = std::fs::File::open(file).map_err(unreadable)?;
    let metadata = opened.metadata().map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(unreadable(std::io::ErrorKind::IsADirectory.into()));
    }
    Ok((Box::new(opened), metadata.len()))
}

/// Progress is reported after this many bytes that were read, and spans that were stored.
const REPORT_BYTES: u64 = 1 << 20;
const REPORT_SPANS: usize = 1000;

fn counts(name: &str, done: u64, total: u64, unit: &str) -> Progress {
    let detail = if total == 0 { format!("{done} {unit}") } else { unit.to_owned() };
    Progress::Counts { name: name.to_owned(), done, total, may_grow: false, detail }
}

/// Reports how much of a file was read.
struct ReadProgress<'a, R> {
    from: R,
    context: &'a Context,
    /// 0: unknown.
    bytes: u64,
    read: u64,
    reported: u64,
}

impl<R: Read> Read for ReadProgress<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.from.read(buffer)?;
        self.read += n as u64;
        if self.read >= self.reported + REPORT_BYTES {
            self.reported = self.read;
            let total = if self.bytes == 0 { 0 } else { self.bytes.max(self.read).div_ceil(REPORT_BYTES) };
            self.context.progress(counts("read", self.read / REPORT_BYTES, total, "MiB"));
        }
        Ok(n)
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn the_part_of_the_file_that_was_read_is_reported() {
        for (bytes, totals) in [(5 << 20, [5; 4]), (0, [0; 4])] {
            let reported: Arc<Mutex<Vec<(u64, u64)>>> = Arc::default();
            let sink = reported.clone();
            let mut context = Context::new(".faultloom");
            context.events = Arc::new(move |event| {
                if let Event::Progress(Progress::Counts { done, total, .. }) = event {
                    sink.lock().unwrap().push((done, total));
                }
            });
            let content = vec![0u8; (4 << 20) + 9];
            let mut read = ReadProgress { from: &content[..], context: &context, bytes, read: 0, reported: 0 };
            std::io::copy(&mut read, &mut std::io::sink()).unwrap();
            let expected: Vec<(u64, u64)> = (1..=4).zip(totals).collect();
            assert_eq!(*reported.lock().unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn stored_spans_are_counted_up_to_those_of_the_file() {
        let home = std::env::temp_dir().join(format!("faultloom-import-progress-{}", std::process::id()));
        std::fs::create_dir_all(&home).unwrap();
        let spans: Vec<serde_json::Value> = (1..=2500u64)
            .map(|n| {
                json!({"traceId": format!("{n:032x}"), "spanId": format!("{n:016x}"), "name": "GET /", "kind": 2,
                    "startTimeUnixNano": "1000", "endTimeUnixNano": "2000"})
            })
            .collect();
        let document = json!({"resourceSpans": [{"resource": {"attributes": [
            {"key": "service.name", "value": {"stringValue": "a"}}]}, "scopeSpans": [{"spans": spans}]}]});
        let file = home.join("spans.json");
        std::fs::write(&file, document.to_string()).unwrap();
        let reported: Arc<Mutex<Vec<(u64, u64)>>> = Arc::default();
        let sink = reported.clone();
        let mut context = Context::new(home.join("store"));
        context.events = Arc::new(move |event| match event {
            Event::Progress(Progress::Counts { name, done, total, .. }) if name == "store" => {
                sink.lock().unwrap().push((done, total));
            }
            _ => {}
        });
        let imported = import(&context, &ImportSpec { version: Version, file }).await.unwrap();
        assert_eq!((imported.traces, imported.spans), (2500, 2500));
        assert_eq!(*reported.lock().unwrap(), [(1000, 2500), (2000, 2500)]);
        std::fs::remove_dir_all(home).unwrap();
    }
}
