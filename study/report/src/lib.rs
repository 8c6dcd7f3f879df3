//! One self-contained HTML page for a run.

use model::sweep::{Case, Sweep};
use model::trace::Trace;
use model::{Fault, Run};

pub struct SweepReport<'a> {
    pub run: &'a Run,
    pub sweep: &'a Sweep,
    pub cases: &'a [Case],
}

pub struct RecordingReport<'a> {
    pub run: &'a Run,
    pub traces: &'a [Trace],
    pub faults: &'a [Fault],
}

pub fn sweep_html(_report: &SweepReport) -> String {
    String::new()
}

pub fn recording_html(_report: &RecordingReport) -> String {
    String::new()
}
