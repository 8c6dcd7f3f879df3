//! `faultloom runs`: what was done here.

use crate::args::Runs;
use crate::context::Context;
use app::text::plural;
use app::text::time;
use model::{Exit, Failure, Run, RunKind};

pub async fn runs(context: &Context, args: &Runs) -> Result<Exit, Failure> {
    let store = context.store().await?;
    if let Some(text) = &args.delete {
        if text == "last" {
            return Err(Failure::request("`last` is not deleted: which run that is changes with every run")
                .next("name it by its id; `faultloom runs` lists them"));
        }
        let run = store.find(text).await?;
        store.delete(run.id).await?;
        if context.common.json {
            println!("{}", serde_json::json!({"deleted": run.id}));
        }
        context.say(format!("run {} is gone", run.id.short()));
        return Ok(Exit::Pass);
    }
    let runs = store.list(args.limit).await?;
    if context.common.json {
        println!("{}", serde_json::to_string(&runs).map_err(|e| Failure::unknown(e.to_string()))?);
        return Ok(Exit::Pass);
    }
    if runs.is_empty() {
        println!("no runs yet   next: {}", context.command("record"));
    }
    for run in &runs {
        println!(
            "{}  {:<9}  {:<11}  {}  {:<44} {}",
            run.id.short(),
            run.kind.as_str(),
            state(run),
            time(run.begin_ms),
            run.title,
            result(run)
        );
    }
    Ok(Exit::Pass)
}

pub fn state(run: &Run) -> &'static str {
    match (run.verdict, run.end_ms) {
        (Some(verdict), _) => verdict.as_str(),
        (None, _) => "unfinished",
    }
}

fn result(run: &Run) -> String {
    let number = |key: &str| run.summary[key].as_u64();
    match (number("cases"), number("bugs"), number("calls")) {
        (Some(cases), Some(bugs), _) => {
            format!("{cases} cases, {} failed, {bugs} bugs", number("failures").unwrap_or(0))
        }
        _ if run.kind == RunKind::Map => match (number("nodes"), number("edges")) {
            (Some(nodes), Some(edges)) => format!("{nodes} nodes, {edges} edges"),
            _ => String::new(),
        },
        _ if run.kind == RunKind::Flip => match (number("flips"), number("errors"), number("undetected")) {
            (Some(flips), Some(errors), Some(undetected)) => {
                let disturbed = !run.spec["external"].is_null();
                let tried = plural(flips, if disturbed { "disturbed run" } else { "flip" });
                format!("{tried}, {}, {undetected} undetected", plural(errors, "error"))
            }
            _ => String::new(),
        },
        (_, _, Some(calls)) => format!("{calls} calls, status {}", run.summary["status"]),
        _ => String::new(),
    }
}
