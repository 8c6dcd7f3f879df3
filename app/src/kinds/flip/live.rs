//! Flips bits in a process that runs already. This corrupts it.

use super::campaign::{FinishedCampaign, begin, counts, finish};
use super::tracer_flip;
use crate::event::Progress;
use crate::spec::Version;
use crate::text::{printable, quoted};
use crate::{Context, register_schema, target_session};
use ::campaign::live::BEFORE;
use ::campaign::spec::digest;
use ::campaign::{Judge, Live, Log, Rules, Spec, Tables, VariantRun, VariantSpec};
use bit_flips::engine_messages::{Draw, Program, Sites, Stepper};
use bit_flips::live::{Target, check_allowed};
use model::campaign::{Campaign, Variant};
use model::flip::{BitPolicy, FlipType};
use model::{Failure, Family, RunId};
use process::ProcessId;
use runs::RunDir;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Flips in a running process. Nothing is contained and nothing can be undone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LiveSpec {
    pub version: Version<1>,
    #[schemars(range(min = 1))]
    pub pid: i32,
    /// Must be true: the process and its data may be lost.
    #[serde(default)]
    pub may_corrupt: bool,
    /// A command that checks the process as its clients would. It fails if a reply is wrong.
    #[serde(default)]
    pub check: Option<String>,
    /// How many flips, one after the other.
    #[schemars(range(min = 1, max = 100_000))]
    pub count: u32,
    /// One of them is drawn each time; default: the first seven.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub types: Vec<FlipType>,
    /// Which bits may flip: `full` or `low32`.
    #[serde(default)]
    #[schemars(with = "String")]
    pub bits: BitPolicy,
    /// For what is drawn; default: a different one each time.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Only in these functions.
    #[serde(default)]
    pub symbols: Vec<String>,
    /// Only in these programs or libraries, by file name.
    #[serde(default)]
    pub libraries: Vec<String>,
    /// Not in these programs or libraries.
    #[serde(default)]
    pub except: Vec<String>,
    /// How long the check may take, in milliseconds.
    pub check_timeout_ms: u64,
    /// How long to wait for the process to do something, in milliseconds.
    pub wait_ms: u64,
}

register_schema!("flip-live", LiveSpec);

/// Finished flips.
pub struct LiveFlips {
    pub finished: FinishedCampaign,
    /// Canceled before all flips were made; the process was released.
    pub was_stopped: bool,
}

/// Flips bits in the process of `spec`, and blocks its thread meanwhile.
///
/// # Errors
/// Request without consent or for a process that must not be hit, environment if it cannot be traced, aborted if
/// canceled before the first flip.
pub async fn live(context: &Context, spec: &LiveSpec) -> Result<LiveFlips, Failure> {
    check_allowed(spec.pid)?;
    let process = Process::of(spec.pid)?;
    check_consent(context, spec, &process)?;
    let store = context.store().await?;
    let resolved = resolve(spec, &process);
    let (run, dir) = begin(context, &store, &resolved).await?;
    let variant = match variant(context, &resolved, &dir) {
        Ok(variant) => variant,
        // nothing was flipped, so there is nothing to keep
        Err(failure) => {
            drop(dir);
            store.delete(run.id).await?;
            return Err(failure);
        }
    };
    let was_stopped = context.cancel.is_canceled() && variant.missing > 0;
    if was_stopped && variant.tally.tried() == 0 {
        drop(dir);
        store.delete(run.id).await?;
        return Err(Failure::new(Family::Aborted, "stopped before anything was flipped; the process was released"));
    }
    let campaign = Campaign {
        protocol: resolved.rules.protocol.clone(),
        hardened: variant.tally.hardening > 0,
        seed: resolved.draw.seed,
        bits: resolved.draw.bits,
        types: types(&variant),
        variants: vec![variant],
    };
    let finished = finish(context, &store, run, &dir, campaign).await?;
    Ok(LiveFlips { finished, was_stopped })
}

fn check_consent(context: &Context, spec: &LiveSpec, process: &Process) -> Result<(), Failure> {
    if spec.may_corrupt {
        return Ok(());
    }
    let flip = context.command("flip");
    let check = spec.check.as_ref().map_or(String::new(), |check| format!(" --check {}", quoted(check)));
    Err(Failure::request(format!("process {} ({}) would be corrupted", spec.pid, printable(&process.line())))
        .why("nothing is contained and nothing can be undone: its data, its files and its clients may be damaged")
        .next(format!(
            "{flip} live {} --yes-corrupt-it{check}\n        or, in a contained copy: {flip} --replay INPUT -- {}",
            spec.pid,
            quoted(&process.program.display().to_string())
        ))
        .field("may_corrupt"))
}

