//! Runs whole spaces of faults for one request, and reduces the failures to bugs.

use super::spec::{ResumeSpec, StoredSpec, SweepSpec};
use super::{NAME, RESULTS, again, junit};
use crate::checks::{check_good, check_not_refused};
use crate::event::Progress;
use crate::history::write_report;
use crate::kind::{Names, StoredRun};
use crate::request::{begin, no_history};
use crate::target_session::TargetSession;
use crate::text::{grouped, plural};
use crate::{Context, Event};
use explore::bugs::Findings;
use explore::runner::{SpacePlan, cases_of};
use explore::{SpaceRun, Sweeper};
use model::sweep::{Bug, Case, Site, Space, Sweep};
use model::trace::Trace;
use model::{Failure, Family, FaultKind, Run, RunId, Verdict};
use request_faults::SpaceKind;
use request_faults::space::{Effect, around_deadline, sites, state_changes};
use runs::{RunDir, Store};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The first requests after a start are slow: their connections are new.
const WARM_UP_REQUESTS: usize = 3;
/// How long cases are started that may wait for a deadline, per space.
const WAITING_MAX: Duration = Duration::from_secs(60);
/// The trace that the spaces follow from.
const REFERENCE: &str = "good.json";

/// A finished sweep.
pub struct Swept {
    pub run: Run,
    pub verdict: Verdict,
    pub results: Sweep,
    pub report: PathBuf,
    /// Services that crashed and were restarted, one entry per crash.
    pub crashed: Vec<String>,
}

/// Runs the spaces of `spec`. Every case is stored as it ends; a canceled sweep can be resumed. A sweep that is refused
/// before its first case leaves no run behind.
///
/// # Errors
/// Request for a wrong spec, environment if the target fails, unknown if the request fails without faults, aborted if
/// canceled.
pub async fn sweep(context: &Context, spec: &SweepSpec) -> Result<Swept, Failure> {
    spec.check()?;
    if let Some(path) = &spec.junit {
        junit::check_writable(path)?;
    }
    let store = context.store().await?;
    let session = TargetSession::open(context).await?;
    let result = async {
        let mut stored = spec.resolve(context, &session)?;
        begin(context, &mut stored.request).await?;
        let id = RunId::create();
        let sweeper = sweeper(context, &session, &stored, id, spec.concurrency)?;
        let good = reference(context, &sweeper).await?;
        check_sizes(&stored, &good)?;
        let title = format!("{} {}", stored.request.name(), stored.request.authority);
        let value = serde_json::to_value(&stored).map_err(|e| Failure::new(Family::Bug, e.to_string()))?;
        let (run, dir) = store.begin_as(id, NAME, &title, value, 0).await?;
        dir.write_json(REFERENCE, &good)?;
        run_spaces(context, &sweeper, &store, StoredRun { run, dir }, &stored, good).await
    }
    .await;
    session.close().await?;
    result
}

/// Resumes an interrupted sweep with its original options, except those that `spec` and `context` replace.
pub async fn resume(context: &Context, spec: &ResumeSpec) -> Result<Swept, Failure> {
    let store = context.store().await?;
    let (run, mut stored) = stored_sweep(context, &store, &spec.run).await?;
    stored.junit = spec.junit.clone().or(stored.junit);
    if let Some(path) = &stored.junit {
        junit::check_writable(path)?;
    }
    let concurrency = spec.concurrency.or(stored.concurrency).unwrap_or_else(|| {
        context.step("an earlier version began this sweep and did not store -c: one request at a time; -c replaces it");
        1
    });
    let mut original = context.clone();
    original.target = context.target.clone().or_else(|| stored.target.clone());
    original.trust = context.trust.clone().or_else(|| stored.trust.clone());
    let session = TargetSession::open(&original).await?;
    let result = async {
        begin(context, &mut stored.request).await?;
        let sweeper = sweeper(context, &session, &stored, run.run.id, concurrency)?;
        let good = stored_reference(reference(context, &sweeper).await?, &run.dir)?;
        check_sizes(&stored, &good)?;
        run_spaces(context, &sweeper, &store, run, &stored, good).await
    }
    .await;
    session.close().await?;
    result
}

async fn stored_sweep(context: &Context, store: &Store, text: &str) -> Result<(StoredRun, StoredSpec), Failure> {
    let run = store.find(text).await?;
    let id = run.id.short();
    if run.kind != NAME {
        return Err(Failure::request(format!("run {id} is not a sweep")));
    }
    if run.verdict.is_some() {
        return Err(Failure::request(format!("run {id} is finished")).next(format!("{} {id}", context.command("show"))));
    }
    let spec = serde_json::from_value(run.spec.clone())
        .map_err(|e| Failure::environment(format!("run {id} cannot be resumed: {e}")))?;
    let dir = store.dir(run.id).lock()?;
    Ok((StoredRun { run, dir }, spec))
}

