//! Campaigns of bit flips in one program, and flips in a running process.

pub mod campaign;
mod diff;
pub mod live;
pub mod repeat;
pub mod spec;

use crate::history::REPORT_FILE;
use crate::kind::{Difference, Names, ProgressFile, RunKind, Selection, StoredRun, Traces};
use crate::text::plural;
use crate::view::{Block, View};
use crate::{Context, register_kind};
use ::campaign::{EngineClient, Spec, log, tracer_client};
use bit_flips::live::{Injection, Target};
use model::campaign::Campaign;
use model::{Failure, KindName, Run};
use report::view::{Audience, FlipView, Head, RunView};
use report::{FlipReport, flip_html, flip_html_unredacted};
use runs::RunDir;
use serde_json::json;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

pub const NAME: KindName = KindName::new("flip");

struct Flip;
register_kind!(Flip);

/// The stored spec of a campaign.
pub fn spec_of(run: &Run) -> Result<Spec, Failure> {
    if run.kind != NAME {
        return Err(Failure::request(format!("run {} is not a campaign of bit flips", run.id.short())));
    }
    serde_json::from_value(run.spec.clone())
        .map_err(|e| Failure::environment(format!("run {} cannot be read: {e}", run.id.short())))
}

/// # Errors
/// Unknown, if the campaign was interrupted.
fn results(context: &Context, stored: &StoredRun) -> Result<Campaign, Failure> {
    let run = &stored.run;
    if run.verdict.is_none() && !run.spec["live"].is_null() {
        return Err(Failure::unknown(format!("run {} was killed before it finished", run.id.short()))
            .next(format!("the flips made so far are in {}", stored.dir.file(log::INJECTIONS).display())));
    }
    if run.verdict.is_none() {
        return Err(Failure::unknown(format!("campaign {} is not finished", run.id.short())).next(format!(
            "if it was interrupted: {} --resume {}",
            context.command("flip"),
            run.id.short()
        )));
    }
    stored.dir.read_json(log::CAMPAIGN)
}

/// The verb by which this executable runs the flip engine. A front end must serve it.
pub const ENGINE_VERB: &str = "flip-engine";
/// The verb by which this executable traces a running process. A front end must serve it.
pub const TRACER_VERB: &str = "flip-tracer";

fn own_executable() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|e| Failure::environment(format!("this program's own file is not found: {e}")))
}

/// An engine, which ends when this is dropped.
fn engine() -> Result<EngineClient, Failure> {
    EngineClient::start(&own_executable()?, &[OsStr::new(ENGINE_VERB)])
}

/// Makes one flip in a running process; see [`tracer_client::flip`].
fn tracer_flip(target: &Target, stop: &AtomicBool) -> Result<Injection, Failure> {
    tracer_client::flip(&own_executable()?, &[OsStr::new(TRACER_VERB)], target, stop)
}

/// Writes the page of a finished campaign into its folder.
pub fn write_report(run: &Run, dir: &RunDir, campaign: &Campaign) -> Result<PathBuf, Failure> {
    dir.write(REPORT_FILE, flip_html(&FlipReport { run, campaign }).as_bytes())
}

impl RunKind for Flip {
    fn name(&self) -> KindName {
        NAME
    }

    fn noun(&self) -> &'static str {
        "a campaign of bit flips"
    }

    fn summarize(&self, run: &Run) -> String {
        let number = |key: &str| run.summary[key].as_u64();
        match (number("flips"), number("errors"), number("undetected")) {
            (Some(flips), Some(errors), Some(undetected)) => {
                let disturbed = !run.spec["external"].is_null();
                let tried = plural(flips, if disturbed { "disturbed run" } else { "flip" });
                format!("{tried}, {}, {undetected} undetected", plural(errors, "error"))
            }
            _ => String::new(),
        }
    }

    fn load(&self, context: &Context, stored: &StoredRun) -> Result<View, Failure> {
        let campaign = results(context, stored)?;
        Ok(View::new(json!({"campaign": campaign}), vec![Block::campaign(campaign)]))
    }

    fn diff(&self, context: &Context, before: &StoredRun, after: &StoredRun) -> Result<Difference, Failure> {
        diff::diff(context, before, after)
    }

    fn run_view(&self, context: &Context, stored: &StoredRun, audience: Audience) -> Result<RunView, Failure> {
        let report = FlipReport { run: &stored.run, campaign: &results(context, stored)? };
        Ok(FlipView::of(&report, Head { audience, summary: self.summarize(&stored.run) }))
    }

    fn report(&self, context: &Context, stored: &StoredRun, names: Names) -> Result<String, Failure> {
        let page = match names {
            Names::Redacted => flip_html,
            Names::Complete => flip_html_unredacted,
        };
        Ok(page(&FlipReport { run: &stored.run, campaign: &results(context, stored)? }))
    }

    fn progress_file(&self) -> Option<ProgressFile> {
        Some(ProgressFile { name: log::INJECTIONS, failed: r#""outcome":"undetected""# })
    }

    fn traces(&self, context: &Context, stored: &StoredRun, _selection: Selection) -> Result<Traces, Failure> {
        let id = stored.run.id.short();
        Err(Failure::request(format!("run {id} is a campaign of bit flips: it has no trace"))
            .next(format!("{} --json {id} writes its tables", context.command("show"))))
    }
}
