//! Derives the state of each service of a target, and the next step, from the collected evidence.

use crate::Context;
use crate::status_files::Status;
use model::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use target::{Health, Sdk, Service};

pub struct Diagnosis {
    pub service: String,
    pub state: State,
    pub why: String,
    pub next: Option<String>,
    pub statuses: Vec<Status>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Instrumented, with the keys of this target.
    Answers,
    /// Instrumented and has keys, but no request reached its handlers.
    Ready,
    /// Not instrumented, and not meant to be.
    Left,
    /// Meant to be instrumented.
    Gap,
    Unhealthy,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            State::Answers => "answers",
            State::Ready => "ready",
            State::Left | State::Gap => "gap",
            State::Unhealthy => "unhealthy",
        }
    }

    pub fn is_ok(self) -> bool {
        !matches!(self, State::Gap | State::Unhealthy)
    }
}

/// What was observed of all services.
#[derive(Default)]
pub struct Evidence {
    /// Service → why it cannot be contacted.
    pub unhealthy: BTreeMap<String, Failure>,
    /// Services that returned a history.
    pub answered: BTreeSet<String>,
    /// Services that answered 404 or UNIMPLEMENTED without a history, as servers do before the application's handlers.
    pub unrouted: BTreeSet<String>,
    /// Services with a scope in the recorded request.
    pub recorded: BTreeSet<String>,
    pub statuses: Vec<Status>,
    /// Attached service → the trust file that its process was started with.
    pub trust: BTreeMap<String, Option<PathBuf>>,
}

/// `ours`: the trust file of the target.
pub fn diagnose(context: &Context, service: &Service, evidence: &Evidence, ours: Option<&PathBuf>) -> Diagnosis {
    let name = &service.name;
    let statuses: Vec<Status> = evidence.statuses.iter().filter(|status| status.service == *name).cloned().collect();
    let diagnosis = |state: State, why: String, next: Option<String>| Diagnosis {
        service: name.clone(),
        state,
        why,
        next,
        statuses: statuses.clone(),
    };
    if let Some(failure) = evidence.unhealthy.get(name) {
        let why = failure.why.as_ref().map_or(failure.what.clone(), |why| format!("{}\n{why}", failure.what));
        return diagnosis(State::Unhealthy, why, failure.next.clone());
    }
    let refused: Vec<String> = statuses
        .iter()
        .flat_map(Status::refused)
        .map(|library| format!("{} {} refused: {}", library.name, library.version, library.reason))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    if evidence.recorded.contains(name) || evidence.answered.contains(name) {
        let how = match (evidence.recorded.contains(name), evidence.answered.contains(name)) {
            (true, _) => "found in the recorded request",
            (false, _) => "answered with a history",
        };
        let why = [vec![how.to_owned()], refused].concat().join("; ");
        return diagnosis(State::Answers, why, None);
    }
    let install = || {
        let sdk = if service.sdk == Sdk::None { "LANGUAGE" } else { service.sdk.name() };
        format!("{} {sdk} --service {name}", context.command("env"))
    };
    if service.sdk == Sdk::None && statuses.is_empty() {
        let why = if service.support { "sdk: none, support" } else { "sdk: none; faults at its callers still work" };
        return diagnosis(State::Left, why.to_owned(), None);
    }
    if let Some(inactive) = statuses.iter().find(|status| !status.has_keys()) {
        return diagnosis(State::Gap, format!("its SDK is inactive: {}", inactive.trust), Some(install()));
    }
    if let (Some(Some(theirs)), Some(ours)) = (evidence.trust.get(name), ours)
        && theirs.canonicalize().ok() != ours.canonicalize().ok()
    {
        let why = format!("it has the keys of another environment: {}", theirs.display());
        return diagnosis(State::Gap, why, Some(format!("start it with FAULTLOOM_TRUST_FILE={}", ours.display())));
    }
    if statuses.is_empty() {
        return match (service.sdk, evidence.trust.get(name)) {
            (_, Some(None)) => diagnosis(State::Gap, "it was started without trust settings".into(), Some(install())),
            (Sdk::Go, _) => {
                let next = "build it with `faultloom go build` in place of `go build`, and start it again";
                diagnosis(State::Gap, "no SDK in it: built without the wrapper".into(), Some(next.into()))
            }
            _ => diagnosis(State::Gap, "no SDK in it: its process did not load one".into(), Some(install())),
        };
    }
    if !refused.is_empty() {
        let next = "docs/support.md lists the supported versions";
        return diagnosis(State::Gap, refused.join("; "), Some(next.into()));
    }
    if statuses.iter().all(|status| status.libraries.is_empty()) {
        let next = "hooks cannot find libraries in a bundle: exclude them from it, or use the one-line import";
        return diagnosis(
            State::Gap,
            "its SDK is loaded and has keys, but hooked no library".into(),
            Some(next.into()),
        );
    }
    if service.health == Health::Alive && service.listens.is_empty() {
        return diagnosis(
            State::Answers,
            "its SDK is loaded and has keys; it has no address to send a request to".into(),
            None,
        );
    }
    if evidence.unrouted.contains(name) {
        let why = "its SDK is loaded and has keys; the test path has no handler";
        let next = format!("{} URL, with a request that it handles", context.command("record"));
        return diagnosis(State::Ready, why.into(), Some(next));
    }
    let next = "check for a proxy in between or an unsupported server library: docs/support.md";
    diagnosis(State::Gap, "its SDK is loaded and has keys, but its reply has no history".into(), Some(next.into()))
}