fn sweeper(
    context: &Context,
    session: &TargetSession,
    spec: &StoredSpec,
    run: RunId,
    concurrency: u16,
) -> Result<Sweeper, Failure> {
    let oracle = spec.expect.oracle(context)?;
    let shares_state = oracle.checks().shares_state(&spec.request);
    if shares_state && concurrency > 1 {
        context.step(
            "one request at a time, because all cases share the state that is queried after each of them; \
             {case} in the request and in the query gives each case its own",
        );
    }
    Ok(Sweeper {
        credentials: session.credentials().clone(),
        run: *run.0.as_bytes(),
        spec: spec.request.clone(),
        concurrency: if shares_state { 1 } else { concurrency.into() },
        recovery: Arc::new(session.recovery().with_oracle(&oracle)),
        oracle,
        stop: context.cancel.flag(),
    })
}

/// Refuses a space that is too large before the first case is sent: after a resume it would be as large.
fn check_sizes(spec: &StoredSpec, good: &Trace) -> Result<(), Failure> {
    for effect in &spec.effects {
        for kind in &spec.spaces {
            cases_of(*kind, sites(*kind, good, &spec.services, *effect).len())?;
        }
    }
    Ok(())
}

async fn run_spaces(
    context: &Context,
    sweeper: &Sweeper,
    store: &Store,
    stored: StoredRun,
    spec: &StoredSpec,
    good: Trace,
) -> Result<Swept, Failure> {
    let StoredRun { run, dir } = &stored;
    context.emit(Event::Started { run: run.id, kind: run.kind.clone() });
    tracing::info!(run = %run.id, request = spec.request.url(), concurrency = sweeper.concurrency, "sweep");
    let resume = format!("{} --resume {}", context.command("sweep"), run.id.short());
    let spaces = match all_spaces(context, sweeper, spec, &good, dir).await {
        Ok(spaces) => spaces,
        // a resume repeats only what may succeed then
        Err(failure) if matches!(failure.family, Family::Environment | Family::Aborted) => {
            let first = failure.next.clone().map_or(String::new(), |next| format!("{next}\n        then "));
            return Err(failure.next(format!("{first}continue with {resume}; the finished cases are stored")));
        }
        Err(failure) => return Err(failure),
    };
    if spaces.iter().any(|space| !space.finished) {
        return Err(Failure::new(Family::Aborted, "the sweep was stopped; the finished cases are stored").next(resume));
    }
    let on_bug = |done, total| {
        let detail = "repeating the simplest failure of each cause".to_owned();
        context.progress(Progress::Counts { name: "bugs".to_owned(), done, total, may_grow: false, detail });
    };
    let found = explore::bugs::find(sweeper, &good, &spaces, &spec.record, on_bug).await;
    let Findings { mut bugs, unexplained } = found.map_err(|failure| match failure.family {
        Family::Aborted => failure.next(resume.clone()),
        _ => failure,
    })?;
    if spec.confirm_real {
        let confirmed = confirm_real(context, sweeper, &mut bugs).await;
        confirmed.map_err(|failure| if failure.family == Family::Aborted { failure.next(resume) } else { failure })?;
    }
    for bug in &bugs {
        context.emit(Event::Finding { title: bug.title.clone(), detail: bug.story.clone() });
    }
    let mut results = Sweep {
        request: format!("{} {}", spec.request.method, spec.request.url()),
        oracle: sweeper.oracle.describe(good.entry.protocol),
        good,
        spaces: spaces.iter().map(|run| run.space.clone()).collect(),
        bugs,
        unexplained,
        repeated: spaces.iter().map(|run| run.repeated).sum(),
    };
    again::without_secrets(context, dir, spec, &mut results)?;
    finish(context, store, stored, results, spaces, spec.junit.as_deref()).await
}

/// Repeats each bug with real stops.
async fn confirm_real(context: &Context, sweeper: &Sweeper, bugs: &mut [Bug]) -> Result<(), Failure> {
    let total = bugs.len() as u64;
    for (index, bug) in bugs.iter_mut().enumerate() {
        if context.cancel.is_canceled() {
            return Err(Failure::new(Family::Aborted, "the sweep was stopped while its bugs were being confirmed"));
        }
        let detail = "repeating each bug with real stops".to_owned();
        let (name, done) = ("real stops".to_owned(), index as u64);
        context.progress(Progress::Counts { name, done, total, may_grow: false, detail });
        bug.real_stop = Some(explore::confirm::confirm(sweeper, bug).await?);
    }
    Ok(())
}

