//! Sweeps: all cases of fault spaces, and the bugs that they expose.

mod again;
pub mod junit;
mod run;
mod spec;

pub use run::{Swept, resume, sweep};
pub use spec::{CONCURRENCY, ResumeSpec, StoredSpec, SweepSpec};

use crate::kind::{Names, ProgressFile, RunKind, Selection, StoredRun, Traces};
use crate::kinds::recording::INSECURE;
use crate::view::{Block, View};
use crate::{Context, register_kind, socket_comparison};
use explore::behavior_log;
use model::sweep::{Case, Sweep as Results};
use model::{Failure, KindName, Run};
use report::view::{Audience, CaseColumns, Head, RunView, SweepView};
use report::{SweepReport, sweep_html, sweep_html_unredacted};
use serde_json::json;

pub const NAME: KindName = KindName::new("sweep");
const RESULTS: &str = "sweep.json";
const CASES: &str = "cases.jsonl";

struct Sweep;
register_kind!(Sweep);

/// # Errors
/// Unknown, if the sweep was interrupted.
fn results(context: &Context, stored: &StoredRun) -> Result<Results, Failure> {
    let id = stored.run.id.short();
    if stored.run.verdict.is_none() {
        return Err(Failure::unknown(format!("sweep {id} is not finished"))
            .next(format!("if it was interrupted: {} --resume {id}", context.command("sweep"))));
    }
    stored.dir.read_json(RESULTS)
}

impl RunKind for Sweep {
    fn name(&self) -> KindName {
        NAME
    }

    fn noun(&self) -> &'static str {
        "a sweep"
    }

    fn summarize(&self, run: &Run) -> String {
        let number = |key: &str| run.summary[key].as_u64();
        match (number("cases"), number("bugs")) {
            (Some(cases), Some(bugs)) => {
                let needed = match number("hard_dependencies") {
                    None | Some(0) => String::new(),
                    Some(1) => ", 1 hard dependency".to_owned(),
                    Some(n) => format!(", {n} hard dependencies"),
                };
                format!("{cases} cases, {} failed, {bugs} bugs{needed}", number("failures").unwrap_or(0))
            }
            _ => String::new(),
        }
    }

    fn load(&self, context: &Context, stored: &StoredRun) -> Result<View, Failure> {
        let sweep = results(context, stored)?;
        let fields = json!({"sweep": sweep});
        let request: Option<requests::RequestSpec> = serde_json::from_value(stored.run.spec["request"].clone()).ok();
        let is_insecure = request.is_some_and(|request| request.is_insecure());
        let mut blocks = vec![
            Block::Line(format!("{}   passes if: {}", sweep.request, sweep.oracle)),
            Block::Traces { traces: vec![sweep.good], faults: Vec::new() },
            Block::Spaces(sweep.spaces),
            Block::Bugs { bugs: sweep.bugs, unexplained: sweep.unexplained },
        ];
        if is_insecure {
            blocks.insert(0, Block::Line(INSECURE.to_owned()));
        }
        Ok(View::new(fields, blocks))
    }

    fn run_view(&self, context: &Context, stored: &StoredRun, audience: Audience) -> Result<RunView, Failure> {
        let sweep = results(context, stored)?;
        let cases: Vec<Case> = stored.dir.records(CASES)?;
        let sockets = socket_comparison::load(&stored.dir)?;
        let kept = behavior_log::stored(&stored.dir)?;
        let report = SweepReport {
            run: &stored.run,
            sweep: &sweep,
            cases: &cases,
            sockets: sockets.as_ref().map(|comparison| comparison.view()),
        };
        let head = Head { audience, summary: self.summarize(&stored.run) };
        Ok(SweepView::of(&report, head, &|fingerprint| kept.contains(&fingerprint)))
    }

    fn cases(&self, context: &Context, stored: &StoredRun, space: usize) -> Result<CaseColumns, Failure> {
        let sweep = results(context, stored)?;
        let cases: Vec<Case> = stored.dir.records(CASES)?;
        let report = SweepReport { run: &stored.run, sweep: &sweep, cases: &cases, sockets: None };
        SweepView::cases(&report, space).ok_or_else(|| {
            let count = sweep.spaces.len();
            Failure::request(format!("there is no space {space}: this sweep has {count}, from 0"))
        })
    }

    fn report(&self, context: &Context, stored: &StoredRun, names: Names) -> Result<String, Failure> {
        let sweep = results(context, stored)?;
        let cases: Vec<Case> = stored.dir.records(CASES)?;
        let sockets = socket_comparison::load(&stored.dir)?;
        let page = match names {
            Names::Redacted => sweep_html,
            Names::Complete => sweep_html_unredacted,
        };
        Ok(page(&SweepReport {
            run: &stored.run,
            sweep: &sweep,
            cases: &cases,
            sockets: sockets.as_ref().map(|comparison| comparison.view()),
        }))
    }

    fn progress_file(&self) -> Option<ProgressFile> {
        Some(ProgressFile { name: CASES, failed: r#""verdict":"fail""# })
    }

    fn has_traces(&self) -> bool {
        true
    }

    fn traces(&self, context: &Context, stored: &StoredRun, selection: Selection) -> Result<Traces, Failure> {
        let sweep = results(context, stored)?;
        match selection {
            Selection::Main | Selection::Request(1) => Ok(Traces { traces: vec![sweep.good], faults: Vec::new() }),
            Selection::All => {
                let of_bugs = sweep.bugs.into_iter().map(|bug| bug.trace);
                Ok(Traces { traces: std::iter::once(sweep.good).chain(of_bugs).collect(), faults: Vec::new() })
            }
            Selection::Request(number) => Err(Failure::request(format!(
                "there is no request {number}: a sweep stores the request without faults, and one per behavior"
            ))),
            Selection::Behavior(fingerprint) => {
                let found = behavior_log::find(&stored.dir, fingerprint)?;
                found.map(|one| Traces { traces: vec![one.trace], faults: one.faults }).ok_or_else(|| {
                    Failure::request(format!("no request with the behavior {fingerprint:016x} is stored"))
                        .why("the sweep is from an earlier version, or it has more behaviors than are stored")
                })
            }
            Selection::Bug(number) => {
                let count = sweep.bugs.len();
                let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
                let bug = index.and_then(|index| sweep.bugs.into_iter().nth(index));
                bug.map(|bug| Traces { traces: vec![bug.trace], faults: bug.faults }).ok_or_else(|| {
                    Failure::request(format!("there is no bug {number}: this sweep found {count}")).next(format!(
                        "{} {} lists them",
                        context.command("show"),
                        stored.run.id.short()
                    ))
                })
            }
        }
    }
}
