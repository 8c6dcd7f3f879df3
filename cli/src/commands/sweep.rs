//! `faultloom sweep`: run whole spaces of faults, and tell the bugs.

use crate::args::Sweep as Args;
use crate::commands::record::no_history;
use crate::context::{self, Context};
use crate::render::bugs;
use crate::render::progress::Meter;
use crate::sweep_spec::{self, SweepSpec};
use app::junit;
use app::target_session::TargetSession;
use app::text::{grouped, plural, seconds};
use explore::runner::SpacePlan;
use explore::{SpaceRun, Sweeper};
use model::sweep::{Case, Sweep};
use model::trace::Trace;
use model::{Exit, Failure, FaultKind, Run, RunKind, Verdict};
use request_faults::SpaceKind;
use request_faults::space::{Effect, sites};
use runs::RunDir;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The entry service may just have been started: the first request after a start meets cold connections.
const WARM_UP_REQUESTS: usize = 3;

pub async fn sweep(context: &Context, args: &Args) -> Result<Exit, Failure> {
    // what is wrong with the request is said before anything is started for it
    context::oracle(&args.expect)?;
    sweep_spec::asked(args)?;
    if args.request.url.is_some() {
        context::request(&args.request, None)?;
    }
    if let Some(path) = &args.junit {
        junit::is_writable(path)?;
    }
    let store = context.store().await?;
    let resumed = match &args.resume {
        Some(text) => Some(resume(&store, text).await?),
        None => None,
    };
    let session = TargetSession::open(context).await?;
    let result = with_stage(context, args, &session, store, resumed).await;
    session.close().await?;
    result
}

async fn with_stage(
    context: &Context,
    args: &Args,
    session: &TargetSession,
    store: runs::Store,
    resumed: Option<(Run, RunDir, SweepSpec)>,
) -> Result<Exit, Failure> {
    let stop = stop_on_interrupt();
    let (mut run, dir, spec) = match resumed {
        Some(resumed) => resumed,
        None => {
            let spec = sweep_spec::plan(context, args, session)?;
            let title = format!("{} {}", spec.request.name(), spec.request.authority);
            let (run, dir) = store
                .begin(
                    RunKind::Sweep,
                    &title,
                    serde_json::to_value(&spec).map_err(|e| Failure::unknown(e.to_string()))?,
                    0,
                )
                .await?;
            (run, dir, spec)
        }
    };
    let sweeper = Sweeper {
        credentials: session.credentials().clone(),
        run: *run.id.0.as_bytes(),
        spec: spec.request.clone(),
        oracle: context::oracle(&spec.expect)?,
        concurrency: args.concurrency.into(),
        recovery: Arc::new(session.recovery()),
        stop,
    };
    let go_on = format!("{} --resume {}", context.command("sweep"), run.id.short());
    let good = kept_good_run(good_run(context, &sweeper).await?, &dir)?;
    let runs = match spaces(context, &sweeper, &spec, &good, &dir).await {
        Ok(runs) => runs,
        Err(failure) => {
            let first = failure.next.clone().map_or(String::new(), |next| format!("{next}\n        then "));
            return Err(failure.next(format!("{first}go on with {go_on}; what was run is kept")));
        }
    };
    if runs.iter().any(|r| !r.finished) {
        return Err(Failure::new(model::Family::Aborted, "the sweep was stopped; what was run is kept").next(go_on));
    }
    let found =
        explore::bugs::find(&sweeper, &good, &runs, &spec.record).await.map_err(|failure| match failure.family {
            model::Family::Aborted => failure.next(go_on),
            _ => failure,
        })?;
    let repeated = runs.iter().map(|r| r.repeated).sum();
    let crashed: Vec<String> = runs.iter().flat_map(|r| r.crashed.clone()).collect();
    let protocol = good.entry.protocol;
    let sweep = Sweep {
        request: format!("{} {}", spec.request.method, spec.request.url()),
        oracle: sweeper.oracle.describe(protocol),
        good,
        spaces: runs.iter().map(|r| r.space.clone()).collect(),
        bugs: found,
        repeated,
    };
    finish(context, args, &store, &mut run, &dir, sweep, runs, crashed).await
}

