//! `faultloom doctor --target`: which services answer with a history, which are gaps and why, and what to do next.
//!
//! Every service is started or, if it runs already, contacted. Three witnesses are evidence: the service's own answer to
//! a request with an envelope, the recorded request of the target's entry, and the status files of the SDKs.

use crate::context::Context;
use app::diagnosis::{Diagnosis, Evidence, diagnose};
use app::draft::listeners;
use app::status_files::{self, Status};
use app::target_session::{self, TargetSession};
use app::text::plural;
use app::text::printable;
use model::trace::Trace;
use model::{Exit, Failure};
use requests::{RequestSpec, Sender};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;
use target::{Health, Service, Target};

const LOOK_LIMIT: Duration = Duration::from_secs(2);
/// A path that no application has: asking it does nothing but answer.
const NO_SUCH_PAGE: &str = "/faultloom-doctor";

pub async fn target(context: &Context) -> Result<Exit, Failure> {
    let file = context.target_file().filter(|file| file.exists()).ok_or_else(|| {
        Failure::request("there is no such target file here")
            .next("draft one: faultloom init, or name one: --target FILE")
    })?;
    let target = Target::load(&file)?;
    let mut evidence = Evidence::default();
    for service in target.services().iter().filter(|service| service.is_attached()) {
        if let Err(seen) = service.health.check(LOOK_LIMIT).await {
            let failure = Failure::environment(format!("not reachable: {} saw {seen}", service.health))
                .next("start it, or correct `listens` and `health` in the target file");
            evidence.unhealthy.insert(service.name.clone(), failure);
        }
    }
    let session = start(context, &target, &mut evidence).await?;
    let mut request = None;
    if let Some(session) = &session {
        let asked = ask(context, &target, session, &mut evidence).await;
        request = asked.unwrap_or_else(|failure| Some(Err(failure)));
    }
    let kept = target_session::kept_status(context, &target.name);
    evidence.statuses = status_files::read(&[&target_session::state_dir(context).join("status"), &kept]);
    listen_to_attached(&target, &mut evidence);
    let ours = session.as_ref().map(|_| target_session::trust_file(context).unwrap_or_default());
    let findings: Vec<Diagnosis> =
        target.services().iter().map(|service| diagnose(context, service, &evidence, ours.as_ref())).collect();
    if let Some(session) = session {
        session.close().await?;
    }
    let bad = findings.iter().any(|finding| !finding.state.is_ok());
    let next = match bad {
        true => None,
        false => Some(context.command("record")),
    };
    if context.common.json {
        println!("{}", report(&target, &findings, request.as_ref(), next.as_deref()));
    } else {
        draw(&target, &findings, request.as_ref());
        if let Some(next) = next {
            println!("next: {next}");
        }
    }
    Ok(if bad { Exit::Environment } else { Exit::Pass })
}

/// Starts what can be started, leaving out what cannot, until the rest is up. `None` if nothing is left.
async fn start(context: &Context, target: &Target, evidence: &mut Evidence) -> Result<Option<TargetSession>, Failure> {
    loop {
        let left_out: Vec<&str> = evidence.unhealthy.keys().map(String::as_str).collect();
        let Some(rest) = target.without(&left_out) else { return Ok(None) };
        let failure = match TargetSession::open_with(context, Some(rest)).await {
            Ok(session) => return Ok(Some(session)),
            Err(failure) if failure.exit() == Exit::Environment => failure,
            Err(failure) => return Err(failure),
        };
        let named =
            target.services().iter().find(|service| failure.what.contains(&format!("service '{}'", service.name)));
        match named.filter(|service| !evidence.unhealthy.contains_key(&service.name)) {
            Some(service) => evidence.unhealthy.insert(service.name.clone(), failure),
            None => return Err(failure),
        };
    }
}

type Recorded = Option<Result<Trace, Failure>>;

