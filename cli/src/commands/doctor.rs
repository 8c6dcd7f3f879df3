//! `faultloom doctor`: what this machine and the target can and cannot do, each with the next step.

use crate::context::Context;
use ::target::Target;
use app::doctor::diagnosis::{Diagnosis, State};
use app::doctor::{machine, target};
use app::spec::NoOptions;
use app::status_files::Status;
use app::text::{outcome, plural, printable};
use model::trace::{GapReason, Trace};
use model::{Exit, Failure};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub async fn machine(context: &Context) -> Result<Exit, Failure> {
    let checks = machine::checks(context, &NoOptions::default()).await;
    if context.common.json {
        println!("{}", json!({"findings": checks}));
    } else {
        for check in &checks {
            let glyph = match check.state {
                "ok" => "✓",
                "note" => "·",
                _ => "✗",
            };
            println!(" {glyph} {:<10} {}", check.what, check.text);
            if let Some(next) = check.next.as_ref().filter(|next| !next.is_empty()) {
                println!("              next: {next}");
            }
        }
    }
    Ok(if checks.iter().any(machine::Check::is_bad) { Exit::Environment } else { Exit::Pass })
}

pub async fn target(context: &Context) -> Result<Exit, Failure> {
    let checked = target::check(context, &NoOptions::default()).await?;
    let next = checked.is_ok().then(|| context.command("record"));
    let request = checked.request.as_ref();
    if context.common.json {
        println!("{}", report(&checked.target, &checked.diagnoses, request, next.as_deref()));
    } else {
        draw(&checked.target, &checked.diagnoses, request);
        if let Some(next) = next {
            println!("next: {next}");
        }
    }
    Ok(if checked.is_ok() { Exit::Pass } else { Exit::Environment })
}

fn glyph(state: State) -> &'static str {
    match state {
        State::Answers | State::Ready => "✓",
        State::Left => "·",
        State::Gap | State::Unhealthy => "✗",
    }
}

fn draw(target: &Target, diagnoses: &[Diagnosis], request: Option<&Result<Trace, Failure>>) {
    println!("{}: {}", printable(&target.name), plural(diagnoses.len() as u64, "service"));
    for diagnosis in diagnoses {
        let mut lines = diagnosis.why.lines();
        let (glyph, state) = (glyph(diagnosis.state), diagnosis.state.name());
        println!(" {glyph} {:<16} {state:<10} {}", diagnosis.service, printable(lines.next().unwrap_or_default()));
        lines.for_each(|line| println!("   {:<16} {:<10} {}", "", "", printable(line)));
        let versions: BTreeSet<String> = diagnosis.statuses.iter().map(Status::versions).collect();
        versions.iter().for_each(|versions| println!("   {:<16} {:<10} {}", "", "", printable(versions)));
        if let Some(next) = &diagnosis.next {
            println!("   {:<16} {:<10} next: {}", "", "", printable(next));
        }
    }
    match request {
        Some(Ok(trace)) => println!("request: {}", printable(&sentence(trace))),
        Some(Err(failure)) => println!("request: {}", printable(&failure.what)),
        None => println!("request: the target file names no entry, so none was recorded"),
    }
}

fn sentence(trace: &Trace) -> String {
    let (unscoped, gaps): (Vec<_>, Vec<_>) =
        trace.gaps_with_reasons().into_iter().partition(|gap| matches!(gap.reason, GapReason::Unscoped { .. }));
    let gaps: BTreeSet<String> = gaps.iter().map(|gap| format!("{} ({})", gap.callee, gap.reason)).collect();
    let unscoped: BTreeSet<String> = unscoped.iter().map(|gap| gap.reason.to_string()).collect();
    let mut parts = Vec::new();
    if !gaps.is_empty() {
        parts.push(format!("gaps at {}", gaps.into_iter().collect::<Vec<_>>().join(", ")));
    }
    parts.extend(unscoped);
    let gaps = if parts.is_empty() { "no gaps".to_owned() } else { parts.join("; ") };
    let services = plural(trace.services().len() as u64, "service");
    let answer = outcome(&trace.entry);
    let page = match trace.entry.is_ok() {
        true => "",
        false => "; name a request that succeeds as `entry` of the target file",
    };
    format!("{} answered {answer}: {} messages, {services}, {gaps}{page}", trace.entry.name, trace.messages())
}

fn report(
    target: &Target,
    diagnoses: &[Diagnosis],
    request: Option<&Result<Trace, Failure>>,
    next: Option<&str>,
) -> Value {
    let services: Vec<Value> = diagnoses
        .iter()
        .zip(target.services())
        .map(|(diagnosis, service)| {
            json!({
                "service": diagnosis.service, "state": diagnosis.state.name(), "sdk": service.sdk,
                "ok": diagnosis.state.is_ok(),
                "attached": service.is_attached(), "why": diagnosis.why, "next": diagnosis.next, "processes": diagnosis.statuses,
            })
        })
        .collect();
    let request = match request {
        Some(Ok(trace)) => json!({"name": trace.entry.name, "summary": sentence(trace), "trace": trace}),
        Some(Err(failure)) => json!({"error": failure.what, "why": failure.why}),
        None => Value::Null,
    };
    json!({"target": target.name, "services": services, "request": request, "next": next})
}
