//! The runs of a store: list, delete, show, compare, report, export. The same for every kind of run.

use crate::context::Context;
use crate::kind::{self, Difference, RunKind, Selection, StoredRun};
use crate::trace_diff;
use crate::view::View;
use exchange::Format;
use model::{Failure, Run, RunId};
use std::path::{Path, PathBuf};

/// Name of a run's page in the run's folder.
pub const REPORT_FILE: &str = "report.html";

/// A run as a line of a list.
pub struct ListedRun {
    pub run: Run,
    /// Empty for an unfinished run and for an unknown kind.
    pub summary: String,
}

/// The newest runs, newest first.
pub async fn list(context: &Context, limit: i64) -> Result<Vec<ListedRun>, Failure> {
    let runs = context.store().await?.list(limit).await?;
    let summarize = |run: &Run| kind::find(&run.kind).map_or(String::new(), |kind| kind.summarize(run));
    Ok(runs.into_iter().map(|run| ListedRun { summary: summarize(&run), run }).collect())
}

/// Deletes a run and its files. `last` is refused, because it names another run each time.
pub async fn delete(context: &Context, text: &str) -> Result<RunId, Failure> {
    if text == "last" {
        return Err(Failure::request("`last` cannot be deleted: it names a different run after each run")
            .next("name the run by its id; `faultloom runs` lists them"));
    }
    let store = context.store().await?;
    let run = store.find(text).await?;
    store.delete(run.id).await?;
    Ok(run.id)
}

/// A run by its id (any unambiguous beginning or end), or `last`.
pub async fn find(context: &Context, text: &str) -> Result<(StoredRun, &'static dyn RunKind), Failure> {
    let store = context.store().await?;
    let run = store.find(text).await?;
    let kind = kind::of(&run)?;
    let dir = store.dir(run.id);
    Ok((StoredRun { run, dir }, kind))
}

pub struct ShownRun {
    pub run: Run,
    pub view: View,
}

pub async fn show(context: &Context, text: &str) -> Result<ShownRun, Failure> {
    let (stored, kind) = find(context, text).await?;
    let view = kind.load(context, &stored)?;
    Ok(ShownRun { run: stored.run, view })
}

/// Two runs of one kind, or any two that hold requests.
pub async fn diff(context: &Context, before: &str, after: &str) -> Result<Difference, Failure> {
    let (before, before_kind) = find(context, before).await?;
    let (after, after_kind) = find(context, after).await?;
    if before.run.kind == after.run.kind {
        return before_kind.diff(context, &before, &after);
    }
    for (stored, kind) in [(&before, before_kind), (&after, after_kind)] {
        if !kind.has_traces() {
            return Err(Failure::request(format!(
                "run {} is {}, the other is not",
                stored.run.id.short(),
                kind.noun()
            ))
            .next("compare two runs of the same kind, or a recording with a sweep"));
        }
    }
    trace_diff::diff(context, (before_kind, &before), (after_kind, &after))
}

pub struct WrittenReport {
    pub run: RunId,
    pub path: PathBuf,
}

/// Writes a run's page to `output`, or into the run's folder.
pub async fn report(context: &Context, text: &str, output: Option<&Path>) -> Result<WrittenReport, Failure> {
    let (stored, _) = find(context, text).await?;
    let path = write_report(context, &stored, output)?;
    Ok(WrittenReport { run: stored.run.id, path })
}

pub(crate) fn write_report(context: &Context, stored: &StoredRun, output: Option<&Path>) -> Result<PathBuf, Failure> {
    let html = kind::of(&stored.run)?.report(context, stored)?;
    match output {
        None => stored.dir.write(REPORT_FILE, html.as_bytes()),
        Some(path) => write_to(path, html.as_bytes()).map(|()| path.to_owned()),
    }
}

pub struct Export {
    pub run: RunId,
    pub traces: usize,
    pub document: String,
}

/// The requests of a run in the format of another tool.
pub async fn export(context: &Context, text: &str, bug: Option<u64>, format: Format) -> Result<Export, Failure> {
    let (stored, kind) = find(context, text).await?;
    let selection = bug.map_or(Selection::Main, Selection::Bug);
    let found = kind.traces(context, &stored, selection)?;
    let document = exchange::export(&found.traces, &found.faults, format)?.to_string();
    Ok(Export { run: stored.run.id, traces: found.traces.len(), document })
}

/// Writes a file that the user named, and the folders above it.
pub fn write_to(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent)
            .map_err(|e| Failure::environment(format!("cannot create {}: {e}", parent.display())))?;
    }
    std::fs::write(path, bytes).map_err(|e| Failure::environment(format!("cannot write {}: {e}", path.display())))
}
