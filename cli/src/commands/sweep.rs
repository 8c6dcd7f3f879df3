//! `faultloom sweep`: runs whole spaces of faults and lists the bugs.

use crate::args::Sweep as Args;
use crate::context::Context;
use crate::render::bugs;
use app::kinds::sweep::{self as use_case, ResumeSpec, SweepSpec, Swept};
use app::spec::Version;
use model::{Exit, Failure, Verdict};
use serde_json::json;

pub async fn sweep(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let swept = match &args.resume {
        Some(run) => {
            let (run, concurrency, junit) = (run.clone(), args.concurrency, args.junit.clone());
            use_case::resume(context, &ResumeSpec { version: Version, run, concurrency, junit }).await?
        }
        None => {
            let spec = SweepSpec {
                version: Version,
                request: args.request.spec(),
                expect: args.expect.spec(),
                spaces: args.spaces.clone(),
                kinds: args.kinds.clone(),
                concurrency: args.concurrency.unwrap_or(use_case::CONCURRENCY),
                junit: args.junit.clone(),
                confirm_real: args.confirm_real,
            };
            use_case::sweep(context, &spec).await?
        }
    };
    if context.common.json {
        println!(
            "{}",
            json!({"run": swept.run.id, "verdict": swept.verdict, "report": swept.report, "crashed": swept.crashed,
                "sweep": swept.results})
        );
    } else {
        print(context, &swept);
    }
    Ok(swept.verdict.exit())
}

fn print(context: &Context, swept: &Swept) {
    let results = &swept.results;
    println!("\n{}", bugs::draw(&results.bugs, &results.unexplained));
    if swept.verdict == Verdict::Pass {
        println!(" no bug found: every reply was correct ({})", results.oracle);
    }
    let id = swept.run.id.short();
    println!(" run {id}   report {}", swept.report.display());
    let open = format!("{} {id}", context.command("report --open"));
    match results.bugs.first() {
        Some(bug) => println!(" next: {}\n       {open}", bug.again),
        None => println!(" next: {open}"),
    }
}
