//! The view of a sweep: bugs, behaviors, spaces. Its cases follow on demand.

use super::behaviors::{self, Behavior, SiteColumn};
use super::bugs::{BugView, UnexplainedView};
use super::cases::CaseColumns;
use super::{Audience, Content, Head, RunView, SocketsView};
use crate::{SweepReport, notes};
use model::sweep::Space;
use schemars::JsonSchema;
use serde::Serialize;

/// A fault space and its counts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SpaceView {
    pub name: String,
    /// What its cases are, in words.
    pub about: String,
    pub cases: u64,
    pub failures: u64,
    pub passes: u64,
    /// Passes in which no fault was reached.
    pub unaffected: u64,
    pub unknown: u64,
    pub behaviors: u64,
    pub duration_s: f64,
    /// The smallest failing combinations tested, each as columns of the behavior table.
    pub minimal: Vec<Vec<u32>>,
    /// Smallest combinations that are not in `minimal`, because there are too many.
    pub minimal_left_out: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SweepView {
    pub request: String,
    /// When a reply is correct.
    pub oracle: String,
    /// gRPC codes or HTTP statuses: `grpc` or `http`.
    pub protocol: String,
    /// Calls and duration of the request without faults.
    pub good_calls: u64,
    pub good_services: u64,
    pub good_us: Option<u64>,
    /// The most harmful first; without the hard dependencies.
    pub bugs: Vec<BugView>,
    pub hard_dependencies: Vec<BugView>,
    pub unexplained: Vec<UnexplainedView>,
    pub spaces: Vec<SpaceView>,
    pub columns: Vec<SiteColumn>,
    pub behaviors: Vec<Behavior>,
    /// Cases that were sent again because a service crashed.
    pub repeated: u64,
    /// The kernel's sockets during the sweep; none if they were not recorded.
    pub sockets: Option<SocketsView>,
}

/// Smallest failing combinations per space.
const MINIMAL_MAX: usize = 500;

impl SweepView {
    /// `stored`: whether a request with this fingerprint is stored.
    pub fn of(report: &SweepReport, head: Head, stored: &dyn Fn(u64) -> bool) -> RunView {
        let audience = head.audience;
        let redacted = (audience == Audience::Anybody).then(|| model::redact::sweep(report.sweep));
        let SweepReport { run, cases, sockets, .. } = *report;
        let sweep = redacted.as_ref().unwrap_or(report.sweep);
        let table = behaviors::table(sweep, cases, audience, stored);
        let good = &sweep.good;
        let all = || sweep.bugs.iter().enumerate();
        let content = Content::Sweep(SweepView {
            request: audience.request(&sweep.request).into_owned(),
            oracle: audience.oracle(&sweep.oracle).into_owned(),
            protocol: match good.entry.protocol {
                model::trace::Protocol::Grpc => "grpc".to_owned(),
                model::trace::Protocol::Http => "http".to_owned(),
            },
            good_calls: good.walk().len() as u64,
            good_services: good.services().len() as u64,
            good_us: good.entry.duration_us(),
            bugs: all()
                .filter(|(_, bug)| !bug.is_hard_dependency())
                .map(|(i, bug)| BugView::of(i, bug, audience))
                .collect(),
            hard_dependencies: all()
                .filter(|(_, bug)| bug.is_hard_dependency())
                .map(|(i, bug)| BugView::of(i, bug, audience))
                .collect(),
            unexplained: sweep.unexplained.iter().map(|one| UnexplainedView::of(one, audience)).collect(),
            spaces: sweep.spaces.iter().map(|space| space_view(space, &table.columns)).collect(),
            columns: table.columns,
            behaviors: table.behaviors,
            repeated: sweep.repeated,
            sockets: sockets.as_ref().map(SocketsView::of),
        });
        RunView::new(run, head, content, notes::of_sweep(run, sweep, cases))
    }

    /// All cases of one space. None if there is no such space.
    pub fn cases(report: &SweepReport, space: usize) -> Option<CaseColumns> {
        let SweepReport { sweep, cases, .. } = *report;
        let table = behaviors::table(sweep, cases, Audience::Owner, &|_| false);
        let of_space = sweep.spaces.get(space)?;
        let columns = site_columns(of_space, &table.columns);
        Some(CaseColumns::of(space, of_space, cases, &table.of_case, columns))
    }
}

/// The column of each site of a space.
fn site_columns(space: &Space, columns: &[SiteColumn]) -> Vec<u32> {
    let at = |fault: String| columns.iter().position(|column| column.fault == fault).unwrap_or_default() as u32;
    space.sites.iter().map(|site| at(site.fault.to_string())).collect()
}

fn space_view(space: &Space, columns: &[SiteColumn]) -> SpaceView {
    let of_site = site_columns(space, columns);
    let set = |sites: &Vec<u32>| sites.iter().filter_map(|site| of_site.get(*site as usize).copied()).collect();
    SpaceView {
        name: space.name.clone(),
        about: crate::sweep::about(&space.name).to_owned(),
        cases: space.cases,
        failures: space.failures,
        passes: space.passes,
        unaffected: space.unaffected,
        unknown: space.unknown,
        behaviors: space.behaviors,
        duration_s: space.seconds,
        minimal: space.minimal.iter().take(MINIMAL_MAX).map(set).collect(),
        minimal_left_out: space.minimal.len().saturating_sub(MINIMAL_MAX) as u64,
    }
}
