//! `faultloom doctor --target`: which services answer with a history, which are gaps and why, and what to do next.
//!
//! Every service is started or, if it runs already, contacted. Three witnesses are heard: the service's own answer to
//! a request with an envelope, the recorded request of the target's entry, and the status files of the SDKs.

use crate::context::Context;
use crate::draft::listeners;
use crate::render::numbers::plural;
use crate::render::printable;
use crate::stage::{self, Stage};
use crate::status_files::{self, Status};
use messages::{RequestSpec, Sender};
use model::trace::Trace;
use model::{Exit, Failure};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;
use target::{Health, Sdk, Service, Target};

const LOOK_LIMIT: Duration = Duration::from_secs(2);
/// A path that no application has: asking it does nothing but answer.
const NO_SUCH_PAGE: &str = "/faultloom-doctor";

/// What is told about one service.
struct Finding {
    service: String,
    state: State,
    why: String,
    next: Option<String>,
    statuses: Vec<Status>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Instrumented, with the keys of this target.
    Answers,
    /// Instrumented, with keys, as far as can be told: the page it was asked for never reached its handlers.
    Ready,
    /// Not instrumented, and not meant to be.
    Left,
    /// Meant to be instrumented.
    Gap,
    Unhealthy,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Answers => "answers",
            State::Ready => "ready",
            State::Left | State::Gap => "gap",
            State::Unhealthy => "unhealthy",
        }
    }

    fn glyph(self) -> &'static str {
        match self {
            State::Answers | State::Ready => "✓",
            State::Left => "·",
            State::Gap | State::Unhealthy => "✗",
        }
    }
}

/// What the witnesses said.
#[derive(Default)]
struct Heard {
    /// Service → why it cannot be asked.
    unhealthy: BTreeMap<String, Failure>,
    /// Services whose own answer brought a history.
    answered: BTreeSet<String>,
    /// Services that answered 404 without one: some servers do before anything of the application is asked.
    unrouted: BTreeSet<String>,
    /// Services in the recorded request with a scope of their own.
    recorded: BTreeSet<String>,
    statuses: Vec<Status>,
    /// Attached service → the trust file its process was started with.
    trust: BTreeMap<String, Option<PathBuf>>,
}

