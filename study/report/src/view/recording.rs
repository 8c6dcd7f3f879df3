//! The view of a recording: its requests and the planned faults.

use super::{Audience, Content, Head, RunView, SocketsView, TraceView};
use crate::{RecordingReport, recording};
use model::Fault;
use model::trace::Trace;
use schemars::JsonSchema;
use serde::Serialize;

/// A fault of the plan.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PlannedFault {
    /// In the notation of `--fault`.
    pub fault: String,
    /// How often it fired in all requests.
    pub fired: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RecordingView {
    pub traces: Vec<TraceView>,
    /// Requests of the run that are not in `traces`, because it has too many.
    pub left_out: u64,
    pub faults: Vec<PlannedFault>,
    /// The command that records it again; empty if a command line cannot hold the request.
    pub again: String,
    /// The kernel's sockets during the recording; none if they were not recorded.
    pub sockets: Option<SocketsView>,
}

impl RecordingView {
    pub fn of(report: &RecordingReport, head: Head, again: String) -> RunView {
        if head.audience == Audience::Owner {
            return RecordingView::complete(report, head, again);
        }
        let traces: Vec<Trace> = report.traces.iter().map(model::redact::trace).collect();
        let faults: Vec<Fault> = report.faults.iter().map(model::redact::fault).collect();
        RecordingView::complete(
            &RecordingReport { traces: &traces, faults: &faults, ..*report },
            head,
            crate::redact::command(&again),
        )
    }

    fn complete(report: &RecordingReport, head: Head, again: String) -> RunView {
        let faults = report.faults.iter().enumerate();
        let content = Content::Recording(RecordingView {
            traces: report.traces.iter().map(|trace| TraceView::of(trace, report.faults)).collect(),
            left_out: report.left_out,
            faults: faults
                .map(|(i, fault)| PlannedFault {
                    fault: fault.to_string(),
                    fired: recording::times_fired(report.traces, i),
                })
                .collect(),
            again,
            sockets: report.sockets.as_ref().map(SocketsView::of),
        });
        RunView::new(report.run, head, content, recording::notes(report))
    }
}
