//! `faultloom record --discover`: entry points that were seen, each with the command that records it.
//!
//! Seen: the entry of the target file, every call a service of a recorded request answered, and what gRPC services that
//! are up offer by server reflection. Nothing is started, and nothing but reflection is asked.

use crate::context::Context;
use app::target_session::{self, TargetSession};
use app::text::plural;
use app::text::printable;
use app::text::quoted;
use model::trace::{Call, Protocol, Trace};
use model::{Exit, Failure};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use target::{Address, Health, Target};

/// Older runs than these many are not looked at, nor more than these many requests of one.
const RUNS_MAX: i64 = 200;
const TRACES_MAX: usize = 20;

/// A service's call; its name is the route template or the full gRPC method.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    service: String,
    grpc: bool,
    name: String,
}

#[derive(Default)]
struct Seen {
    /// How often, in which runs.
    calls: u64,
    runs: BTreeSet<String>,
    offered: bool,
}

pub async fn discover(context: &Context) -> Result<Exit, Failure> {
    let target = context.target_file().map(Target::load).transpose()?;
    let mut points: BTreeMap<Point, Seen> = BTreeMap::new();
    let store = context.store().await?;
    for run in store.list(RUNS_MAX).await? {
        let dir = store.dir(run.id);
        let mut traces: Vec<Trace> = dir.records("traces.jsonl").unwrap_or_default();
        traces.truncate(TRACES_MAX);
        for trace in &traces {
            for call in std::iter::once(&trace.entry).chain(trace.walk()) {
                if let Some(point) = answered(call) {
                    let seen = points.entry(point).or_default();
                    seen.calls += 1;
                    seen.runs.insert(run.id.short());
                }
            }
        }
    }
    let up = target::read_state(&target_session::state_dir(context))?.filter(target::is_alive).is_some();
    if let (Some(target), true) = (&target, up || context.common.trust.is_some()) {
        for (service, method) in offered(context, target).await? {
            points.entry(Point { service, grpc: true, name: method }).or_default().offered = true;
        }
    }
    let entry = target.as_ref().and_then(|target| target.entry.as_ref());
    if points.is_empty() && entry.is_none() {
        return Err(Failure::request("no entry point has been seen yet")
            .why("no run here has a trace, and no target file names an entry")
            .next("record any request once: faultloom record http://…, or start the target: faultloom up"));
    }
    let rows: Vec<serde_json::Value> = points
        .iter()
        .map(|(point, seen)| {
            let address = target.as_ref().and_then(|target| reached_at(target, &point.service));
            json!({
                "service": point.service, "name": point.name, "protocol": if point.grpc { "grpc" } else { "http" },
                "seen": seen_in_words(seen), "command": address.map(|address| command(context, point, &address)),
            })
        })
        .collect();
    let entry = entry.map(|entry| json!({"url": entry.to_string(), "command": context.command("record")}));
    if context.common.json {
        println!("{}", json!({"entry": entry, "points": rows, "asked": up}));
        return Ok(Exit::Pass);
    }
    let text = |value: &serde_json::Value| printable(value.as_str().unwrap_or_default());
    if let Some(entry) = &entry {
        println!("{}: the target's entry\n   {}", text(&entry["url"]), text(&entry["command"]));
    }
    for row in &rows {
        println!("{}: {}   ({})", text(&row["service"]), text(&row["name"]), text(&row["seen"]));
        match row["command"].as_str() {
            Some(command) => println!("   {}", printable(command)),
            None => println!("   its address is not known: `listens` of the target file tells it"),
        }
    }
    if target.is_some() && !up {
        context.say("gRPC services that are up are asked for what they offer: faultloom up");
    }
    Ok(Exit::Pass)
}

/// What the callee calls it, if it answered with a scope of its own.
fn answered(call: &Call) -> Option<Point> {
    let scope = call.scope.as_ref()?;
    let grpc = call.protocol == Protocol::Grpc;
    // a gRPC method keeps its package and service; an HTTP route is its callee's template
    let name = if grpc || scope.name.is_empty() { &call.name } else { &scope.name };
    Some(Point { service: scope.service.clone(), grpc, name: name.clone() })
}

fn reached_at(target: &Target, service: &str) -> Option<Address> {
    target.service(service)?.listens.first().map(Address::reachable)
}

fn seen_in_words(seen: &Seen) -> String {
    let mut parts = Vec::new();
    if seen.calls > 0 {
        parts.push(format!("{} in {}", plural(seen.calls, "call"), plural(seen.runs.len() as u64, "run")));
    }
    if seen.offered {
        parts.push("server reflection".to_owned());
    }
    parts.join(", ")
}

fn command(context: &Context, point: &Point, address: &Address) -> String {
    let record = context.command("record");
    if point.grpc {
        let url = quoted(&format!("grpc://{address}/{}", point.name.trim_start_matches('/')));
        return format!("{record} {url} --proto FILE -d '{{}}'");
    }
    let (method, path) = point.name.split_once(' ').unwrap_or(("GET", &point.name));
    let url = quoted(&format!("http://{address}{path}"));
    match method {
        "GET" => format!("{record} {url}"),
        "POST" | "PUT" | "PATCH" => format!("{record} {url} -X {method} -d BODY"),
        method => format!("{record} {url} -X {method}"),
    }
}

/// `(service, full method)` of every gRPC service that answers to reflection.
async fn offered(context: &Context, target: &Target) -> Result<Vec<(String, String)>, Failure> {
    let session = TargetSession::open(context).await?;
    let mut found = Vec::new();
    for service in target.services().iter().filter(|service| !service.support) {
        let address = match &service.health {
            Health::Grpc(address) => Some(address.reachable()),
            Health::Tcp(address) => Some(address.reachable()),
            Health::Http(_) | Health::Alive => None,
        };
        if let Some(address) = address {
            let methods = requests::reflection::methods(session.credentials(), &address.to_string()).await?;
            found.extend(methods.into_iter().map(|method| (service.name.clone(), method)));
        }
    }
    session.close().await?;
    Ok(found)
}
