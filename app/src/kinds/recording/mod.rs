//! Recordings: one request, sent once or several times, with or without faults.

pub mod import;
pub mod record;

use crate::kind::{RunKind, Selection, StoredRun, Traces};
use crate::view::{Block, View};
use crate::{Context, register_kind, socket_comparison};
use model::trace::Trace;
use model::{Failure, Fault, KindName, Run};
use report::{RecordingReport, recording_html};
use runs::RunDir;
use serde_json::json;

pub const NAME: KindName = KindName::new("recording");
pub const TRACES: &str = "traces.jsonl";
pub const FAULTS: &str = "faults.json";

struct Recording;
register_kind!(Recording);

fn read(dir: &RunDir) -> Result<(Vec<Trace>, Vec<Fault>), Failure> {
    Ok((dir.records(TRACES)?, dir.read_json(FAULTS).unwrap_or_default()))
}

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
        let (traces, faults) = read(&stored.dir)?;
        let fields = json!({"traces": traces, "faults": faults});
        let mut blocks: Vec<Block> = faults.iter().map(|fault| Block::Line(format!("fault: {fault}"))).collect();
        blocks.push(Block::Traces { traces, faults });
        Ok(View::new(fields, blocks))
    }

    fn report(&self, _context: &Context, stored: &StoredRun) -> Result<String, Failure> {
        let (traces, faults) = read(&stored.dir)?;
        let sockets = socket_comparison::load(&stored.dir)?;
        Ok(recording_html(&RecordingReport {
            run: &stored.run,
            traces: &traces,
            faults: &faults,
            sockets: sockets.as_ref().map(|comparison| comparison.view()),
        }))
    }

    fn has_traces(&self) -> bool {
        true
    }

    fn traces(&self, context: &Context, stored: &StoredRun, selection: Selection) -> Result<Traces, Failure> {
        if let Selection::Bug(_) = selection {
            return Err(Failure::request("only a sweep has bugs (--bug), and this is a recording").next(format!(
                "{} {}",
                context.command("export"),
                stored.run.id.short()
            )));
        }
        let (traces, faults) = read(&stored.dir)?;
        Ok(Traces { traces, faults })
    }
}