async fn resume(store: &runs::Store, text: &str) -> Result<(Run, RunDir, SweepSpec), Failure> {
    let run = store.find(text).await?;
    if run.kind != RunKind::Sweep {
        return Err(Failure::request(format!("run {} is no sweep", run.id.short())));
    }
    if run.verdict.is_some() {
        return Err(Failure::request(format!("run {} is finished", run.id.short()))
            .next(format!("faultloom show {}", run.id.short())));
    }
    let spec = serde_json::from_value(run.spec.clone())
        .map_err(|e| Failure::environment(format!("run {} cannot be resumed: {e}", run.id.short())))?;
    let dir = store.dir(run.id).lock()?;
    Ok((run, dir, spec))
}

/// The request as it should be. It must pass, and bring its history: a space follows from it.
async fn good_run(context: &Context, sweeper: &Sweeper) -> Result<Trace, Failure> {
    let mut sender = sweeper.sender();
    let mut last = None;
    // what cannot be repeated is sent once: an order that is warmed up finds an empty cart afterwards
    let repeatable = sweeper.spec.is_repeatable();
    if !repeatable {
        context.say(format!(
            "   {} may leave something behind, and every case sends it again; --before and {{case}} make each find the same",
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
        return Err(Failure::unknown(format!("the request fails without any fault: {reason}"))
            .next("mend that first, or say with --expect-status what is right"));
    }
    if let (Some(status @ 400..), false, requests::Transport::Http) =
        (reply.status(), sweeper.oracle.has_expected_statuses(), sweeper.spec.transport)
    {
        return Err(Failure::unknown(format!("the request is refused without any fault: status {status}"))
            .why("a sweep of a request that is not served finds nothing")
            .next("mend the request, or say with --expect-status that this is right"));
    }
    if reply.trace.walk().is_empty() {
        return Err(Failure::unknown("the request makes no call that could be faulted")
            .why("its service calls nobody, or calls by means the SDK does not follow")
            .next(context.command("doctor")));
    }
    let gaps = reply.trace.gaps();
    context.say(format!(
        "   {}: {}, {}, {}",
        sweeper.spec.name(),
        plural(reply.trace.walk().len() as u64, "call"),
        plural(reply.trace.services().len() as u64, "service"),
        if gaps == 0 { "no gaps".to_owned() } else { plural(gaps as u64, "gap") }
    ));
    Ok(reply.trace)
}

/// The good run that the spaces follow from: the first one, also after a resume. If the request does something else by now, the cases of
/// before and those to come would not be of one space.
fn kept_good_run(now: Trace, dir: &RunDir) -> Result<Trace, Failure> {
    if !dir.file("good.json").exists() {
        dir.write_json("good.json", &now)?;
        return Ok(now);
    }
    let first: Trace = dir.read_json("good.json")?;
    if explore::fingerprint::of(&first) == explore::fingerprint::of(&now) {
        return Ok(first);
    }
    Err(Failure::unknown("the request does something else than when this sweep began")
        .why(format!(
            "it made {} calls then and makes {} now, or with other outcomes",
            first.walk().len(),
            now.walk().len()
        ))
        .next("bring the target back to where it was, or begin a new sweep"))
}

async fn spaces(
    context: &Context,
    sweeper: &Sweeper,
    spec: &SweepSpec,
    good: &Trace,
    dir: &RunDir,
) -> Result<Vec<SpaceRun>, Failure> {
    let mut runs = Vec::new();
    let quiet = context.common.quiet || context.common.json;
    for effect in &spec.effects {
        for kind in &spec.spaces {
            let mut name = kind.as_str().to_owned();
            if *effect != (Effect { kind: FaultKind::Unavailable, arg: 0 }) {
                name = format!(
                    "{name} {}{}",
                    effect.kind.as_str(),
                    if effect.arg == 0 { String::new() } else { format!(" {}", effect.arg) }
                );
            }
            let mut meter = Meter::new(quiet);
            let index = runs.len();
            let run = match kind {
                SpaceKind::Guided => sweeper.guided(index, name, *effect, good, dir, |p| meter.update(&p)).await?,
                _ => {
                    let sites = sites(*kind, good, &spec.services, *effect);
                    let plan = SpacePlan { index, kind: *kind, name, sites };
                    sweeper.sweep(plan, good, dir, |p| meter.update(&p)).await?
                }
            };
            meter.clear();
            if !run.finished {
                runs.push(run);
                return Ok(runs);
            }
            let s = &run.space;
            let unknown = if s.unknown > 0 { format!("   {} unknown", grouped(s.unknown)) } else { String::new() };
            context.say(format!(
                " ✓ {:<14} {:>6} of {:<6}  {:>13}   {:>3} behaviors{unknown}   {}  ({}/s)",
                s.name,
                grouped(s.cases),
                grouped(s.cases),
                plural(s.failures, "failure"),
                s.behaviors,
                seconds(s.seconds),
                grouped((s.cases as f64 / s.seconds.max(0.001)) as u64)
            ));
            for line in crashes(&run) {
                context.say(line);
            }
            runs.push(run);
        }
    }
    Ok(runs)
}

#[allow(clippy::too_many_arguments)] // the end of the command, where everything comes together
async fn finish(
    context: &Context,
    args: &Args,
    store: &runs::Store,
    run: &mut Run,
    dir: &RunDir,
    sweep: Sweep,
    runs: Vec<SpaceRun>,
    crashed: Vec<String>,
) -> Result<Exit, Failure> {
    dir.write_json("sweep.json", &sweep)?;
    let sum = |of: fn(&model::sweep::Space) -> u64| sweep.spaces.iter().map(of).sum::<u64>();
    let verdict = match (sum(|s| s.failures), sum(|s| s.unknown)) {
        (0, 0) => Verdict::Pass,
        (0, _) => Verdict::Unknown,
        _ => Verdict::Fail,
    };
    let summary = json!({"cases": sum(|s| s.cases), "failures": sum(|s| s.failures), "unknown": sum(|s| s.unknown), "bugs": sweep.bugs.len(), "repeated": sweep.repeated, "crashed": crashed});
    store.finish(run, verdict, summary).await?;
    let report = crate::commands::report::write(run, dir, None)?;
    if let Some(path) = &args.junit {
        let cases: Vec<Case> = runs.into_iter().flat_map(|r| r.cases).collect();
        junit::write(path, &sweep, &cases)?;
    }
    if context.common.json {
        println!(
            "{}",
            json!({"run": run.id, "verdict": verdict, "report": report, "crashed": crashed, "sweep": sweep})
        );
    } else {
        println!("\n{}", bugs::draw(&sweep.bugs));
        let told: u64 = sweep.bugs.iter().map(|b| b.failing_cases).sum();
        let untold = sum(|s| s.failures).saturating_sub(told);
        if untold > 0 {
            println!(
                " {} not explained by a bug above: they did not fail in the same way again, or there are too many bugs to list\n",
                plural(untold, "failing case")
            );
        }
        if verdict == Verdict::Pass {
            println!(" no bug found: every reply was correct ({})", sweep.oracle);
        }
        println!(
            " run {}   report {}   next: {}",
            run.id.short(),
            report.display(),
            match sweep.bugs.first() {
                Some(bug) => bug.again.clone(),
                None => context.command("report") + " " + &run.id.short(),
            }
        );
    }
    Ok(verdict.exit())
}

/// Who crashed while a space ran: by itself, or because of what was injected.
fn crashes(run: &SpaceRun) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let names: std::collections::BTreeSet<&String> = run.crashed.iter().collect();
    for name in names {
        let told = explore::assess::crash_reason(std::slice::from_ref(name));
        let by_fault = run.cases.iter().filter(|case| case.reason.as_deref() == Some(&told)).count() as u64;
        lines.push(match by_fault {
            0 => format!("   {name} crashed by itself and was restarted; the case was run again"),
            cases => {
                format!("   {name} crashed after the fault in {}, every time it was injected", plural(cases, "case"))
            }
        });
    }
    lines
}

/// The first Ctrl-C (or SIGTERM) lets the cases in flight end and keeps what was run; the second ends at once, and the reaper
/// stops the services.
pub fn stop_on_interrupt() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = stop.clone();
    tokio::spawn(async move {
        crate::signals::interrupted().await;
        told.store(true, Ordering::Relaxed);
        eprintln!("\n   stopping; what was run is kept (Ctrl-C again ends at once)");
        crate::signals::interrupted().await;
        std::process::exit(Exit::Aborted.code().into());
    });
    stop
}
