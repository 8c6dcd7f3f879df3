//! `faultloom import`: traces that OpenTelemetry recorded, as a run.

use crate::args::Import;
use crate::context::Context;
use crate::render::tree::{self, Style};
use app::kinds::recording::import::{self as use_case, ImportSpec};
use app::spec::Version;
use app::text::{plural, printable};
use model::{Exit, Failure};
use serde_json::json;

/// Traces that are drawn.
const DRAWN_MAX: usize = 3;

pub async fn import(context: &Context, args: &Import) -> Result<Exit, Failure> {
    let spec = ImportSpec { version: Version, file: args.file.clone() };
    let imported = use_case::import(context, &spec).await?;
    let (run, traces, spans) = (&imported.run, &imported.traces, imported.spans);
    if context.common.json {
        println!(
            "{}",
            json!({"run": run.id, "verdict": imported.verdict, "traces": traces.len(), "spans": spans,
                "notices": imported.notices, "summary": run.summary})
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
    for notice in &imported.notices {
        println!("! {}", printable(notice));
    }
    println!("run {}   next: {} {}", run.id.short(), context.command("report"), run.id.short());
    Ok(Exit::Pass)
}
