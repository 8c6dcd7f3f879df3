//! `faultloom export`: a run's trace for other tools.

use crate::args::{Export, ExportFormat};
use crate::commands::report::write_to;
use crate::commands::show::read_sweep;
use crate::context::Context;
use exchange::Format;
use model::trace::Trace;
use model::{Exit, Failure, Fault, Run, RunKind};
use runs::RunDir;
use serde_json::json;

pub async fn export(context: &Context, args: &Export) -> Result<Exit, Failure> {
    let store = context.store().await?;
    let run = store.find(&args.run).await?;
    let (traces, faults) = traces(context, args, &run, &store.dir(run.id))?;
    let format = match args.format {
        ExportFormat::Otlp => Format::Otlp,
        ExportFormat::Jaeger => Format::Jaeger,
        ExportFormat::Zipkin => Format::Zipkin,
        ExportFormat::Perfetto => Format::Perfetto,
    };
    let document = exchange::export(&traces, &faults, format)?;
    let Some(path) = &args.output else {
        println!("{document}");
        return Ok(Exit::Pass);
    };
    write_to(path, format!("{document}\n").as_bytes())?;
    if context.common.json {
        println!("{}", json!({"run": run.id, "export": path, "traces": traces.len()}));
    } else {
        println!("{}", path.display());
    }
    Ok(Exit::Pass)
}

/// All requests of a recording; of a sweep the good run, or the one that shows a bug. With the plan that was in force.
fn traces(context: &Context, args: &Export, run: &Run, dir: &RunDir) -> Result<(Vec<Trace>, Vec<Fault>), Failure> {
    match (run.kind, args.bug) {
        (RunKind::Map, _) => Err(Failure::request(format!("run {} is a map: it has no trace", run.id.short()))
            .next(format!("{} --dot or --mermaid writes a map for other tools", context.command("map")))),
        (RunKind::Flip, _) => {
            Err(Failure::request(format!("run {} is a campaign of bit flips: it has no trace", run.id.short()))
                .next(format!("{} --json {} writes its tables", context.command("show"), run.id.short())))
        }
        (RunKind::Recording, None) => {
            Ok((dir.records("traces.jsonl")?, dir.read_json("faults.json").unwrap_or_default()))
        }
        (RunKind::Recording, Some(_)) => Err(Failure::request("--bug is for sweeps, this is a recording")
            .next(format!("{} {}", context.command("export"), run.id.short()))),
        (RunKind::Sweep, None) => Ok((vec![read_sweep(context, run, dir)?.good], Vec::new())),
        (RunKind::Sweep, Some(number)) => {
            let mut bugs = read_sweep(context, run, dir)?.bugs;
            let count = bugs.len();
            match usize::try_from(number - 1).ok().filter(|i| *i < count) {
                Some(i) => {
                    let bug = bugs.swap_remove(i);
                    Ok((vec![bug.trace], bug.faults))
                }
                None => Err(Failure::request(format!("there is no bug {number}: this sweep found {count}"))
                    .next(format!("{} {} lists them", context.command("show"), run.id.short()))),
            }
        }
    }
}
