//! `faultloom report`: one self-contained HTML page for a run.

use crate::args::Report;
use crate::commands::beside::{self, Kept};
use crate::context::Context;
use model::sweep::{Case, Sweep};
use model::trace::Trace;
use model::{Exit, Failure, Fault, Run, RunKind};
use report::{FlipReport, MapReport, RecordingReport, SweepReport, flip_html, map_html, recording_html, sweep_html};
use runs::RunDir;
use serde_json::json;
use std::path::{Path, PathBuf};

pub async fn report(context: &Context, args: &Report) -> Result<Exit, Failure> {
    let store = context.store().await?;
    let run = store.find(&args.run).await?;
    let dir = store.dir(run.id);
    if run.kind == RunKind::Sweep {
        crate::commands::show::read_sweep(context, &run, &dir)?;
    }
    if run.kind == RunKind::Flip {
        crate::commands::show::read_campaign(context, &run, &dir)?;
    }
    let path = write(&run, &dir, args.output.clone())?;
    if context.common.json {
        println!("{}", json!({"run": run.id, "report": path}));
    } else {
        println!("{}", path.display());
    }
    Ok(Exit::Pass)
}

pub fn write(run: &Run, dir: &RunDir, output: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let beside = beside::kept(dir)?;
    let html = match run.kind {
        RunKind::Recording => {
            let traces: Vec<Trace> = dir.records("traces.jsonl")?;
            let faults: Vec<Fault> = dir.read_json("faults.json").unwrap_or_default();
            recording_html(&RecordingReport {
                run,
                traces: &traces,
                faults: &faults,
                sockets: beside.as_ref().map(Kept::view),
            })
        }
        RunKind::Sweep => {
            let sweep: Sweep = dir.read_json("sweep.json")?;
            let cases: Vec<Case> = dir.records("cases.jsonl")?;
            sweep_html(&SweepReport { run, sweep: &sweep, cases: &cases, sockets: beside.as_ref().map(Kept::view) })
        }
        RunKind::Flip => flip_html(&FlipReport { run, campaign: &dir.read_json(campaign::log::CAMPAIGN)? }),
        RunKind::Map => map_html(&MapReport { run, graph: &dir.read_json("graph.json")? }),
    };
    let Some(path) = output else {
        return dir.write("report.html", html.as_bytes());
    };
    write_to(&path, html.as_bytes())?;
    Ok(path)
}

/// Writes a file that was named by the user, with the folders above it.
pub fn write_to(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent)
            .map_err(|e| Failure::environment(format!("{} cannot be made: {e}", parent.display())))?;
    }
    std::fs::write(path, bytes).map_err(|e| Failure::environment(format!("{} cannot be written: {e}", path.display())))
}
