//! `faultloom flip`: what one wrong bit does to a program.

use crate::args::Flip as Args;
use crate::commands::flip_asked;
use crate::context::Context;
use crate::render::flip as draw;
use crate::render::progress::Meter;
use app::kinds::flip::spec_of;
use campaign::log::{self, CAMPAIGN};
use campaign::verdict::verdict;
use campaign::{Completion, EngineClient, Judge, Log, Progress, Spec, Tables, VariantRun};
use model::campaign::{Campaign, Variant};
use model::{Exit, Failure, Family, Run, Verdict};
use runs::{RunDir, Store};
use serde_json::json;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

pub async fn flip(context: &Context, args: &Args) -> Result<Exit, Failure> {
    // what is wrong with the request is said before a run is begun for it
    let asked = if args.resume.is_some() { None } else { Some(flip_asked::spec(args)?) };
    let store = context.store().await?;
    let (mut run, dir, spec) = match (asked, &args.resume) {
        (None, Some(text)) => resume(&store, text).await?,
        (Some(spec), _) => begin(&store, spec).await?,
        (None, None) => unreachable!("either is there"),
    };
    let stop = context.cancel.flag();
    let go_on = format!("{} --resume {}", context.command("flip"), run.id.short());
    let variants = match variants(context, &spec, &dir, &stop) {
        Ok(Some(variants)) => variants,
        Ok(None) => {
            return Err(Failure::new(Family::Aborted, "the campaign was stopped; what was run is kept").next(go_on));
        }
        Err(failure) if nothing_ran(&dir) => {
            // what was refused before anything ran is no run to come back to
            drop(dir);
            store.delete(run.id).await?;
            return Err(failure);
        }
        Err(failure) => return Err(with_way_on(failure, &go_on)),
    };
    let (seed, bits, types) = (spec.draw.seed, spec.draw.bits, spec.draw.types.clone());
    let (protocol, hardened) = (spec.rules.protocol.clone(), spec.rules.recognize_hardening());
    let campaign = Campaign { protocol, hardened, seed, bits, types, variants };
    finish(context, &store, &mut run, &dir, &campaign).await
}

pub async fn begin(store: &Store, spec: Spec) -> Result<(Run, RunDir, Spec), Failure> {
    let names: Vec<&str> = spec.variants.iter().map(|v| v.name.as_str()).collect();
    let value = serde_json::to_value(&spec).map_err(|e| Failure::new(Family::Bug, e.to_string()))?;
    let (run, dir) = store.begin(app::kinds::flip::NAME, &names.join(", "), value, spec.draw.seed).await?;
    Ok((run, dir, spec))
}

async fn resume(store: &Store, text: &str) -> Result<(Run, RunDir, Spec), Failure> {
    let run = store.find(text).await?;
    let spec = spec_of(&run)?;
    if run.verdict.is_some() {
        return Err(Failure::request(format!("run {} is finished", run.id.short()))
            .next(format!("faultloom show {}", run.id.short())));
    }
    if spec.live.is_some() {
        return Err(Failure::request(format!("run {} struck a running process and cannot go on", run.id.short()))
            .why("that process is not what it was")
            .next("faultloom flip live PID strikes anew"));
    }
    let dir = store.dir(run.id).lock()?;
    Ok((run, dir, spec))
}

fn nothing_ran(dir: &RunDir) -> bool {
    std::fs::metadata(dir.file(log::INJECTIONS)).map_or(true, |meta| meta.len() == 0)
}

fn with_way_on(failure: Failure, go_on: &str) -> Failure {
    let first = failure.next.clone().map_or(String::new(), |next| format!("{next}\n        then "));
    failure.next(format!("{first}go on with {go_on}; what was run is kept"))
}

