//! `faultloom import`: traces that OpenTelemetry recorded, as a run.

use crate::args::Import;
use crate::context::Context;
use crate::render::tree::{self, Style};
use app::kinds::recording::import::{self as use_case, ImportSpec};
use app::spec::Version;
use app::text::{plural, printable};
use model::{Exit, Failure};
use serde_json::json;

pub async fn import(context: &Context, args: &Import) -> Result<Exit, Failure> {
    let spec = ImportSpec { version: Version, file: args.file.clone() };
    let imported = use_case::import(context, &spec).await?;
    let (run, traces, spans) = (&imported.run, imported.traces, imported.spans);
    if context.common.json {
        println!(
            "{}",
            json!({"run": run.id, "verdict": imported.verdict, "traces": traces, "spans": spans,
                "notices": imported.notices, "summary": run.summary})
        );
        return Ok(Exit::Pass);
    }
    for trace in &imported.first {
        println!("\n{}", tree::draw(trace, &[], &Style { expanded: false, rows_max: tree::ROWS_MAX }));
    }
    let more = traces - imported.first.len();
    if more > 0 {
        println!("… and {}", plural(more as u64, "more request"));
    }
    println!("{}, {}", plural(spans as u64, "span"), plural(traces as u64, "request"));
    for notice in &imported.notices {
        println!("! {}", printable(notice));
    }
    println!("run {}   next: {} {}", run.id.short(), context.command("report"), run.id.short());
    Ok(Exit::Pass)
}
