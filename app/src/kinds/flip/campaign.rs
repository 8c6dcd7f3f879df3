//! Runs a campaign: flips bits in a program that runs in a sandbox, and judges every output.

use super::spec::{FlipSpec, ResumeSpec};
use super::{NAME, engine, spec_of, write_report};
use crate::event::Progress;
use crate::text::{grouped, printable, rounded};
use crate::{Context, Event, target_session};
use ::campaign::log::{self, CAMPAIGN};
use ::campaign::reference;
use ::campaign::verdict::verdict;
use ::campaign::{Completion, Judge, Log, Spec, Tables, VariantRun};
use model::campaign::{Campaign, Variant};
use model::{Failure, Family, Run, Verdict};
use runs::{RunDir, Store};
use serde_json::json;
use std::path::PathBuf;

/// A finished campaign.
pub struct FinishedCampaign {
    pub run: Run,
    pub verdict: Verdict,
    /// Why the verdict is unknown.
    pub doubts: Vec<String>,
    pub report: PathBuf,
    pub campaign: Campaign,
}

/// Runs the campaign of `spec`, and blocks its thread meanwhile. Every injection is stored as it ends; a canceled
/// campaign can be resumed.
///
/// # Errors
/// Request for a wrong spec, environment without a sandbox or if the program cannot run, aborted if canceled.
pub async fn flip(context: &Context, spec: &FlipSpec) -> Result<FinishedCampaign, Failure> {
    let spec = spec.resolve(context)?;
    warn_of_missing_files(context, &spec);
    let store = context.store().await?;
    let (run, dir) = begin(context, &store, &spec).await?;
    run_variants(context, &store, run, dir, &spec).await
}

/// A program that does not find a file may still write output, so this does not wait for its failure.
fn warn_of_missing_files(context: &Context, spec: &Spec) {
    if spec.external.as_ref().is_some_and(|external| external.server.is_some()) {
        return;
    }
    for variant in &spec.variants {
        for file in reference::missing_files(&variant.program) {
            let file = printable(&file.display().to_string());
            context.warn(format!(
                "{}: the argument {file} names a file here, and the program runs in another directory: --file copies it there",
                variant.name
            ));
        }
    }
}

/// Resumes an interrupted campaign with its stored spec.
pub async fn resume(context: &Context, spec: &ResumeSpec) -> Result<FinishedCampaign, Failure> {
    let store = context.store().await?;
    let run = store.find(&spec.run).await?;
    let id = run.id.short();
    let spec = spec_of(&run)?;
    if run.verdict.is_some() {
        return Err(Failure::request(format!("run {id} is finished")).next(format!("{} {id}", context.command("show"))));
    }
    if spec.live.is_some() {
        return Err(Failure::request(format!("run {id} flipped bits in a running process and cannot be resumed"))
            .why("the process has changed since then")
            .next(format!("{} live PID starts over", context.command("flip"))));
    }
    let dir = store.dir(run.id).lock()?;
    run_variants(context, &store, run, dir, &spec).await
}

pub(super) async fn begin(context: &Context, store: &Store, spec: &Spec) -> Result<(Run, RunDir), Failure> {
    let names: Vec<&str> = spec.variants.iter().map(|v| v.name.as_str()).collect();
    let value = serde_json::to_value(spec).map_err(|e| Failure::new(Family::Bug, e.to_string()))?;
    let (run, dir) = store.begin(NAME, &names.join(", "), value, spec.draw.seed).await?;
    context.emit(Event::Started { run: run.id, kind: run.kind.clone() });
    tracing::info!(run = %run.id, variants = names.len(), "campaign of flips");
    Ok((run, dir))
}

