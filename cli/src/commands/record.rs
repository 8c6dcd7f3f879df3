//! `faultloom record`: sends a request and shows everything it did.

use crate::args::Record;
use crate::context::Context;
use crate::render::recording;
use crate::render::tree::{self, Style};
use app::kinds::recording::record::{self as use_case, RecordSpec, Recorded};
use app::spec::Version;
use app::text::printable;
use model::{Exit, Failure};
use serde_json::json;
use std::path::Path;

pub async fn record(context: &Context, args: &Record) -> Result<Exit, Failure> {
    let spec = match &args.spec {
        Some(file) => read(file)?,
        None => RecordSpec {
            version: Version,
            request: args.request.spec(),
            expect: args.expect.spec(),
            faults: args.faults.clone(),
            against: args.against.clone(),
            count: args.count,
        },
    };
    let recorded = use_case::record(context, &spec).await?;
    if context.common.json {
        print_json(&recorded);
    } else {
        print(context, args, &recorded);
    }
    Ok(recorded.verdict.exit())
}

/// The spec of a recording as JSON.
fn read(file: &Path) -> Result<RecordSpec, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|e| Failure::request(format!("{} cannot be read: {e}", file.display())))?;
    serde_json::from_str(&text).map_err(|e| {
        Failure::request(format!("{} is not the spec of a recording", file.display()))
            .why(e.to_string())
            .next("`faultloom schema record` prints its schema")
    })
}

fn print_json(recorded: &Recorded) {
    println!(
        "{}",
        json!({
            "run": recorded.run.id, "verdict": recorded.verdict, "summary": recorded.run.summary,
            "body": recording::whole_body(recorded), "trace": recorded.trace, "faults": recorded.faults,
            "good": recorded.good,
        })
    );
}

fn print(context: &Context, args: &Record, recorded: &Recorded) {
    let style = Style { expanded: args.all, rows_max: tree::ROWS_MAX };
    println!("\n{}", tree::draw(&recorded.trace, &recorded.faults, &style));
    for line in recording::remarks(recorded) {
        println!("{line}");
    }
    println!("{}", recording::sentence(recorded));
    for reason in &recorded.assessment.unknown {
        println!("verdict unknown: {}", printable(reason));
    }
    if let Some(body) = recording::body_excerpt(recorded) {
        println!("reply: {}", printable(&body));
    }
    let id = recorded.run.id.short();
    if let Some(status) = recording::refused_with(recorded) {
        println!("run {id}   next: fix the request, or accept this status: --expect-status {status}");
        return;
    }
    let next = if recorded.faults.is_empty() {
        format!("{} {}", context.command("sweep"), recorded.arguments)
    } else {
        format!("{} {id}", context.command("report"))
    };
    println!("run {id}   next: {}", next.trim_end());
}
