//! One self-contained HTML page for a run: the findings, their causes, and the commands that reproduce them.
//!
//! Everything is rendered here, so the page can be read without its script, which adds what needs a pointer or keys:
//! details of single cases, copying commands. Nothing is loaded from elsewhere, and no text from a recorded system can
//! become markup or script: text goes through `escape`, and the page's policy admits one script by its hash.
//!
//! The page of 17,000 cases stays below 1.5 MB: long timelines and tables are cut, with a note.

mod align;
mod bugs;
mod cases;
mod escape;
mod flip_every;
mod flip_latency;
mod flip_live;
mod flip_pictures;
mod flip_tables;
mod flips;
mod graph;
mod grid;
mod layers;
mod layout;
pub mod lcs;
mod map;
mod net;
mod notes;
mod page;
mod recording;
mod redact;
pub use bugs::real_stop as real_stop_without_values;
pub use redact::{command as command_without_secrets, reason as reason_without_values};
mod rows;
mod services;
mod sweep;
mod tables;
mod timeline;
pub mod view;
mod words;

#[cfg(test)]
#[path = "../examples/fixture/flips.rs"]
mod fixture_flips;
#[cfg(test)]
#[path = "../examples/fixture/net.rs"]
mod fixture_net;
#[cfg(test)]
mod flip_tests;
#[cfg(test)]
mod map_tests;
#[cfg(test)]
#[path = "../examples/fixture/shop.rs"]
mod shop;
#[cfg(test)]
mod tests;

use flows::{Comparison, Graph};
use model::campaign::Campaign;
use model::sweep::{Case, Sweep};
use model::trace::Trace;
use model::{Fault, Run};

/// A sweep, with the cases of all its spaces in any order.
pub struct SweepReport<'a> {
    pub run: &'a Run,
    pub sweep: &'a Sweep,
    pub cases: &'a [Case],
    pub sockets: Option<ComparedSockets<'a>>,
}

/// Recorded requests and the faults that were planned for them; [`model::trace::Call::fault`] points into `faults`.
pub struct RecordingReport<'a> {
    pub run: &'a Run,
    pub traces: &'a [Trace],
    /// Requests of the run that are not among `traces`, because it has too many.
    pub left_out: u64,
    pub faults: &'a [Fault],
    pub sockets: Option<ComparedSockets<'a>>,
}

/// Connections that the sockets showed during the run, compared with the recorded calls.
#[derive(Clone, Copy)]
pub struct ComparedSockets<'a> {
    pub graph: &'a Graph,
    pub rows: &'a [Comparison],
}

/// A stored map.
pub struct MapReport<'a> {
    pub run: &'a Run,
    pub graph: &'a Graph,
}

/// A finished campaign of bit flips.
pub struct FlipReport<'a> {
    pub run: &'a Run,
    pub campaign: &'a Campaign,
}

/// A page may be shared: of a command, only the program's name and its options are shown.
pub fn flip_html(report: &FlipReport) -> String {
    flips::html(&FlipReport { campaign: &without_arguments(report.campaign), ..*report })
}

pub(crate) fn without_arguments(campaign: &Campaign) -> Campaign {
    let mut campaign = campaign.clone();
    for variant in &mut campaign.variants {
        variant.command = model::redact::program(&variant.command);
        if let Some(live) = &mut variant.live {
            let words = |check: &str| check.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            live.check = live.check.as_deref().map(|check| model::redact::program(&words(check)).join(" "));
        }
    }
    campaign
}

/// With complete commands.
pub fn flip_html_unredacted(report: &FlipReport) -> String {
    flips::html(report)
}

pub fn map_html(report: &MapReport) -> String {
    map::html(report)
}

/// A page may be shared: of paths, only the parts are shown that `model::redact` lists.
pub fn sweep_html(report: &SweepReport) -> String {
    sweep::html(&SweepReport { sweep: &model::redact::sweep(report.sweep), run: &titled(report.run), ..*report })
}

/// With complete paths. Headers, bodies and values in URLs are left out here, too.
pub fn sweep_html_unredacted(report: &SweepReport) -> String {
    sweep::html(report)
}

/// A page may be shared: of paths, only the parts are shown that `model::redact` lists.
pub fn recording_html(report: &RecordingReport) -> String {
    let traces: Vec<Trace> = report.traces.iter().map(model::redact::trace).collect();
    let faults: Vec<Fault> = report.faults.iter().map(model::redact::fault).collect();
    recording::html(&RecordingReport { run: &titled(report.run), traces: &traces, faults: &faults, ..*report })
}

/// With complete paths.
pub fn recording_html_unredacted(report: &RecordingReport) -> String {
    recording::html(report)
}

fn titled(run: &Run) -> Run {
    Run { title: model::redact::text(&run.title), ..run.clone() }
}
