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
pub use redact::reason as reason_without_values;
mod rows;
mod services;
mod sweep;
mod tables;
mod timeline;
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

pub fn flip_html(report: &FlipReport) -> String {
    flips::html(report)
}

pub fn map_html(report: &MapReport) -> String {
    map::html(report)
}

pub fn sweep_html(report: &SweepReport) -> String {
    sweep::html(report)
}

pub fn recording_html(report: &RecordingReport) -> String {
    recording::html(report)
}
