//! `faultloom import`: traces that OpenTelemetry recorded, as a run.

use crate::args::Import;
use crate::context::Context;
use crate::render::tree::{self, Style};
use app::text::plural;
use app::text::printable;
use exchange::{FILE_BYTES_MAX, Imported, import as read};
use model::trace::{Outcome, Trace};
use model::{Exit, Failure, Fault, RunKind, Verdict};
use serde_json::json;
use std::io::Read;
use std::path::Path;

/// Notices that are printed and kept; a file can have a trace, and something to say about it, per line.
const NOTICES_MAX: usize = 20;
/// Traces that are drawn.
const DRAWN_MAX: usize = 3;

pub async fn import(context: &Context, args: &Import) -> Result<Exit, Failure> {
    let bytes = bytes(&args.file)?;
    let name = if args.file == Path::new("-") { Path::new("standard input") } else { &args.file };
    let Imported { traces, spans, mut notices } = read(name, &bytes)?;
    if notices.len() > NOTICES_MAX {
        let more = notices.len() - NOTICES_MAX;
        notices.truncate(NOTICES_MAX);
        notices.push(format!("and {more} more like these"));
    }
    let store = context.store().await?;
    let title = printable(&format!("import {}", name.file_name().unwrap_or_default().to_string_lossy()));
    let (mut run, dir) =
        store.begin(RunKind::Recording, &title, json!({"import": {"file": name, "spans": spans}}), 0).await?;
    dir.segment("traces.jsonl")?.append(&traces)?;
    dir.write_json("faults.json", &Vec::<Fault>::new())?;
    // what is not there may have been anything
    let verdict = if notices.is_empty() { Verdict::Pass } else { Verdict::Unknown };
    store.finish(&mut run, verdict, summary(&traces, &notices)).await?;
    if context.common.json {
        println!(
            "{}",
            json!({"run": run.id, "verdict": verdict, "traces": traces.len(), "spans": spans, "notices": notices, "summary": run.summary})
        );
        return Ok(Exit::Pass);
    }
    for trace in traces.iter().take(DRAWN_MAX) {
        println!("\n{}", tree::draw(trace, &[], &Style { expanded: false, rows_max: tree::ROWS_MAX }));
    }
    if traces.len() > DRAWN_MAX {
        println!("… and {}", plural((traces.len() - DRAWN_MAX) as u64, "more request"));
    }
    println!("{}, {}", plural(spans as u64, "span"), plural(traces.len() as u64, "request"));
    for notice in &notices {
        println!("! {}", printable(notice));
    }
    println!("run {}   next: {} {}", run.id.short(), context.command("report"), run.id.short());
    Ok(Exit::Pass)
}

/// Whole, unless it is larger than we take; nothing beyond that is read.
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

/// The same facts as of a recording.
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