pub async fn target(context: &Context) -> Result<Exit, Failure> {
    let file = context.target_file().filter(|file| file.exists()).ok_or_else(|| {
        Failure::request("there is no such target file here")
            .next("draft one: faultloom init, or name one: --target FILE")
    })?;
    let target = Target::load(&file)?;
    let mut heard = Heard::default();
    for service in target.services().iter().filter(|service| service.is_attached()) {
        if let Err(seen) = service.health.check(LOOK_LIMIT).await {
            let failure = Failure::environment(format!("not reachable: {} saw {seen}", service.health))
                .next("start it, or correct `listens` and `health` in the target file");
            heard.unhealthy.insert(service.name.clone(), failure);
        }
    }
    let stage = start(context, &target, &mut heard).await?;
    let mut request = None;
    if let Some(stage) = &stage {
        let asked = ask(context, &target, stage, &mut heard).await;
        request = asked.unwrap_or_else(|failure| Some(Err(failure)));
    }
    let kept = stage::kept_status(context, &target.name);
    heard.statuses = status_files::read(&[&stage::state_dir(context).join("status"), &kept]);
    listen_to_attached(&target, &mut heard);
    let ours = stage.as_ref().map(|_| stage::trust_file(context).unwrap_or_default());
    let findings: Vec<Finding> =
        target.services().iter().map(|service| judge(context, service, &heard, ours.as_ref())).collect();
    if let Some(stage) = stage {
        stage.close().await?;
    }
    let bad = findings.iter().any(|finding| matches!(finding.state, State::Gap | State::Unhealthy));
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
async fn start(context: &Context, target: &Target, heard: &mut Heard) -> Result<Option<Stage>, Failure> {
    loop {
        let left_out: Vec<&str> = heard.unhealthy.keys().map(String::as_str).collect();
        let Some(rest) = target.without(&left_out) else { return Ok(None) };
        let failure = match Stage::open_with(context, Some(rest)).await {
            Ok(stage) => return Ok(Some(stage)),
            Err(failure) if failure.exit() == Exit::Environment => failure,
            Err(failure) => return Err(failure),
        };
        let named =
            target.services().iter().find(|service| failure.what.contains(&format!("service '{}'", service.name)));
        match named.filter(|service| !heard.unhealthy.contains_key(&service.name)) {
            Some(service) => heard.unhealthy.insert(service.name.clone(), failure),
            None => return Err(failure),
        };
    }
}

type Recorded = Option<Result<Trace, Failure>>;

/// Asks every service, then sends the request of the entry.
async fn ask(context: &Context, target: &Target, stage: &Stage, heard: &mut Heard) -> Result<Recorded, Failure> {
    for service in target.services() {
        if service.support || heard.unhealthy.contains_key(&service.name) {
            continue;
        }
        for spec in questions(service)? {
            let reply = Sender::new(stage.credentials().clone(), None).send(&spec, &[]).await?;
            if reply.trace.entry.scope.is_some() {
                heard.answered.insert(service.name.clone());
            } else if reply.status() == Some(404) {
                heard.unrouted.insert(service.name.clone());
            }
            if reply.status().is_some() {
                break;
            }
        }
    }
    let Some(entry) = stage.entry() else { return Ok(None) };
    context.say(format!("   asking GET {}", printable(entry)));
    let spec = RequestSpec::parse(entry, "GET")?;
    let reply = Sender::new(stage.credentials().clone(), None).send(&spec, &[]).await?;
    if reply.status().is_none() {
        let why = reply.reason.unwrap_or_default();
        return Ok(Some(Err(Failure::environment(format!("{entry} does not answer")).why(why))));
    }
    let calls = std::iter::once(&reply.trace.entry).chain(reply.trace.walk());
    let scopes = calls.filter_map(|call| call.scope.as_ref());
    heard.recorded.extend(scopes.map(|scope| scope.service.clone()));
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

fn listen_to_attached(target: &Target, heard: &mut Heard) {
    for service in target.services().iter().filter(|service| service.is_attached()) {
        let ports: Vec<u16> = service.listens.iter().map(|address| address.port).collect();
        if let (false, Some(process)) = (ports.is_empty(), listeners::holding(&ports).into_iter().next()) {
            heard.trust.insert(service.name.clone(), process.trust_file.map(PathBuf::from));
        }
    }
}

fn judge(context: &Context, service: &Service, heard: &Heard, ours: Option<&PathBuf>) -> Finding {
    let name = &service.name;
    let statuses: Vec<Status> = heard.statuses.iter().filter(|status| status.service == *name).cloned().collect();
    let finding = |state: State, why: String, next: Option<String>| Finding {
        service: name.clone(),
        state,
        why,
        next,
        statuses: statuses.clone(),
    };
    if let Some(failure) = heard.unhealthy.get(name) {
        let why = failure.why.as_ref().map_or(failure.what.clone(), |why| format!("{}\n{why}", failure.what));
        return finding(State::Unhealthy, why, failure.next.clone());
    }
    let refused: Vec<String> = statuses
        .iter()
        .flat_map(Status::refused)
        .map(|library| format!("{} {} refused: {}", library.name, library.version, library.reason))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    if heard.recorded.contains(name) || heard.answered.contains(name) {
        let how = match (heard.recorded.contains(name), heard.answered.contains(name)) {
            (true, _) => "seen in the recorded request",
            (false, _) => "answered with a history",
        };
        let why = [vec![how.to_owned()], refused].concat().join("; ");
        return finding(State::Answers, why, None);
    }
    let install = || {
        let sdk = if service.sdk == Sdk::None { "LANGUAGE" } else { service.sdk.name() };
        format!("{} {sdk} --service {name}", context.command("env"))
    };
    if service.sdk == Sdk::None && statuses.is_empty() {
        let why = if service.support { "sdk: none, support" } else { "sdk: none; faults at its callers still work" };
        return finding(State::Left, why.to_owned(), None);
    }
    if let Some(deaf) = statuses.iter().find(|status| !status.has_keys()) {
        return finding(State::Gap, format!("its SDK is deaf: {}", deaf.trust), Some(install()));
    }
    if let (Some(Some(theirs)), Some(ours)) = (heard.trust.get(name), ours)
        && theirs.canonicalize().ok() != ours.canonicalize().ok()
    {
        let why = format!("it has the keys of another environment: {}", theirs.display());
        return finding(State::Gap, why, Some(format!("start it with FAULTLOOM_TRUST_FILE={}", ours.display())));
    }
    if statuses.is_empty() {
        return match (service.sdk, heard.trust.get(name)) {
            (_, Some(None)) => finding(State::Gap, "it was started without trust settings".into(), Some(install())),
            (Sdk::Go, _) => {
                let next = "build it with `faultloom go build` in place of `go build`, and start it again";
                finding(State::Gap, "no SDK in it: built without the wrapper".into(), Some(next.into()))
            }
            _ => finding(State::Gap, "no SDK in it: its process did not load one".into(), Some(install())),
        };
    }
    if !refused.is_empty() {
        let next = "docs/support.md says which versions are known";
        return finding(State::Gap, refused.join("; "), Some(next.into()));
    }
    if statuses.iter().all(|status| status.libraries.is_empty()) {
        let next = "in a bundle hooks find nothing: leave libraries out of it, or use the one-line import";
        return finding(State::Gap, "its SDK is there and has keys, but hooked no library".into(), Some(next.into()));
    }
    if service.health == Health::Alive && service.listens.is_empty() {
        return finding(State::Answers, "its SDK is there and has keys; it has no address to be asked at".into(), None);
    }
    if heard.unrouted.contains(name) {
        let why = "its SDK is there and has keys; it knows no page of the name it was asked for";
        let next = format!("{} URL, of a request that goes there", context.command("record"));
        return finding(State::Ready, why.into(), Some(next));
    }
    let next = "a proxy in between, or a server library that no hook knows: docs/support.md";
    finding(State::Gap, "its SDK is there and has keys, but its answer brought no history".into(), Some(next.into()))
}

fn draw(target: &Target, findings: &[Finding], request: Option<&Result<Trace, Failure>>) {
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
    let answer = crate::render::tree::outcome(&trace.entry);
    let page = match trace.entry.is_ok() {
        true => "",
        false => "; name a request that is right as `entry` of the target file",
    };
    format!("{} answered {answer}: {} messages, {services}, {gaps}{page}", trace.entry.name, trace.messages())
}

fn report(
    target: &Target,
    findings: &[Finding],
    request: Option<&Result<Trace, Failure>>,
    next: Option<&str>,
) -> Value {
    let services: Vec<Value> = findings
        .iter()
        .zip(target.services())
        .map(|(finding, service)| {
            json!({
                "service": finding.service, "state": finding.state.name(), "sdk": service.sdk,
                "ok": matches!(finding.state, State::Answers | State::Ready | State::Left),
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
