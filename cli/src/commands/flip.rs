//! `faultloom flip`: what one wrong bit does to a program.

use crate::args::Flip as Args;
use crate::commands::flip_asked;
use crate::context::Context;
use crate::render::flip as draw;
use crate::render::progress::Meter;
use app::kinds::flip::spec_of;
use bit_flips::contain;
use campaign::log::{self, CAMPAIGN};
use campaign::verdict::verdict;
use campaign::{Course, Ended, Engine, Judge, Log, Progress, Spec, Tables};
use model::campaign::{Campaign, Variant};
use model::{Exit, Failure, Family, Run, Verdict};
use runs::{RunDir, Store};
use serde_json::json;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

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
    let (protocol, hardened) = (spec.rules.protocol.clone(), spec.rules.know_hardening());
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
        let mut course = Course { spec, index: index as u32, judge: &judge, log: &mut log, tables, stop };
        let mut meter = Meter::new(context.common.quiet || context.common.json);
        let name = course.variant().name.clone();
        let tell = |progress| meter.update(told(&name, progress));
        let ended = match &spec.external {
            Some(external) => course.run_beside(external, tell),
            None => course.run(StartedEngine::start()?.engine(), tell),
        };
        meter.clear();
        match ended? {
            Ended::Stopped => return Ok(None),
            Ended::Whole(variant) => {
                context.say(format!(" ✓ {}", draw::sentence(&variant)));
                variants.push(*variant);
            }
        }
    }
    Ok(Some(variants))
}

pub fn told(name: &str, progress: Progress) -> crate::render::progress::Line {
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

/// An engine of our own, ended with this value.
pub struct StartedEngine {
    child: Child,
    engine: Option<Engine>,
}

/// How long an engine may take to end after nobody wants it any more; then it is killed.
const ENDING: Duration = Duration::from_secs(5);

impl StartedEngine {
    pub fn start() -> Result<StartedEngine, Failure> {
        let failed = |e: std::io::Error| Failure::environment(format!("the flip engine cannot be started: {e}"));
        let own = std::env::current_exe().map_err(failed)?;
        let mut child = contain::engine_command(&own, &[OsStr::new("flip-engine")]).spawn().map_err(failed)?;
        let (Some(requests), Some(replies)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both are pipes")
        };
        Ok(StartedEngine { child, engine: Some(Engine::over(replies, requests)) })
    }

    /// Of the process that keeps the engine, outside of its namespaces.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().unwrap_or_else(|| unreachable!("it is taken when this is dropped"))
    }
}

impl Drop for StartedEngine {
    fn drop(&mut self) {
        self.engine = None; // closes its requests
        let begin = Instant::now();
        while begin.elapsed() < ENDING {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
