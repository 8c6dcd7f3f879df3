//! Recordings: one request, sent once or several times, with or without faults.

pub mod import;
pub mod record;

use crate::kind::{Names, RunKind, Selection, StoredRun, Traces};
use crate::text::{plural, quoted};
use crate::view::{Block, View};
use crate::{Context, register_kind, socket_comparison};
use model::trace::Trace;
use model::{Failure, Fault, KindName, Run, Verdict};
use report::view::{Audience, Head, RecordingView, RunView};
use report::{RecordingReport, recording_html, recording_html_unredacted};
use requests::{RequestSpec, Transport};
use runs::RunDir;
use serde_json::json;

pub const NAME: KindName = KindName::new("recording");
pub const TRACES: &str = "traces.jsonl";
pub const FAULTS: &str = "faults.json";

struct Recording;
register_kind!(Recording);

/// More of a large run, such as an import of many traces, is not loaded to be shown: it may not fit into the memory.
const SHOWN_BYTES_MAX: u64 = 64 << 20;

/// What is shown of a recording.
struct Shown {
    traces: Vec<Trace>,
    /// Traces that follow in the file.
    left_out: u64,
    faults: Vec<Fault>,
}

fn read(dir: &RunDir) -> Result<Shown, Failure> {
    let (traces, left_out) = dir.first_records(TRACES, SHOWN_BYTES_MAX)?;
    Ok(Shown { traces, left_out, faults: faults(dir) })
}

fn faults(dir: &RunDir) -> Vec<Fault> {
    dir.read_json(FAULTS).unwrap_or_default()
}

/// What a reader must know besides the tree: certificates that were not checked, redirects.
fn remarks(run: &Run) -> Vec<String> {
    let summary = &run.summary;
    let mut lines = Vec::new();
    if summary["insecure"] == true {
        lines.push(INSECURE.to_owned());
    }
    for step in summary["redirects"].as_array().into_iter().flatten() {
        let text = |key: &str| step[key].as_str().unwrap_or_default();
        lines.push(format!("redirected: {} {} → {}", step["status"], text("from"), text("to")));
    }
    if let Some(to) = summary["redirects_to"].as_str() {
        lines.push(format!("redirects to {to}, not followed"));
    }
    lines
}

/// The verdict on a request that was sent. That of an import is about the file, not about the requests in it.
pub fn verdict_on_request(run: &Run) -> Option<Verdict> {
    let is_import = run.spec.get(import::SOURCE).is_some();
    if is_import { None } else { run.verdict }
}

/// The command that records the request again. Empty if it is not only a method and a URL, and for an import.
fn again(context: &Context, run: &Run, faults: &[Fault]) -> String {
    let Ok(spec) = serde_json::from_value::<RequestSpec>(run.spec["request"].clone()) else { return String::new() };
    if RequestSpec::parse(&spec.url(), &spec.method).ok().as_ref() != Some(&spec) {
        return String::new();
    }
    let method = match (spec.transport, spec.method.as_str()) {
        (Transport::Http, "GET") | (Transport::Grpc, _) => String::new(),
        (Transport::Http, method) => format!(" -X {method}"),
    };
    let faults: String = faults.iter().map(|fault| format!(" --fault {}", quoted(&fault.to_string()))).collect();
    format!("{}{method} {}{faults}", context.command("record"), quoted(&spec.url()))
}

/// For every view of a run.
pub const INSECURE: &str = "the server's certificate was not checked (--insecure)";

impl RunKind for Recording {
    fn name(&self) -> KindName {
        NAME
    }

    fn noun(&self) -> &'static str {
        "a recording"
    }

    fn summarize(&self, run: &Run) -> String {
        match run.summary["calls"].as_u64() {
            Some(calls) => format!("{calls} calls, status {}", run.summary["status"]),
            None => String::new(),
        }
    }

    fn load(&self, _context: &Context, stored: &StoredRun) -> Result<View, Failure> {
        let Shown { traces, left_out, faults } = read(&stored.dir)?;
        let mut fields = json!({"traces": traces, "faults": faults});
        if left_out > 0 {
            fields["traces_left_out"] = left_out.into();
        }
        let mut blocks: Vec<Block> = faults.iter().map(|fault| Block::Line(format!("fault: {fault}"))).collect();
        blocks.extend(remarks(&stored.run).into_iter().map(Block::Line));
        blocks.push(Block::Traces { traces, faults });
        if left_out > 0 {
            let file = stored.dir.file(TRACES);
            let more = plural(left_out, "further request");
            blocks.push(Block::Line(format!("{more}, not loaded to be shown: {}", file.display())));
        }
        Ok(View::new(fields, blocks))
    }

    fn run_view(&self, context: &Context, stored: &StoredRun, audience: Audience) -> Result<RunView, Failure> {
        let Shown { traces, left_out, faults } = read(&stored.dir)?;
        let sockets = socket_comparison::load(&stored.dir)?;
        let report = RecordingReport {
            run: &stored.run,
            traces: &traces,
            left_out,
            faults: &faults,
            sockets: sockets.as_ref().map(|comparison| comparison.view()),
        };
        let head = Head { audience, summary: self.summarize(&stored.run) };
        Ok(RecordingView::of(&report, head, again(context, &stored.run, &faults)))
    }

    fn report(&self, _context: &Context, stored: &StoredRun, names: Names) -> Result<String, Failure> {
        let Shown { traces, left_out, faults } = read(&stored.dir)?;
        let sockets = socket_comparison::load(&stored.dir)?;
        let page = match names {
            Names::Redacted => recording_html,
            Names::Complete => recording_html_unredacted,
        };
        Ok(page(&RecordingReport {
            run: &stored.run,
            traces: &traces,
            left_out,
            faults: &faults,
            sockets: sockets.as_ref().map(|comparison| comparison.view()),
        }))
    }

    fn has_traces(&self) -> bool {
        true
    }

    fn traces(&self, context: &Context, stored: &StoredRun, selection: Selection) -> Result<Traces, Failure> {
        if let Selection::Bug(_) | Selection::Behavior(_) = selection {
            return Err(Failure::request("only a sweep has bugs (--bug) and behaviors, and this is a recording")
                .next(format!("{} {}", context.command("export"), stored.run.id.short())));
        }
        let mut traces: Vec<Trace> = stored.dir.records(TRACES)?;
        if let Selection::Request(number) = selection {
            let count = traces.len();
            let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
            let one = index.filter(|index| *index < count).map(|index| traces.swap_remove(index));
            let missing =
                format!("there is no request {number}: this recording has {}", plural(count as u64, "request"));
            traces = vec![one.ok_or_else(|| Failure::request(missing))?];
        }
        Ok(Traces { traces, faults: faults(&stored.dir) })
    }
}