/// None: somebody wanted it to stop.
fn variants(context: &Context, spec: &Spec, dir: &RunDir, stop: &AtomicBool) -> Result<Option<Vec<Variant>>, Failure> {
    let judge = Judge::new(&spec.rules)?;
    let mut tables: Vec<Tables> = spec.variants.iter().map(|_| Tables::default()).collect();
    let mut log = Log::open(dir, |logged| {
        if let Some(tables) = tables.get_mut(logged.variant as usize) {
            tables.add(logged);
        }
    })?;
    let mut variants = Vec::new();
    for (index, tables) in tables.iter_mut().enumerate() {
        let mut run = VariantRun { spec, index: index as u32, judge: &judge, log: &mut log, tables, stop };
        let mut meter = Meter::new(context.common.quiet || context.common.json);
        let name = run.variant().name.clone();
        let on_progress = |progress| meter.update(progress_line(&name, progress));
        let completion = match &spec.external {
            Some(external) => run.run_external(external, on_progress),
            None => run.run(&mut engine()?, on_progress),
        };
        meter.clear();
        match completion? {
            Completion::Stopped => return Ok(None),
            Completion::Complete(variant) => {
                context.say(format!(" ✓ {}", draw::sentence(&variant)));
                variants.push(*variant);
            }
        }
    }
    Ok(Some(variants))
}

pub fn progress_line(name: &str, progress: Progress) -> crate::render::progress::Line {
    use crate::render::progress::Line;
    match progress {
        Progress::Golden { instructions } => Line::words(name, draw::golden_so_far(instructions)),
        Progress::Flips { done, total, undetected } => {
            Line::counts(name, done, total, format!("{} undetected", app::text::grouped(undetected)))
        }
    }
}

/// What a finished campaign proves, and where its page is.
pub struct Kept {
    pub verdict: Verdict,
    pub doubts: Vec<String>,
    pub report: PathBuf,
}

/// Writes the result and its page. With `--json` it is printed as well.
pub async fn keep(
    context: &Context,
    store: &Store,
    run: &mut Run,
    dir: &RunDir,
    campaign: &Campaign,
) -> Result<Kept, Failure> {
    dir.write_json(CAMPAIGN, campaign)?;
    let (verdict, doubts) = verdict(&campaign.variants);
    let sum = |of: fn(&Variant) -> u64| campaign.variants.iter().map(of).sum::<u64>();
    let summary = json!({
        "flips": sum(|v| v.tally.tried()), "errors": sum(|v| v.tally.manifested()),
        "undetected": sum(|v| v.tally.undetected), "doubts": doubts,
    });
    store.finish(run, verdict, summary).await?;
    let report = app::kinds::flip::write_report(run, dir, campaign)?;
    if context.common.json {
        println!(
            "{}",
            json!({"run": run.id, "verdict": verdict, "doubts": doubts, "report": report, "campaign": campaign})
        );
    }
    Ok(Kept { verdict, doubts, report })
}

async fn finish(
    context: &Context,
    store: &Store,
    run: &mut Run,
    dir: &RunDir,
    campaign: &Campaign,
) -> Result<Exit, Failure> {
    let Kept { verdict, doubts, report } = keep(context, store, run, dir, campaign).await?;
    if context.common.json {
        return Ok(verdict.exit());
    }
    println!("\n{}", draw::all(campaign));
    for line in draw::remarks(campaign, &doubts) {
        println!(" {line}");
    }
    let first = campaign.variants.iter().find_map(|v| v.stories.first().map(|story| (v, story)));
    let next = match first {
        Some((variant, story)) if story.injection.is_some() => {
            let name = if campaign.variants.len() > 1 { format!("{}:", variant.name) } else { String::new() };
            format!("{} replay {}:{name}{}", context.command("flip"), run.id.short(), story.id)
        }
        _ => format!("{} {}", context.command("report"), run.id.short()),
    };
    println!("\n run {}   report {}   next: {next}", run.id.short(), report.display());
    Ok(verdict.exit())
}

/// An engine, which ends when this is dropped.
pub fn engine() -> Result<EngineClient, Failure> {
    let failed = |e: std::io::Error| Failure::environment(format!("the flip engine cannot be started: {e}"));
    let own = std::env::current_exe().map_err(failed)?;
    EngineClient::start(&own, &[OsStr::new("flip-engine")])
}
