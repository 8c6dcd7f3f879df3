//! The runs of a store: list, delete, show, compare, report, export. The same for every kind of run.

use crate::kind::{self, Difference, Names, RunKind, Selection, StoredRun, Traces};
use crate::spec::{NoOptions, Version};
use crate::view::View;
use crate::{Context, register_schema, trace_diff};
use exchange::Format;
use model::{Failure, Run, RunId, Verdict};
use runs::Orphan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Name of a run's page in the run's folder.
pub const REPORT_FILE: &str = "report.html";

fn last() -> String {
    "last".to_owned()
}

/// Which runs to list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunsSpec {
    pub version: Version<1>,
    /// How many, newest first.
    #[serde(default = "default_limit")]
    pub limit: i64,
}

register_schema!("runs", RunsSpec);

fn default_limit() -> i64 {
    20
}

/// A run as a line of a list.
pub struct ListedRun {
    pub run: Run,
    /// Empty for an unfinished run and for an unknown kind.
    pub summary: String,
}

pub async fn list(context: &Context, spec: &RunsSpec) -> Result<Vec<ListedRun>, Failure> {
    let runs = context.store().await?.list(spec.limit).await?;
    let summarize = |run: &Run| kind::find(&run.kind).map_or(String::new(), |kind| kind.summarize(run));
    Ok(runs.into_iter().map(|run| ListedRun { summary: summarize(&run), run }).collect())
}

/// A run to delete with its files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteSpec {
    pub version: Version<1>,
    /// Its id: any unambiguous beginning or end. `last` is refused, because it names another run each time.
    pub run: String,
}

register_schema!("runs-delete", DeleteSpec);

pub async fn delete(context: &Context, spec: &DeleteSpec) -> Result<RunId, Failure> {
    if spec.run == "last" {
        return Err(Failure::request("`last` cannot be deleted: it names a different run after each run")
            .next(format!("name the run by its id; `{}` lists them", context.command("runs")))
            .field("run"));
    }
    let store = context.store().await?;
    let run = store.find(&spec.run).await?;
    store.delete(run.id).await?;
    Ok(run.id)
}

register_schema!("runs-clean", NoOptions);

/// Removes the folders of the store that belong to no run, and returns all that it found, also those that were kept.
pub async fn clean(context: &Context, _spec: &NoOptions) -> Result<Vec<Orphan>, Failure> {
    context.store().await?.remove_orphans().await
}

/// A run by its id (any unambiguous beginning or end), or `last`.
pub async fn find(context: &Context, text: &str) -> Result<(StoredRun, &'static dyn RunKind), Failure> {
    let store = context.store().await?;
    let run = store.find(text).await?;
    let kind = kind::of(&run)?;
    let dir = store.dir(run.id);
    Ok((StoredRun { run, dir }, kind))
}

/// A run to show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowSpec {
    pub version: Version<1>,
    /// Its id (any unambiguous beginning or end), or `last`.
    #[serde(default = "last")]
    pub run: String,
}

register_schema!("show", ShowSpec);

pub struct ShownRun {
    pub run: Run,
    pub view: View,
}

pub async fn show(context: &Context, spec: &ShowSpec) -> Result<ShownRun, Failure> {
    let (stored, kind) = find(context, &spec.run).await?;
    let view = kind.load(context, &stored)?;
    Ok(ShownRun { run: stored.run, view })
}

/// Two runs to compare: of one kind, or any two that hold requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiffSpec {
    pub version: Version<1>,
    /// An id (any unambiguous beginning or end), or `last`.
    pub before: String,
    pub after: String,
}

register_schema!("diff", DiffSpec);

pub async fn diff(context: &Context, spec: &DiffSpec) -> Result<Difference, Failure> {
    let (before, before_kind) = find(context, &spec.before).await?;
    let (after, after_kind) = find(context, &spec.after).await?;
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

/// A run whose page to write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportSpec {
    pub version: Version<1>,
    /// Its id (any unambiguous beginning or end), or `last`.
    #[serde(default = "last")]
    pub run: String,
    /// Where to write it; default: in the run's folder.
    #[serde(default)]
    pub output: Option<PathBuf>,
    /// Show paths and program arguments in full. They may contain secrets.
    #[serde(default)]
    pub unredacted: bool,
}

register_schema!("report", ReportSpec);

pub struct WrittenReport {
    pub run: RunId,
    pub path: PathBuf,
}

