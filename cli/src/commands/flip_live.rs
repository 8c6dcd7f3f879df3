//! `faultloom flip live`: flips bits in a running process.

use super::flip::print_json;
use crate::args::FlipLive as Args;
use crate::context::Context;
use crate::render::live as render;
use app::kinds::flip::campaign::FinishedCampaign;
use app::kinds::flip::live::{self as use_case, LiveSpec};
use app::spec::Version;
use app::text::quoted;
use model::{Exit, Failure};

pub async fn live(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let spec = LiveSpec {
        version: Version,
        pid: args.pid,
        may_corrupt: args.yes_corrupt_it,
        check: args.check.clone(),
        count: args.count,
        types: args.types.clone(),
        bits: args.bits,
        seed: args.seed,
        symbols: args.symbols.clone(),
        libraries: args.libraries.clone(),
        except: args.except.clone(),
        check_timeout_ms: args.check_timeout_ms,
        wait_ms: args.wait_ms,
    };
    let flips = use_case::live(context, &spec).await?;
    if context.common.json {
        print_json(&flips.finished);
    } else {
        print(context, args, &flips.finished);
    }
    if flips.was_stopped {
        context.note(" stopped; the process was released");
        return Ok(Exit::Aborted);
    }
    Ok(flips.finished.verdict.exit())
}

fn print(context: &Context, args: &Args, finished: &FinishedCampaign) {
    let campaign = &finished.campaign;
    let Some((variant, process)) = render::of(campaign) else { return };
    print!("\n{}", render::text(campaign, variant, process, &finished.doubts, false));
    let id = finished.run.id.short();
    let next = match (&args.check, process.is_running) {
        (None, true) => format!(
            "{} live {} --yes-corrupt-it --check COMMAND   shows what clients observe",
            context.command("flip"),
            args.pid
        ),
        _ => format!("{} {id}", context.command("report")),
    };
    if variant.tally.manifested() > 0 {
        let program = variant.command.first().map_or("PROGRAM", String::as_str);
        println!(
            " a running process cannot be repeated; a copy can: faultloom flip --replay INPUT -- {}",
            quoted(program)
        );
    }
    println!("\n run {id}   report {}   next: {next}", finished.report.display());
}