/// Stores the results, the report and the JUnit file.
async fn finish(
    context: &Context,
    store: &Store,
    mut stored: StoredRun,
    results: Sweep,
    spaces: Vec<SpaceRun>,
    junit_file: Option<&Path>,
) -> Result<Swept, Failure> {
    stored.dir.write_json(RESULTS, &results)?;
    let crashed: Vec<String> = spaces.iter().flat_map(|run| run.crashed.clone()).collect();
    let sum = |of: fn(&Space) -> u64| results.spaces.iter().map(of).sum::<u64>();
    let verdict = match (sum(|s| s.failures), sum(|s| s.unknown)) {
        (0, 0) => Verdict::Pass,
        (0, _) => Verdict::Unknown,
        _ => Verdict::Fail,
    };
    let hard_dependencies = results.bugs.iter().filter(|bug| bug.is_hard_dependency()).count();
    let summary = json!({
        "cases": sum(|s| s.cases), "failures": sum(|s| s.failures), "unknown": sum(|s| s.unknown),
        "bugs": results.bugs.len() - hard_dependencies, "hard_dependencies": hard_dependencies, "repeated": results.repeated, "crashed": crashed,
    });
    store.finish(&mut stored.run, verdict, summary).await?;
    let report = write_report(context, &stored, None, Names::Redacted)?;
    if let Some(path) = junit_file {
        let cases: Vec<Case> = spaces.into_iter().flat_map(|run| run.cases).collect();
        junit::write(path, &results, &cases)?;
    }
    let run = stored.run;
    context.emit(Event::Done { run: run.id, kind: run.kind.clone(), verdict });
    Ok(Swept { run, verdict, results, report, crashed })
}

/// The request without faults. It must pass and return its history, because the spaces follow from its calls.
async fn reference(context: &Context, sweeper: &Sweeper) -> Result<Trace, Failure> {
    let mut sender = sweeper.sender();
    let mut last = None;
    // a request that changes state is sent once: after an order, for example, the cart is empty
    let repeatable = sweeper.spec.is_repeatable();
    if !repeatable {
        context.step(format!(
            "{} may change state, and every case sends it again; --before and {{case}} give each case the same state",
            sweeper.spec.method
        ));
    }
    for _ in 0..if repeatable { WARM_UP_REQUESTS } else { 1 } {
        last = Some(sweeper.recovery.send(&mut sender, &sweeper.spec, &[]).await?.reply);
    }
    let Some(reply) = last else { unreachable!("at least one request was sent") };
    if reply.trace.entry.scope.is_none() {
        return Err(no_history(context, &sweeper.spec, &reply));
    }
    if let Some(reason) = sweeper.oracle.violation(&reply) {
        let failure = Failure::unknown(format!("the request fails without any fault: {reason}"));
        return Err(if reason.starts_with("status ") {
            failure
                .next("fix that first, or name the accepted status codes (--expect-status)")
                .field("expect.expect_status")
        } else {
            failure.next("fix that first, or correct the condition")
        });
    }
    check_not_refused(&sweeper.oracle, &sweeper.spec, &reply)?;
    if reply.trace.walk().is_empty() {
        return Err(Failure::unknown("the request makes no call that could be faulted")
            .why("its service calls no other service, or calls it through a library that the SDK does not hook")
            .next(context.command("doctor")));
    }
    check_good(&sweeper.oracle, &mut sender, &sweeper.spec, &reply).await?;
    sweeper.oracle.checks().set_good(&reply.trace);
    context.progress(Progress::Reference {
        request: sweeper.spec.name(),
        calls: reply.trace.walk().len() as u64,
        services: reply.trace.services().len() as u64,
        gaps: reply.trace.gaps() as u64,
    });
    Ok(reply.trace)
}

/// The reference trace of the sweep's first start. If the request behaves differently after a resume, old and new cases
/// would not belong to one space.
fn stored_reference(now: Trace, dir: &RunDir) -> Result<Trace, Failure> {
    if !dir.file(REFERENCE).exists() {
        // it was killed before its first case
        dir.write_json(REFERENCE, &now)?;
        return Ok(now);
    }
    let first: Trace = dir.read_json(REFERENCE)?;
    if explore::fingerprint::of(&first) == explore::fingerprint::of(&now) {
        return Ok(first);
    }
    Err(Failure::unknown("the request behaves differently than when this sweep began")
        .why(format!(
            "it made {} calls then and makes {} now, or with other outcomes",
            first.walk().len(),
            now.walk().len()
        ))
        .next("restore the target's state, or begin a new sweep"))
}