pub async fn report(context: &Context, spec: &ReportSpec) -> Result<WrittenReport, Failure> {
    let (stored, _) = find(context, &spec.run).await?;
    let path = write_report(context, &stored, spec.output.as_deref(), Names::from_option(spec.unredacted))?;
    Ok(WrittenReport { run: stored.run.id, path })
}

pub(crate) fn write_report(
    context: &Context,
    stored: &StoredRun,
    output: Option<&Path>,
    names: Names,
) -> Result<PathBuf, Failure> {
    let html = kind::of(&stored.run)?.report(context, stored, names)?;
    match output {
        None => stored.dir.write(REPORT_FILE, html.as_bytes()),
        Some(path) => write_to(path, html.as_bytes()).map(|()| path.to_owned()),
    }
}

/// The format of another tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExportFormat {
    /// OpenTelemetry's JSON.
    #[default]
    Otlp,
    /// What Jaeger's UI loads.
    Jaeger,
    /// Zipkin's JSON, version 2.
    Zipkin,
    /// Trace events, for ui.perfetto.dev.
    Perfetto,
}

/// Requests of a run to export: of a sweep, the request without faults or the one that shows a bug.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExportSpec {
    pub version: Version<1>,
    /// Its id (any unambiguous beginning or end), or `last`.
    #[serde(default = "last")]
    pub run: String,
    #[serde(default)]
    pub format: ExportFormat,
    /// Of a sweep: the request that shows this bug, numbered from 1.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub bug: Option<u64>,
    /// Export paths in full. They may contain secrets.
    #[serde(default)]
    pub unredacted: bool,
}

register_schema!("export", ExportSpec);

/// The requests to export; at least one has a history.
pub struct Export {
    pub run: RunId,
    pub traces: usize,
    found: Traces,
    format: Format,
    /// Of the request, if there is one.
    verdict: Option<Verdict>,
}

impl Export {
    /// Writes the document and ends the line.
    pub fn write(&self, out: &mut impl Write) -> Result<(), Failure> {
        let failed = |e: io::Error| Failure::environment(format!("the export cannot be written: {e}"));
        exchange::Export::new(&self.found.traces, &self.found.faults, self.format)?
            .with_verdict(self.verdict)
            .write(out)
            .and_then(|()| out.write_all(b"\n"))
            .and_then(|()| out.flush())
            .map_err(failed)
    }

    /// Writes it to a file that the user named, and creates the folders above it.
    pub fn write_to(&self, path: &Path) -> Result<(), Failure> {
        create_parent(path)?;
        let file = File::create(path).map_err(|e| unwritable(path, &e))?;
        self.write(&mut BufWriter::new(file)).map_err(|failure| failure.why(path.display().to_string()))
    }
}

pub async fn export(context: &Context, spec: &ExportSpec) -> Result<Export, Failure> {
    let format = match spec.format {
        ExportFormat::Otlp => Format::Otlp,
        ExportFormat::Jaeger => Format::Jaeger,
        ExportFormat::Zipkin => Format::Zipkin,
        ExportFormat::Perfetto => Format::Perfetto,
    };
    let (stored, kind) = find(context, &spec.run).await?;
    let selection = spec.bug.map_or(Selection::Main, Selection::Bug);
    let mut found = kind.traces(context, &stored, selection)?;
    if !spec.unredacted {
        found.traces.iter_mut().for_each(|trace| *trace = model::redact::trace(trace));
        found.faults.iter_mut().for_each(|fault| *fault = model::redact::fault(fault));
    }
    exchange::Export::new(&found.traces, &found.faults, format)?;
    // the verdict of a sweep, or of many requests, is that of none of them
    let verdict = match (spec.bug, stored.run.kind == crate::kinds::recording::NAME, found.traces.len()) {
        (Some(_), ..) => Some(Verdict::Fail),
        (None, true, 1) => crate::kinds::recording::verdict_on_request(&stored.run),
        _ => None,
    };
    Ok(Export { run: stored.run.id, traces: found.traces.len(), found, format, verdict })
}

/// Writes a file that the user named, and the folders above it.
pub fn write_to(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    create_parent(path)?;
    std::fs::write(path, bytes).map_err(|e| unwritable(path, &e))
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::environment(format!("cannot write {}: {error}", path.display()))
}

fn create_parent(path: &Path) -> Result<(), Failure> {
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent)
            .map_err(|e| Failure::environment(format!("cannot create {}: {e}", parent.display())))?;
    }
    Ok(())
}
