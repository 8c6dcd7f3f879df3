//! `faultloom flip live`: flips in a process that runs already.

use crate::args::FlipLive as Args;
use crate::commands::flip::{self, Kept};
use crate::commands::flip_tracer;
use crate::context::Context;
use crate::render::live as draw;
use crate::render::progress::{Line, Meter};
use app::text::printable;
use app::text::quoted;
use bit_flips::engine_messages::{Draw, Program, Sites, Stepper};
use bit_flips::live::{ProcessIdentity, Target, check_allowed};
use campaign::live::BEFORE;
use campaign::spec::digest;
use campaign::{Judge, Live, Log, Rules, Spec, Tables, VariantRun, VariantSpec};
use model::campaign::{Campaign, Variant};
use model::flip::FlipType;
use model::{Exit, Failure, Family, RunId};
use runs::RunDir;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

pub async fn live(context: &Context, args: &Args) -> Result<Exit, Failure> {
    check_allowed(args.pid)?;
    let process = Process::of(args.pid)?;
    agreed(args, &process)?;
    let store = context.store().await?;
    let (mut run, dir, spec) = flip::begin(&store, spec(args, &process)).await?;
    let stop = context.cancel.flag();
    let variant = match variant(context, &spec, &dir, &stop) {
        Ok(variant) => variant,
        // where nothing was flipped there is nothing to come back to
        Err(failure) => {
            drop(dir);
            store.delete(run.id).await?;
            return Err(failure);
        }
    };
    let stopped = stop.load(Ordering::Relaxed) && variant.missing > 0;
    if stopped && variant.tally.tried() == 0 {
        drop(dir);
        store.delete(run.id).await?;
        return Err(Failure::new(Family::Aborted, "stopped before anything was flipped; the process was let go"));
    }
    let (seed, bits, rules) = (spec.draw.seed, spec.draw.bits, &spec.rules);
    let hardened = variant.tally.hardening > 0;
    let types = types(&variant);
    let campaign = Campaign { protocol: rules.protocol.clone(), hardened, seed, bits, types, variants: vec![variant] };
    let kept = flip::keep(context, &store, &mut run, &dir, &campaign).await?;
    if !context.common.json {
        tell(context, args, &campaign, &kept, &run.id);
    }
    if stopped {
        context.say(" stopped; the process was let go");
        return Ok(Exit::Aborted);
    }
    Ok(kept.verdict.exit())
}

fn agreed(args: &Args, process: &Process) -> Result<(), Failure> {
    if args.yes_corrupt_it {
        return Ok(());
    }
    let check = args.check.as_ref().map_or(String::new(), |check| format!(" --check {}", quoted(check)));
    Err(Failure::request(format!("process {} ({}) would be corrupted", args.pid, printable(&process.line())))
        .why("nothing is contained and nothing can be undone: its data, its files and its clients may suffer")
        .next(format!(
            "faultloom flip live {} --yes-corrupt-it{check}\n        or, in a copy that is contained: faultloom flip --replay INPUT -- {}",
            args.pid,
            quoted(&process.program.display().to_string())
        )))
}

/// What runs under a number.
struct Process {
    program: PathBuf,
    arguments: Vec<String>,
    ticks: u64,
    sha256: String,
}

impl Process {
    fn of(pid: i32) -> Result<Process, Failure> {
        let gone = |e: std::io::Error| Failure::request(format!("process {pid} cannot be looked at: {e}"));
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).map_err(gone)?;
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).map_err(gone)?;
        let words = line.split(|byte| *byte == 0).skip(1).map(|word| String::from_utf8_lossy(word).into_owned());
        let mut arguments: Vec<String> = words.collect();
        arguments.pop(); // each ends with a zero
        let bytes = std::fs::read(format!("/proc/{pid}/exe")).map_err(gone)?;
        let ticks = ProcessIdentity::of(pid).ok_or_else(|| Failure::request(format!("process {pid} has ended")))?.ticks;
        Ok(Process { program, arguments, ticks, sha256: digest(&bytes) })
    }

    fn line(&self) -> String {
        let program = self.program.display().to_string();
        [&[program][..], &self.arguments].concat().join(" ")
    }

    fn name(&self) -> String {
        self.program.file_name().map_or_else(|| "process".to_owned(), |name| name.to_string_lossy().into_owned())
    }
}