/// The process with a pid.
struct Process {
    program: PathBuf,
    arguments: Vec<String>,
    ticks: u64,
    sha256: String,
}

impl Process {
    fn of(pid: i32) -> Result<Process, Failure> {
        let unreadable = |e: std::io::Error| Failure::request(format!("process {pid} cannot be read: {e}"));
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).map_err(unreadable)?;
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).map_err(unreadable)?;
        let words = line.split(|byte| *byte == 0).skip(1).map(|word| String::from_utf8_lossy(word).into_owned());
        let mut arguments: Vec<String> = words.collect();
        arguments.pop(); // each ends with a zero
        let bytes = std::fs::read(format!("/proc/{pid}/exe")).map_err(unreadable)?;
        let id = ProcessId::of(pid as u32).ok_or_else(|| Failure::request(format!("process {pid} has ended")))?;
        Ok(Process { program, arguments, ticks: id.start_ticks, sha256: digest(&bytes) })
    }

    fn line(&self) -> String {
        let program = self.program.display().to_string();
        [&[program][..], &self.arguments].concat().join(" ")
    }

    fn name(&self) -> String {
        self.program.file_name().map_or_else(|| "process".to_owned(), |name| name.to_string_lossy().into_owned())
    }
}

fn resolve(spec: &LiveSpec, process: &Process) -> Spec {
    let mut types = if spec.types.is_empty() { FlipType::PAPER.to_vec() } else { spec.types.clone() };
    types.sort_unstable();
    types.dedup();
    let sites = Sites {
        symbols: spec.symbols.clone(),
        libraries: spec.libraries.clone(),
        except: spec.except.clone(),
        ..Sites::default()
    };
    let argv = [&[process.program.display().to_string()][..], &process.arguments].concat();
    let program = Program { sites, stepper: Stepper::Step, ..Program::new(argv) };
    let files = vec![(process.program.clone(), process.sha256.clone())];
    let seed = spec.seed.unwrap_or_else(|| RunId::create().0.as_u64_pair().1);
    Spec {
        variants: vec![VariantSpec { name: process.name(), program, files }],
        draw: Draw { seed, bits: spec.bits, types: Vec::new(), controls: BEFORE },
        rules: Rules { protocol: "lines".to_owned(), ..Rules::default() },
        exhaustive: false,
        external: None,
        live: Some(Live {
            pid: spec.pid,
            ticks: process.ticks,
            types,
            flips: spec.count,
            check: spec.check.clone(),
            timeout_ms: spec.check_timeout_ms,
            patience_ms: spec.wait_ms,
        }),
    }
}

fn variant(context: &Context, spec: &Spec, dir: &RunDir) -> Result<Variant, Failure> {
    let stop = context.cancel.flag();
    let judge = Judge::new(&spec.rules)?;
    let mut tables = Tables::default();
    let mut log = Log::open(dir, |_| {})?;
    let Some(live) = &spec.live else { unreachable!("resolve sets it") };
    let mut run = VariantRun { spec, index: 0, judge: &judge, log: &mut log, tables: &mut tables, stop: &stop };
    let name = spec.variants[0].name.clone();
    let detail = "waiting for the process to run".to_owned();
    context.progress(Progress::Counts { name: name.clone(), done: 0, total: 0, may_grow: false, detail });
    let mut flip = |target: &Target| tracer_flip(target, &stop);
    run.run_live(live, &target_session::command_guard(context)?, &mut flip, |progress| {
        context.progress(counts(&name, progress))
    })
}

/// How many of each type were drawn.
fn types(variant: &Variant) -> Vec<(FlipType, u32)> {
    let flips = |kind: FlipType| variant.rows.iter().filter(move |row| row.name == kind.as_str());
    let count = |kind: FlipType| flips(kind).map(|row| row.tally.tried()).max().unwrap_or(0);
    FlipType::ALL.into_iter().map(|kind| (kind, count(kind) as u32)).filter(|(_, count)| *count > 0).collect()
}
