//! What the workbench shows: the view model of runs, cases, traces and comparisons. Reading only.

mod watch;

pub use watch::{Change, RunProgress, Watch};

use crate::kind::{Selection, StoredRun};
use crate::spec::Version;
use crate::{Context, history, kind, register_schema};
use model::{Failure, Run};
use report::view::{Audience, CaseColumns, ComparisonView, RunHead, RunView, TraceView, compare};
use schemars::JsonSchema;
use serde::Serialize;
use std::str::FromStr;

register_schema!("run-view", RunView);
register_schema!("run-list", RunList);
register_schema!("run-progress", RunProgress);
register_schema!("case-columns", CaseColumns);
register_schema!("trace-view", TraceView);
register_schema!("comparison-view", ComparisonView);

/// Runs of the store, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunList {
    pub version: Version<1>,
    pub runs: Vec<RunHead>,
    /// Whether the store has more.
    pub has_more: bool,
}

/// Runs of one list.
pub(crate) const RUNS_MAX: i64 = 10_000;

pub async fn runs(context: &Context) -> Result<RunList, Failure> {
    let mut runs = context.store().await?.list(RUNS_MAX + 1).await?;
    let has_more = runs.len() as i64 > RUNS_MAX;
    runs.truncate(RUNS_MAX as usize);
    Ok(RunList { version: Version, runs: runs.iter().map(head).collect(), has_more })
}

fn head(run: &Run) -> RunHead {
    RunHead::of(run, kind::find(&run.kind).map_or(String::new(), |kind| kind.summarize(run)))
}

/// The view of a run. `id`: any unambiguous beginning or end, or `last`.
///
/// # Errors
/// Unknown if the run is not finished.
pub async fn run(context: &Context, id: &str, audience: Audience) -> Result<RunView, Failure> {
    let (stored, kind) = history::find(context, id).await?;
    kind.run_view(context, &stored, audience)
}

/// All cases of one space of a sweep.
pub async fn cases(context: &Context, id: &str, space: usize) -> Result<CaseColumns, Failure> {
    let (stored, kind) = history::find(context, id).await?;
    kind.cases(context, &stored, space)
}

/// A request of a run: `ID/main`, `ID/request-2`, `ID/bug-1`, `ID/behavior-3c5f…`.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestName {
    pub run: String,
    pub selection: Selection,
}

impl FromStr for RequestName {
    type Err = Failure;

    fn from_str(text: &str) -> Result<RequestName, Failure> {
        let wrong = || {
            Failure::request(format!("'{text}' names no request"))
                .next("write RUN/main, RUN/request-N, RUN/bug-N or RUN/behavior-FINGERPRINT")
        };
        let (run, which) = text.split_once('/').ok_or_else(wrong)?;
        let number = |text: &str| text.parse().ok().filter(|number| *number > 0).ok_or_else(wrong);
        let selection = match which.split_once('-') {
            None if which == "main" => Selection::Main,
            Some(("request", text)) => Selection::Request(number(text)?),
            Some(("bug", text)) => Selection::Bug(number(text)?),
            Some(("behavior", text)) => Selection::Behavior(u64::from_str_radix(text, 16).map_err(|_| wrong())?),
            _ => return Err(wrong()),
        };
        if run.is_empty() { Err(wrong()) } else { Ok(RequestName { run: run.to_owned(), selection }) }
    }
}

pub async fn trace(context: &Context, name: &RequestName) -> Result<TraceView, Failure> {
    let (trace, faults) = request(context, name).await?;
    Ok(TraceView::of(&trace, &faults))
}

/// Two requests, of any two runs, as one tree.
pub async fn comparison(
    context: &Context,
    first: &RequestName,
    other: &RequestName,
) -> Result<ComparisonView, Failure> {
    let (first, first_faults) = request(context, first).await?;
    let (other, other_faults) = request(context, other).await?;
    Ok(compare((&first, &first_faults), (&other, &other_faults)))
}

async fn request(context: &Context, name: &RequestName) -> Result<(model::trace::Trace, Vec<model::Fault>), Failure> {
    let (stored, kind) = history::find(context, &name.run).await?;
    let found = kind.traces(context, &stored, name.selection)?;
    let trace = found.traces.into_iter().next().ok_or_else(|| no_request(&stored))?;
    Ok((trace, found.faults))
}

fn no_request(stored: &StoredRun) -> Failure {
    Failure::request(format!("run {} has no such request", stored.run.id.short()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_requests() {
        let selection = |text: &str| text.parse::<RequestName>().map(|name| name.selection);
        assert_eq!(selection("1a2b/main").unwrap(), Selection::Main);
        assert_eq!(selection("last/request-2").unwrap(), Selection::Request(2));
        assert_eq!(selection("x/bug-1").unwrap(), Selection::Bug(1));
        assert_eq!(selection("x/behavior-00000000000000ff").unwrap(), Selection::Behavior(255));
        for wrong in ["", "x", "/main", "x/bug-0", "x/bug-x", "x/behavior-", "x/behavior-g", "x/other", "x/main-1"] {
            assert!(selection(wrong).is_err(), "{wrong}");
        }
    }
}
