//! A run: what every kind has, and its content.

use super::{Audience, FlipView, MapView, PlainView, RecordingView, SweepView, VERSION};
use crate::notes;
use model::{Run, Verdict};
use schemars::JsonSchema;
use serde::Serialize;

/// Metadata of a run. Times are milliseconds since the unix epoch.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunHead {
    pub id: String,
    /// What people type: the last eight digits of the id.
    pub short_id: String,
    pub kind: String,
    pub title: String,
    /// `pass`, `fail` or `unknown`; none while the run is in progress, or if it was interrupted.
    pub verdict: Option<String>,
    pub begin_ms: i64,
    pub end_ms: Option<i64>,
    pub seed: u64,
    /// The result in a few words; empty if there is none yet.
    pub summary: String,
    pub tool_version: String,
    pub kernel: String,
    pub cpus: usize,
}

impl RunHead {
    pub fn of(run: &Run, summary: String) -> RunHead {
        RunHead {
            id: run.id.to_string(),
            short_id: run.id.short(),
            kind: run.kind.to_string(),
            title: run.title.clone(),
            verdict: run.verdict.map(Verdict::as_str).map(str::to_owned),
            begin_ms: run.begin_ms,
            end_ms: run.end_ms,
            seed: run.seed,
            summary,
            tool_version: run.host.tool_version.clone(),
            kernel: run.host.kernel.clone(),
            cpus: run.host.cpus,
        }
    }
}

/// Whose view it is, and the result of the run in a few words.
#[derive(Clone, Debug)]
pub struct Head {
    pub audience: Audience,
    pub summary: String,
}

/// A note for readers. A warning limits what the figures of the run mean.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Note {
    pub is_warning: bool,
    pub text: String,
}

impl Note {
    pub(crate) fn list(notes: Vec<notes::Note>) -> Vec<Note> {
        notes.into_iter().map(|note| Note { is_warning: note.warns, text: note.words }).collect()
    }
}

/// What a kind of run shows.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Content {
    Recording(RecordingView),
    Sweep(SweepView),
    Map(MapView),
    Flip(FlipView),
    Plain(PlainView),
}

/// The whole view of a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunView {
    /// Version of this format.
    pub version: u32,
    pub run: RunHead,
    pub content: Content,
    pub notes: Vec<Note>,
}

impl RunView {
    pub(crate) fn new(run: &Run, head: Head, content: Content, notes: Vec<notes::Note>) -> RunView {
        let mut run = RunHead::of(run, head.summary);
        if head.audience == Audience::Anybody {
            run.title = model::redact::text(&run.title);
        }
        RunView { version: VERSION, run, content, notes: Note::list(notes) }
    }
}
