//! `faultloom show`: one run in the terminal.

use crate::args::Show;
use crate::commands::runs;
use crate::context::Context;
use crate::render::bugs;
use crate::render::live;
use crate::render::map as draw;
use crate::render::tree::{self, Style};
use crate::render::{flip as flips, flip_story};
use ::runs::RunDir;
use app::text::{grouped, plural, seconds};
use model::campaign::Campaign;
use model::sweep::Sweep;
use model::trace::Trace;
use model::{Exit, Failure, Fault, Run, RunKind};
use serde_json::json;

pub async fn show(context: &Context, args: &Show) -> Result<Exit, Failure> {
    let store = context.store().await?;
    let run = store.find(&args.run).await?;
    let dir = store.dir(run.id);
    match run.kind {
        RunKind::Recording => recording(context, args, &run, &dir)?,
        RunKind::Sweep => sweep(context, args, &run, &dir)?,
        RunKind::Map => map(context, args, &run, &dir)?,
        RunKind::Flip => flip(context, args, &run, &dir)?,
    }
    Ok(Exit::Pass)
}

fn head(run: &Run) {
    println!(
        "{}  {}  {}  {}  {}",
        run.id.short(),
        run.kind.as_str(),
        runs::state(run),
        app::text::time(run.begin_ms),
        run.title
    );
}

fn recording(context: &Context, args: &Show, run: &Run, dir: &RunDir) -> Result<(), Failure> {
    let traces: Vec<Trace> = dir.records("traces.jsonl")?;
    let faults: Vec<Fault> = dir.read_json("faults.json").unwrap_or_default();
    if context.common.json {
        println!("{}", json!({"run": run, "traces": traces, "faults": faults}));
        return Ok(());
    }
    head(run);
    for fault in &faults {
        println!("fault: {fault}");
    }
    let style = Style { expanded: args.all, rows_max: if args.all { usize::MAX } else { tree::ROWS_MAX } };
    for (i, trace) in traces.iter().enumerate() {
        if i == 3 && !args.all {
            println!("… and {} (--all shows them)", plural(traces.len() as u64 - 3, "more request"));
            break;
        }
        println!("\n{}", tree::draw(trace, &faults, &style));
    }
    Ok(())
}

fn map(context: &Context, args: &Show, run: &Run, dir: &RunDir) -> Result<(), Failure> {
    let graph: flows::Graph = dir.read_json("graph.json")?;
    if context.common.json {
        println!("{}", json!({"run": run, "graph": graph}));
        return Ok(());
    }
    head(run);
    print!("\n{}", draw::table(&graph, if args.all { usize::MAX } else { draw::ROWS_MAX }));
    println!("{}", draw::sizes(&graph));
    Ok(())
}

/// The result of a campaign; one that was interrupted has none yet.
pub fn read_campaign(context: &Context, run: &Run, dir: &RunDir) -> Result<Campaign, Failure> {
    if run.verdict.is_none() && !run.spec["live"].is_null() {
        return Err(Failure::unknown(format!("run {} was killed in the middle", run.id.short()))
            .next(format!("what was hit until then is in {}", dir.file(campaign::log::INJECTIONS).display())));
    }
    if run.verdict.is_none() {
        return Err(Failure::unknown(format!("campaign {} is not finished", run.id.short())).next(format!(
            "if it was interrupted: {} --resume {}",
            context.command("flip"),
            run.id.short()
        )));
    }
    dir.read_json(campaign::log::CAMPAIGN)
}

fn flip(context: &Context, args: &Show, run: &Run, dir: &RunDir) -> Result<(), Failure> {
    let result = read_campaign(context, run, dir)?;
    if context.common.json {
        println!("{}", json!({"run": run, "campaign": result}));
        return Ok(());
    }
    head(run);
    if let Some((variant, process)) = live::of(&result) {
        let (_, doubts) = campaign::verdict::verdict(&result.variants);
        print!("\n{}", live::told(&result, variant, process, &doubts, args.all));
        return Ok(());
    }
    for variant in &result.variants {
        println!(" {}", flips::sentence(variant));
    }
    println!("\n{}", flips::all(&result));
    let (_, doubts) = campaign::verdict::verdict(&result.variants);
    flips::remarks(&result, &doubts).iter().for_each(|line| println!(" {line}"));
    for variant in &result.variants {
        for story in variant.stories.iter().take(if args.all { usize::MAX } else { 3 }) {
            println!("\n {}\n{}", variant.name, flip_story::story(story));
        }
    }
    Ok(())
}

/// The result of a sweep; one that was interrupted has none yet.
pub fn read_sweep(context: &Context, run: &Run, dir: &RunDir) -> Result<Sweep, Failure> {
    if run.verdict.is_none() {
        return Err(Failure::unknown(format!("sweep {} is not finished", run.id.short())).next(format!(
            "if it was interrupted: {} --resume {}",
            context.command("sweep"),
            run.id.short()
        )));
    }
    dir.read_json("sweep.json")
}

fn sweep(context: &Context, args: &Show, run: &Run, dir: &RunDir) -> Result<(), Failure> {
    let result = read_sweep(context, run, dir)?;
    if context.common.json {
        println!("{}", json!({"run": run, "sweep": result}));
        return Ok(());
    }
    head(run);
    println!("{}   right: {}\n", result.request, result.oracle);
    println!("{}", tree::draw(&result.good, &[], &Style { expanded: args.all, rows_max: tree::ROWS_MAX }));
    for space in &result.spaces {
        println!(
            "{:<14} {:>7} cases {:>7} failures {:>5} unknown   {:>3} behaviors   {}",
            space.name,
            grouped(space.cases),
            grouped(space.failures),
            grouped(space.unknown),
            grouped(space.behaviors),
            seconds(space.seconds)
        );
    }
    println!("\n{}", bugs::draw(&result.bugs));
    Ok(())
}
