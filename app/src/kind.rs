//! A kind of run behind one interface. A kind registers itself with [`register_kind!`]; nothing else lists it.

use crate::view::{Block, Table, View};
use crate::{Context, trace_diff};
use model::trace::Trace;
use model::{Failure, Fault, KindName, Run};
use report::view::{Audience, CaseColumns, Head, PlainBlock, PlainView, RunView};
use runs::RunDir;

/// A run with the folder of its artifacts.
pub struct StoredRun {
    pub run: Run,
    pub dir: RunDir,
}

/// Which requests of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All requests of a recording; of a sweep, the reference request.
    Main,
    /// One request of a recording, numbered from 1.
    Request(u64),
    /// Of a sweep, the request that shows this bug, numbered from 1.
    Bug(u64),
    /// Of a sweep, the first request with this fingerprint.
    Behavior(u64),
    /// Of a sweep, the reference request and those of all bugs.
    All,
}

/// Whether a page or an export shows paths and program arguments in full. They may contain secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Only parts on the allow-list of `model::redact`.
    Redacted,
    Complete,
}

impl Names {
    pub fn from_option(unredacted: bool) -> Names {
        if unredacted { Names::Complete } else { Names::Redacted }
    }
}

/// Requests with the faults that were planned for them.
pub struct Traces {
    pub traces: Vec<Trace>,
    pub faults: Vec<Fault>,
}

/// The result of a comparison.
pub struct Difference {
    /// False if the runs are equal.
    pub differs: bool,
    pub view: View,
}

/// The file that shows how far an unfinished run is.
#[derive(Clone, Copy, Debug)]
pub struct ProgressFile {
    pub name: &'static str,
    /// Text that only the line of a failed part contains.
    pub failed: &'static str,
}

/// Operations on the runs of one kind.
pub trait RunKind: Sync {
    /// As stored with the run and printed in lists.
    fn name(&self) -> KindName;

    /// With its article, for messages: `a sweep`.
    fn noun(&self) -> &'static str;

    /// A summary of a finished run in a few words, for lists. Empty if the run has none.
    fn summarize(&self, run: &Run) -> String;

    /// The whole result.
    ///
    /// # Errors
    /// Unknown if the run is not finished.
    fn load(&self, context: &Context, stored: &StoredRun) -> Result<View, Failure>;

    /// Compares two runs of this kind; by default their requests, call by call.
    fn diff(&self, context: &Context, before: &StoredRun, after: &StoredRun) -> Result<Difference, Failure> {
        trace_diff::diff(context, (self, before), (self, after))
    }

    /// One self-contained HTML page.
    fn report(&self, context: &Context, stored: &StoredRun, names: Names) -> Result<String, Failure>;

    /// The view model: what the workbench shows. By default the lines and tables of [`RunKind::load`].
    ///
    /// # Errors
    /// Unknown if the run is not finished.
    fn run_view(&self, context: &Context, stored: &StoredRun, audience: Audience) -> Result<RunView, Failure> {
        let blocks = self.load(context, stored)?.blocks.into_iter().filter_map(|block| match block {
            Block::Line(text) => Some(PlainBlock::Line { text }),
            Block::Table(Table { columns, rows }) => Some(PlainBlock::Table { columns, rows }),
            _ => None,
        });
        let head = Head { audience, summary: self.summarize(&stored.run) };
        Ok(PlainView::of(&stored.run, head, blocks.collect()))
    }

    /// All cases of one fault space.
    ///
    /// # Errors
    /// Request if this kind has no cases, or if there is no such space.
    fn cases(&self, _context: &Context, stored: &StoredRun, _space: usize) -> Result<CaseColumns, Failure> {
        Err(Failure::request(format!("run {} is {}: it has no cases", stored.run.id.short(), self.noun()))
            .next("name a sweep"))
    }

    /// The file that grows by one line for each completed part of a run, and what a line of a failed part contains.
    /// None: runs of this kind are short.
    fn progress_file(&self) -> Option<ProgressFile> {
        None
    }

    /// Whether runs of this kind hold requests with their calls.
    fn has_traces(&self) -> bool {
        false
    }

    /// The recorded requests.
    ///
    /// # Errors
    /// Request if this kind records none.
    fn traces(&self, _context: &Context, stored: &StoredRun, _selection: Selection) -> Result<Traces, Failure> {
        Err(Failure::request(format!("run {} is {}: it has no trace", stored.run.id.short(), self.noun()))
            .next("name a recording or a sweep"))
    }
}

/// A registered kind.
pub struct Registration(pub &'static dyn RunKind);

inventory::collect!(Registration);

/// Registers a value that implements [`RunKind`].
#[macro_export]
macro_rules! register_kind {
    ($kind:expr) => {
        inventory::submit! { $crate::kind::Registration(&$kind) }
    };
}

/// The registered kind with this name.
pub fn find(name: &KindName) -> Option<&'static dyn RunKind> {
    inventory::iter::<Registration>.into_iter().map(|registration| registration.0).find(|kind| kind.name() == *name)
}

/// The kind of a stored run.
///
/// # Errors
/// Environment if this version of the tool does not have it.
pub fn of(run: &Run) -> Result<&'static dyn RunKind, Failure> {
    find(&run.kind).ok_or_else(|| {
        Failure::environment(format!("run {} is of kind '{}', which is not supported", run.id.short(), run.kind))
            .why(format!("it was recorded with version {}", run.host.tool_version))
            .next("use the version that recorded it")
    })
}
