//! `faultloom runs`: lists and deletes runs.

use crate::args::Runs;
use crate::context::Context;
use crate::render::view::state;
use app::history::{self, DeleteSpec, RunsSpec};
use app::spec::Version;
use app::text::time;
use model::{Exit, Failure};

pub async fn runs(context: &Context, args: &Runs) -> Result<Exit, Failure> {
    if let Some(run) = &args.delete {
        let id = history::delete(context, &DeleteSpec { version: Version, run: run.clone() }).await?;
        if context.common.json {
            println!("{}", serde_json::json!({"deleted": id}));
        }
        context.note(format!("run {} deleted", id.short()));
        return Ok(Exit::Pass);
    }
    let listed = history::list(context, &RunsSpec { version: Version, limit: args.limit }).await?;
    if context.common.json {
        let runs: Vec<_> = listed.iter().map(|listed| &listed.run).collect();
        println!("{}", serde_json::to_string(&runs).map_err(|e| Failure::unknown(e.to_string()))?);
        return Ok(Exit::Pass);
    }
    if listed.is_empty() {
        println!("no runs yet   next: {}", context.command("record"));
    }
    for history::ListedRun { run, summary } in &listed {
        println!(
            "{}  {:<9}  {:<11}  {}  {:<44} {summary}",
            run.id.short(),
            run.kind,
            state(run),
            time(run.begin_ms),
            run.title,
        );
    }
    Ok(Exit::Pass)
}
