//! `faultloom runs`: lists and deletes runs.

use crate::args::Runs;
use crate::context::Context;
use crate::render::view::state;
use ::runs::{Orphan, OrphanState};
use app::history::{self, DeleteSpec, RunsSpec};
use app::spec::{NoOptions, Version};
use app::text::{grouped, plural, printable, time};
use model::{Exit, Failure};
use serde_json::json;

/// Each folder in one line, then their number.
async fn clean(context: &Context) -> Result<Exit, Failure> {
    let orphans = history::clean(context, &NoOptions::default()).await?;
    let of = |state| orphans.iter().filter(move |orphan| orphan.state == state);
    if context.common.json {
        let paths = |state| of(state).map(|orphan| &orphan.path).collect::<Vec<_>>();
        let (removed, in_use) = (paths(OrphanState::Removed), paths(OrphanState::InUse));
        println!("{}", json!({"removed": removed, "in_use": in_use, "foreign": paths(OrphanState::Foreign)}));
        return Ok(Exit::Pass);
    }
    for Orphan { path, files, bytes, state } in &orphans {
        let result = match state {
            OrphanState::Removed => "removed: no run has this id",
            OrphanState::InUse => "kept: another process is working in it",
            OrphanState::Foreign => "kept: its name is not a run's id",
        };
        let path = printable(&path.display().to_string());
        println!("{path}   {}, {} bytes   {result}", plural(*files, "file"), grouped(*bytes));
    }
    println!("{} removed", plural(of(OrphanState::Removed).count() as u64, "orphaned folder"));
    Ok(Exit::Pass)
}

pub async fn runs(context: &Context, args: &Runs) -> Result<Exit, Failure> {
    if args.clean {
        return clean(context).await;
    }
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