/// Stops after the first unfinished space.
async fn all_spaces(
    context: &Context,
    sweeper: &Sweeper,
    spec: &StoredSpec,
    good: &Trace,
    dir: &RunDir,
) -> Result<Vec<SpaceRun>, Failure> {
    let mut runs = Vec::new();
    for effect in &spec.effects {
        for kind in &spec.spaces {
            let run = one_space(context, sweeper, spec, good, dir, (*kind, *effect), runs.len()).await?;
            if !add(context, &mut runs, run) {
                return Ok(runs);
            }
        }
    }
    let calls = SpaceKind::Calls;
    for kind in spec.by_request.iter().copied() {
        let effect = Effect { kind, arg: 0 };
        let sites = match kind {
            FaultKind::LostReply => state_changes(good, effect),
            FaultKind::Delay => deadlines(&runs),
            _ => sites(calls, good, &[], effect),
        };
        if sites.is_empty() {
            continue;
        }
        let time_max = matches!(kind, FaultKind::Hang | FaultKind::Delay).then_some(WAITING_MAX);
        let plan = SpacePlan { index: runs.len(), kind: calls, name: space_name(calls, effect), sites, time_max };
        let run = sweeper.sweep(plan, good, dir, |p| report(context, p)).await?;
        if !add(context, &mut runs, run) {
            return Ok(runs);
        }
    }
    Ok(runs)
}

/// Delays around the deadlines that callers used when their calls hung.
fn deadlines(runs: &[SpaceRun]) -> Vec<Site> {
    let cases = runs.iter().flat_map(|run| run.cases.iter().map(move |case| (run, case)));
    let observed = cases.filter_map(|(run, case)| match (case.deadline_us, case.fired.as_slice()) {
        (Some(deadline_us), [site]) => Some(around_deadline(&run.space.sites[*site as usize], deadline_us)),
        _ => None,
    });
    observed.flatten().collect()
}

/// Adds a space that was run. Returns whether it was finished.
fn add(context: &Context, runs: &mut Vec<SpaceRun>, run: SpaceRun) -> bool {
    let finished = run.finished;
    if finished {
        context.progress(Progress::SpaceFinished { space: run.space.clone(), stored: run.stored });
        crashes(&run).into_iter().for_each(|line| context.step(line));
        if run.left_out > 0 {
            let (ran, more) = (plural(run.space.cases, "case"), plural(run.left_out, "more case"));
            context.warn(format!("{} ended after {ran}, its limit; {more} were not run", run.space.name));
        }
    }
    runs.push(run);
    finished
}

fn report(context: &Context, p: explore::Progress) {
    let waiting = if p.in_flight > 0 { format!(", {} in flight", p.in_flight) } else { String::new() };
    context.progress(Progress::Counts {
        name: p.space,
        done: p.done,
        total: p.total,
        may_grow: p.may_grow,
        detail: format!("{}{waiting}", plural(p.failures, "failure")),
    });
}

async fn one_space(
    context: &Context,
    sweeper: &Sweeper,
    spec: &StoredSpec,
    good: &Trace,
    dir: &RunDir,
    (kind, effect): (SpaceKind, Effect),
    index: usize,
) -> Result<SpaceRun, Failure> {
    let name = space_name(kind, effect);
    let report = |p: explore::Progress| report(context, p);
    if kind != SpaceKind::Guided {
        let plan = SpacePlan { index, kind, name, sites: sites(kind, good, &spec.services, effect), time_max: None };
        return sweeper.sweep(plan, good, dir, report).await;
    }
    sweeper.guided(index, name, effect, good, dir, report).await
}

/// The space, and the kind of fault unless it is the usual one.
fn space_name(kind: SpaceKind, effect: Effect) -> String {
    let name = kind.as_str();
    match effect {
        Effect { kind: FaultKind::Unavailable, arg: 0 } => name.to_owned(),
        Effect { kind, arg: 0 } => format!("{name} {}", kind.as_str()),
        Effect { kind, arg } => format!("{name} {} {arg}", kind.as_str()),
    }
}

/// Which services crashed while a space ran, and whether the injected faults caused it.
fn crashes(run: &SpaceRun) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let names: std::collections::BTreeSet<&String> = run.crashed.iter().collect();
    for name in names {
        let reason = explore::assess::crash_reason(std::slice::from_ref(name));
        let by_fault = run.cases.iter().filter(|case| case.reason.as_deref() == Some(&reason)).count() as u64;
        lines.push(match by_fault {
            0 => format!("{name} crashed on its own and was restarted; the case was run again"),
            1 => format!("{name} crashed after the fault in 1 case, every time it was injected"),
            cases => format!("{name} crashed after the fault in {} cases, every time it was injected", grouped(cases)),
        });
    }
    lines
}