fn spec(args: &Args, process: &Process) -> Spec {
    let mut types = if args.types.is_empty() { FlipType::PAPER.to_vec() } else { args.types.clone() };
    types.sort_unstable();
    types.dedup();
    let sites = Sites {
        symbols: args.symbols.clone(),
        libraries: args.libraries.clone(),
        except: args.except.clone(),
        ..Sites::default()
    };
    let argv = [&[process.program.display().to_string()][..], &process.arguments].concat();
    let program = Program { sites, stepper: Stepper::Step, ..Program::new(argv) };
    let files = vec![(process.program.clone(), process.sha256.clone())];
    let seed = args.seed.unwrap_or_else(|| RunId::create().0.as_u64_pair().1);
    Spec {
        variants: vec![VariantSpec { name: process.name(), program, files }],
        draw: Draw { seed, bits: args.bits, types: Vec::new(), controls: BEFORE },
        rules: Rules { protocol: "lines".to_owned(), ..Rules::default() },
        exhaustive: false,
        external: None,
        live: Some(Live {
            pid: args.pid,
            ticks: process.ticks,
            types,
            flips: args.count,
            check: args.check.clone(),
            timeout_ms: args.check_timeout_ms,
            patience_ms: args.wait_ms,
        }),
    }
}

fn variant(context: &Context, spec: &Spec, dir: &RunDir, stop: &AtomicBool) -> Result<Variant, Failure> {
    let judge = Judge::new(&spec.rules)?;
    let mut tables = Tables::default();
    let mut log = Log::open(dir, |_| {})?;
    let Some(live) = &spec.live else { unreachable!("it was just made") };
    let mut run = VariantRun { spec, index: 0, judge: &judge, log: &mut log, tables: &mut tables, stop };
    let mut meter = Meter::new(context.common.quiet || context.common.json);
    let name = spec.variants[0].name.clone();
    meter.update(Line::words(&name, "waiting until it does something".to_owned()));
    let mut flip = |target: &Target| flip_tracer::flip(target, stop);
    let variant = run.run_live(live, &mut flip, |progress| meter.update(flip::progress_line(&name, progress)));
    meter.clear();
    variant
}

/// How many of each type were drawn.
fn types(variant: &Variant) -> Vec<(FlipType, u32)> {
    let flips = |kind: FlipType| variant.rows.iter().filter(move |row| row.name == kind.as_str());
    let count = |kind: FlipType| flips(kind).map(|row| row.tally.tried()).max().unwrap_or(0);
    FlipType::ALL.into_iter().map(|kind| (kind, count(kind) as u32)).filter(|(_, count)| *count > 0).collect()
}

fn tell(context: &Context, args: &Args, campaign: &Campaign, kept: &Kept, run: &RunId) {
    let Some((variant, process)) = draw::of(campaign) else { return };
    print!("\n{}", draw::told(campaign, variant, process, &kept.doubts, false));
    let next = match (&args.check, process.runs) {
        (None, true) => format!(
            "{} live {} --yes-corrupt-it --check COMMAND   says what clients see",
            context.command("flip"),
            args.pid
        ),
        _ => format!("{} {}", context.command("report"), run.short()),
    };
    if variant.tally.manifested() > 0 {
        let program = variant.command.first().map_or("PROGRAM", String::as_str);
        println!(
            " a running process cannot be repeated; a copy can: faultloom flip --replay INPUT -- {}",
            quoted(program)
        );
    }
    println!("\n run {}   report {}   next: {next}", run.short(), kept.report.display());
}
