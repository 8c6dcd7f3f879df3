//! `faultloom flip`: flips single bits in a program and counts the wrong answers.

use crate::args::Flip as Args;
use crate::context::Context;
use crate::render::flip as render;
use app::kinds::flip::campaign::{self as use_case, FinishedCampaign};
use app::kinds::flip::spec::ResumeSpec;
use app::spec::Version;
use model::{Exit, Failure};
use serde_json::json;

pub async fn flip(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let finished = match &args.resume {
        Some(run) => use_case::resume(context, &ResumeSpec { version: Version, run: run.clone() }).await?,
        None => use_case::flip(context, &args.spec()).await?,
    };
    if context.common.json {
        print_json(&finished);
    } else {
        print(context, &finished);
    }
    Ok(finished.verdict.exit())
}

pub fn print_json(finished: &FinishedCampaign) {
    println!(
        "{}",
        json!({"run": finished.run.id, "verdict": finished.verdict, "doubts": finished.doubts,
            "report": finished.report, "campaign": finished.campaign})
    );
}

fn print(context: &Context, finished: &FinishedCampaign) {
    let campaign = &finished.campaign;
    println!("\n{}", render::all(campaign));
    for line in render::remarks(campaign, &finished.doubts) {
        println!(" {line}");
    }
    let id = finished.run.id.short();
    let first = campaign.variants.iter().find_map(|v| v.stories.first().map(|story| (v, story)));
    let next = match first {
        Some((variant, story)) if story.injection.is_some() => {
            let name = if campaign.variants.len() > 1 { format!("{}:", variant.name) } else { String::new() };
            format!("{} replay {id}:{name}{}", context.command("flip"), story.id)
        }
        _ => format!("{} {id}", context.command("report")),
    };
    println!("\n run {id}   report {}   next: {next}", finished.report.display());
}