/// Asks every service, then sends the request of the entry.
async fn ask(
    context: &Context,
    target: &Target,
    session: &TargetSession,
    evidence: &mut Evidence,
) -> Result<Recorded, Failure> {
    for service in target.services() {
        if service.support || evidence.unhealthy.contains_key(&service.name) {
            continue;
        }
        for spec in questions(service)? {
            let reply = Sender::new(session.credentials().clone(), None).send(&spec, &[]).await?;
            if reply.trace.entry.scope.is_some() {
                evidence.answered.insert(service.name.clone());
            } else if reply.status() == Some(404) {
                evidence.unrouted.insert(service.name.clone());
            }
            if reply.status().is_some() {
                break;
            }
        }
    }
    let Some(entry) = session.entry() else { return Ok(None) };
    context.say(format!("   asking GET {}", printable(entry)));
    let spec = RequestSpec::parse(entry, "GET")?;
    let reply = Sender::new(session.credentials().clone(), None).send(&spec, &[]).await?;
    if reply.status().is_none() {
        let why = reply.reason.unwrap_or_default();
        return Ok(Some(Err(Failure::environment(format!("{entry} does not answer")).why(why))));
    }
    let calls = std::iter::once(&reply.trace.entry).chain(reply.trace.walk());
    let scopes = calls.filter_map(|call| call.scope.as_ref());
    evidence.recorded.extend(scopes.map(|scope| scope.service.clone()));
    Ok(Some(Ok(reply.trace)))
}

/// Requests that do nothing, as the service's health check speaks; over TCP HTTP is tried before gRPC.
fn questions(service: &Service) -> Result<Vec<RequestSpec>, Failure> {
    let http = |address: &target::Address| RequestSpec::parse(&format!("http://{address}{NO_SUCH_PAGE}"), "GET");
    let grpc = |address: &target::Address| {
        RequestSpec::parse(&format!("grpc://{address}/grpc.health.v1.Health/Check"), "POST")
    };
    let mut specs = match &service.health {
        Health::Http(url) => vec![http(&url.address.reachable())?],
        Health::Grpc(address) => vec![grpc(&address.reachable())?],
        Health::Tcp(address) => vec![http(&address.reachable())?, grpc(&address.reachable())?],
        Health::Alive => Vec::new(),
    };
    specs.iter_mut().for_each(|spec| spec.timeout_ms = LOOK_LIMIT.as_millis() as u64);
    Ok(specs)
}

fn listen_to_attached(target: &Target, evidence: &mut Evidence) {
    for service in target.services().iter().filter(|service| service.is_attached()) {
        let ports: Vec<u16> = service.listens.iter().map(|address| address.port).collect();
        if let (false, Some(process)) = (ports.is_empty(), listeners::holding(&ports).into_iter().next()) {
            evidence.trust.insert(service.name.clone(), process.trust_file.map(PathBuf::from));
        }
    }
}

fn draw(target: &Target, findings: &[Diagnosis], request: Option<&Result<Trace, Failure>>) {
    println!("{}: {}", printable(&target.name), plural(findings.len() as u64, "service"));
    for finding in findings {
        let mut lines = finding.why.lines();
        let (glyph, state) = (finding.state.glyph(), finding.state.name());
        println!(" {glyph} {:<16} {state:<10} {}", finding.service, printable(lines.next().unwrap_or_default()));
        lines.for_each(|line| println!("   {:<16} {:<10} {}", "", "", printable(line)));
        let versions: BTreeSet<String> = finding.statuses.iter().map(Status::versions).collect();
        versions.iter().for_each(|versions| println!("   {:<16} {:<10} {}", "", "", printable(versions)));
        if let Some(next) = &finding.next {
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
    let gaps: BTreeSet<&str> =
        trace.walk().into_iter().filter(|call| call.gap).map(|call| call.callee.as_str()).collect();
    let gaps = match gaps.is_empty() {
        true => "no gaps".to_owned(),
        false => format!("gaps at {}", gaps.into_iter().collect::<Vec<_>>().join(", ")),
    };
    let services = plural(trace.services().len() as u64, "service");
    let answer = app::text::outcome(&trace.entry);
    let page = match trace.entry.is_ok() {
        true => "",
        false => "; name a request that is right as `entry` of the target file",
    };
    format!("{} answered {answer}: {} messages, {services}, {gaps}{page}", trace.entry.name, trace.messages())
}

fn report(
    target: &Target,
    findings: &[Diagnosis],
    request: Option<&Result<Trace, Failure>>,
    next: Option<&str>,
) -> Value {
    let services: Vec<Value> = findings
        .iter()
        .zip(target.services())
        .map(|(finding, service)| {
            json!({
                "service": finding.service, "state": finding.state.name(), "sdk": service.sdk,
                "ok": finding.state.is_ok(),
                "attached": service.is_attached(), "why": finding.why, "next": finding.next, "processes": finding.statuses,
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
