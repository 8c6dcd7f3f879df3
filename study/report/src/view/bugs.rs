//! The findings of a sweep in words. Their requests are compared with the good one on demand.

use super::Audience;
use model::sweep::{Bug, Harm, Unexplained};
use schemars::JsonSchema;
use serde::Serialize;

/// A bug, or a call that the request needs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BugView {
    /// From 1, in the order of harm, as commands name it.
    pub number: u32,
    /// By the taxonomy of 3MileBeach: `SimpleTFI`.
    pub name: String,
    pub title: String,
    pub mistake: String,
    /// `state-changed`, `crash`, `wrong-content`, `avoidable`, `hard-dependency`; none in old runs.
    #[schemars(with = "Option<String>")]
    pub harm: Option<Harm>,
    /// The harm in words.
    pub harm_text: String,
    /// The smallest set of faults that shows it, in the notation of `--fault`.
    pub faults: Vec<String>,
    /// What happened, one sentence a step.
    pub story: Vec<String>,
    /// Which condition the reply violated, and how.
    pub violation: String,
    /// The result of repeating it with real stops of services; empty if that was not wanted.
    pub real_stop: String,
    pub failed_caller: String,
    pub failed_callee: String,
    pub failed_call: String,
    /// The last lines of the log of the service that crashed.
    pub log: Vec<String>,
    /// Where the whole log is.
    pub log_path: Option<String>,
    pub failing_cases: u64,
    pub spaces: Vec<String>,
    /// The command that shows it again.
    pub again: String,
}

impl BugView {
    pub(super) fn of(index: usize, bug: &Bug, audience: Audience) -> BugView {
        BugView {
            number: index as u32 + 1,
            name: bug.name.clone(),
            title: bug.title.clone(),
            mistake: bug.mistake.clone(),
            harm: bug.harm,
            harm_text: bug.harm.map_or("", Harm::describe).to_owned(),
            faults: bug.faults.iter().map(ToString::to_string).collect(),
            story: bug.story.clone(),
            violation: audience.reason(&bug.violation).into_owned(),
            real_stop: bug.real_stop.as_ref().map_or(String::new(), |real| audience.real_stop(real)),
            failed_caller: bug.failed.caller.clone(),
            failed_callee: bug.failed.callee.clone(),
            failed_call: bug.failed.call.clone(),
            log: bug.log.as_ref().map_or(Vec::new(), |log| log.lines.clone()),
            log_path: bug.log.as_ref().and_then(|log| log.path.clone()),
            failing_cases: bug.failing_cases,
            spaces: bug.spaces.clone(),
            again: audience.command(&bug.again).into_owned(),
        }
    }
}

/// Failing cases that belong to no bug.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct UnexplainedView {
    pub reason: String,
    pub faults: Vec<String>,
    pub again: String,
    pub failing_cases: u64,
    pub spaces: Vec<String>,
}

impl UnexplainedView {
    pub(super) fn of(one: &Unexplained, audience: Audience) -> UnexplainedView {
        UnexplainedView {
            reason: audience.reason(&one.reason).into_owned(),
            faults: one.faults.iter().map(ToString::to_string).collect(),
            again: audience.command(&one.again).into_owned(),
            failing_cases: one.failing_cases,
            spaces: one.spaces.clone(),
        }
    }
}