async fn run_variants(
    context: &Context,
    store: &Store,
    run: Run,
    dir: RunDir,
    spec: &Spec,
) -> Result<FinishedCampaign, Failure> {
    let resume = format!("{} --resume {}", context.command("flip"), run.id.short());
    let variants = match variants(context, spec, &dir) {
        Ok(Some(variants)) => variants,
        Ok(None) if is_empty(&dir) => {
            drop(dir);
            store.delete(run.id).await?;
            let stopped = Failure::new(Family::Aborted, "the campaign was stopped before its first flip");
            return Err(stopped.why("nothing was stored, and there is nothing to resume"));
        }
        Ok(None) => {
            return Err(
                Failure::new(Family::Aborted, "the campaign was stopped; the finished flips are stored").next(resume)
            );
        }
        Err(failure) if is_empty(&dir) => {
            // nothing ran, so there is nothing to resume
            drop(dir);
            store.delete(run.id).await?;
            return Err(failure);
        }
        Err(failure) => {
            let first = failure.next.clone().map_or(String::new(), |next| format!("{next}\n        then "));
            return Err(failure.next(format!("{first}continue with {resume}; the finished flips are stored")));
        }
    };
    let campaign = Campaign {
        protocol: spec.rules.protocol.clone(),
        hardened: spec.rules.recognize_hardening(),
        seed: spec.draw.seed,
        bits: spec.draw.bits,
        types: spec.draw.types.clone(),
        variants,
    };
    finish(context, store, run, &dir, campaign).await
}

fn is_empty(dir: &RunDir) -> bool {
    std::fs::metadata(dir.file(log::INJECTIONS)).map_or(true, |meta| meta.len() == 0)
}

/// None: canceled.
fn variants(context: &Context, spec: &Spec, dir: &RunDir) -> Result<Option<Vec<Variant>>, Failure> {
    let stop = context.cancel.flag();
    let judge = Judge::new(&spec.rules)?;
    let mut tables: Vec<Tables> = spec.variants.iter().map(|_| Tables::default()).collect();
    let mut log = Log::open(dir, |logged| {
        if let Some(tables) = tables.get_mut(logged.variant as usize) {
            tables.add(logged);
        }
    })?;
    let mut variants = Vec::new();
    for (index, tables) in tables.iter_mut().enumerate() {
        let mut run = VariantRun { spec, index: index as u32, judge: &judge, log: &mut log, tables, stop: &stop };
        let name = run.variant().name.clone();
        let on_progress = |progress| context.progress(counts(&name, progress));
        let completion = match &spec.external {
            Some(external) => run.run_external(external, &target_session::command_guard(context)?, on_progress),
            None => run.run(&mut engine()?, on_progress),
        };
        match completion? {
            Completion::Stopped => return Ok(None),
            Completion::Complete(variant) => {
                context.progress(Progress::VariantFinished { variant: variant.clone() });
                variants.push(*variant);
            }
        }
    }
    Ok(Some(variants))
}

pub(super) fn counts(name: &str, progress: ::campaign::Progress) -> Progress {
    let (done, total, detail) = match progress {
        ::campaign::Progress::Golden { instructions: 0, .. } => (0, 0, "reference run".to_owned()),
        ::campaign::Progress::Golden { instructions, of } if instructions < of => {
            (instructions, of, "instructions of the reference run, estimated".to_owned())
        }
        ::campaign::Progress::Golden { instructions, .. } => {
            (0, 0, format!("reference run, {} instructions", rounded(instructions)))
        }
        ::campaign::Progress::Flips { done, total, undetected } => {
            (done, total, format!("{} undetected", grouped(undetected)))
        }
    };
    Progress::Counts { name: name.to_owned(), done, total, may_grow: false, detail }
}

/// Stores the result and its report.
pub(super) async fn finish(
    context: &Context,
    store: &Store,
    mut run: Run,
    dir: &RunDir,
    campaign: Campaign,
) -> Result<FinishedCampaign, Failure> {
    dir.write_json(CAMPAIGN, &campaign)?;
    let (verdict, doubts) = verdict(&campaign.variants);
    let sum = |of: fn(&Variant) -> u64| campaign.variants.iter().map(of).sum::<u64>();
    let summary = json!({
        "flips": sum(|v| v.tally.tried()), "errors": sum(|v| v.tally.manifested()),
        "undetected": sum(|v| v.tally.undetected), "doubts": doubts,
    });
    store.finish(&mut run, verdict, summary).await?;
    let report = write_report(&run, dir, &campaign)?;
    context.emit(Event::Done { run: run.id, kind: run.kind.clone(), verdict });
    Ok(FinishedCampaign { run, verdict, doubts, report, campaign })
}
