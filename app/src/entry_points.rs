//! Entry points of the target, each with the command that records it.
//!
//! They are the entry of the target file, every call that a service of a recorded request answered, and the methods
//! that running gRPC services offer by server reflection. Nothing is started, and no request is sent except for
//! reflection.

use crate::kinds::recording::TRACES;
use crate::spec::NoOptions;
use crate::target_session::{self, TargetSession};
use crate::text::{plural, quoted};
use crate::{Context, register_schema};
use model::Failure;
use model::trace::{Call, Protocol, Trace};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use target::{Address, GrpcAddress, Health, Target};

/// How many runs are read, newest first, and how many requests of each.
const RUNS_MAX: i64 = 200;
const TRACES_MAX: usize = 20;
/// Of each run.
const TRACE_BYTES_MAX: u64 = 1 << 20;

/// A service's call; its name is the route template or the full gRPC method.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    service: String,
    grpc: bool,
    name: String,
}

#[derive(Default)]
struct Observations {
    /// How often, in which runs.
    calls: u64,
    runs: BTreeSet<String>,
    /// Offered by server reflection.
    offered: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct EntryPoint {
    pub service: String,
    /// The route template or the full gRPC method.
    pub name: String,
    pub protocol: &'static str,
    /// Where it was observed: `4 calls in 2 runs`, `server reflection`.
    pub seen: String,
    /// None: the service's address is unknown.
    pub command: Option<String>,
}

/// The entry of the target file.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    pub url: String,
    pub command: String,
}

pub struct EntryPoints {
    pub entry: Option<Entry>,
    pub points: Vec<EntryPoint>,
    /// Whether the target is up.
    pub is_up: bool,
    /// Whether there is a target file.
    pub has_target: bool,
}

register_schema!("record-discover", NoOptions);

/// # Errors
/// Request, if there is neither a target file with an entry nor a recorded request.
pub async fn discover(context: &Context, _spec: &NoOptions) -> Result<EntryPoints, Failure> {
    let target = context.target_file().map(Target::load).transpose()?;
    let mut points = recorded(context).await?;
    let is_up = target::read_state(&target_session::state_dir(context))?.filter(target::is_alive).is_some();
    if let (Some(target), true) = (&target, is_up || context.trust.is_some()) {
        let offered = context.unless_canceled("the search for entry points", offered(context, target)).await?;
        for (service, method) in offered {
            points.entry(Point { service, grpc: true, name: method }).or_default().offered = true;
        }
    }
    let entry = target.as_ref().and_then(|target| target.entry.as_ref());
    if points.is_empty() && entry.is_none() {
        return Err(Failure::request("there is no entry point yet")
            .why("no run here has a trace, and no target file names an entry")
            .next(format!(
                "record any request once: {} http://…, or start the target: {}",
                context.command("record"),
                context.command("up")
            )));
    }
    let entry = entry.map(|entry| Entry { url: entry.to_string(), command: context.command("record") });
    let points = points.iter().map(|(point, observations)| {
        let address = target.as_ref().and_then(|target| reached_at(target, point));
        EntryPoint {
            service: point.service.clone(),
            name: point.name.clone(),
            protocol: if point.grpc { "grpc" } else { "http" },
            seen: observations.text(),
            command: address.map(|origin| command(context, point, &origin)),
        }
    });
    Ok(EntryPoints { entry, points: points.collect(), is_up, has_target: target.is_some() })
}

/// The calls that services answered in stored requests.
async fn recorded(context: &Context) -> Result<BTreeMap<Point, Observations>, Failure> {
    let mut points: BTreeMap<Point, Observations> = BTreeMap::new();
    let store = context.store().await?;
    for run in store.list(RUNS_MAX).await? {
        let (mut traces, _): (Vec<Trace>, u64) =
            store.dir(run.id).first_records(TRACES, TRACE_BYTES_MAX).unwrap_or_default();
        traces.truncate(TRACES_MAX);
        for trace in &traces {
            let calls = std::iter::once(&trace.entry).chain(trace.walk());
            for point in calls.filter_map(answered) {
                let observations = points.entry(point).or_default();
                observations.calls += 1;
                observations.runs.insert(run.id.short());
            }
        }
    }
    Ok(points)
}

/// The callee's name of the call, if it answered with a scope of its own.
fn answered(call: &Call) -> Option<Point> {
    let scope = call.scope.as_ref()?;
    let grpc = call.protocol == Protocol::Grpc;
    // a gRPC method keeps its package and service; an HTTP route is its callee's template
    let name = if grpc || scope.name.is_empty() { &call.name } else { &scope.name };
    Some(Point { service: scope.service.clone(), grpc, name: name.clone() })
}

/// The scheme, host and port. A listener uses TLS if the health check of its port or the target's entry does.
fn reached_at(target: &Target, point: &Point) -> Option<String> {
    let service = target.service(&point.service)?;
    let address = service.listens.first()?.reachable();
    let of_health = match &service.health {
        Health::Http(url) => url.is_tls.then_some(&url.address),
        Health::Grpc(grpc) => grpc.is_tls.then_some(&grpc.address),
        Health::Tcp(_) | Health::Alive => None,
    };
    let of_entry = target.entry.as_ref().filter(|entry| entry.is_tls).map(|entry| &entry.address);
    // with its host, because a certificate is for a name
    let with_tls = [of_health, of_entry].into_iter().flatten().find(|other| other.port == address.port);
    let address = with_tls.map_or(address, Address::reachable);
    let scheme = match (point.grpc, with_tls.is_some()) {
        (true, false) => "grpc",
        (true, true) => "grpcs",
        (false, false) => "http",
        (false, true) => "https",
    };
    Some(format!("{scheme}://{address}"))
}

impl Observations {
    fn text(&self) -> String {
        let mut parts = Vec::new();
        if self.calls > 0 {
            parts.push(format!("{} in {}", plural(self.calls, "call"), plural(self.runs.len() as u64, "run")));
        }
        if self.offered {
            parts.push("server reflection".to_owned());
        }
        parts.join(", ")
    }
}

fn command(context: &Context, point: &Point, origin: &str) -> String {
    let record = context.command("record");
    if point.grpc {
        let url = quoted(&format!("{origin}/{}", point.name.trim_start_matches('/')));
        return format!("{record} {url} --proto FILE -d '{{}}'");
    }
    let (method, path) = point.name.split_once(' ').unwrap_or(("GET", &point.name));
    let url = quoted(&format!("{origin}{path}"));
    match method {
        "GET" => format!("{record} {url}"),
        "POST" | "PUT" | "PATCH" => format!("{record} {url} -X {method} -d BODY"),
        method => format!("{record} {url} -X {method}"),
    }
}

/// `(service, full method)` of every gRPC service that supports reflection.
async fn offered(context: &Context, target: &Target) -> Result<Vec<(String, String)>, Failure> {
    let session = TargetSession::open(context).await?;
    let mut found = Vec::new();
    for service in target.services().iter().filter(|service| !service.support) {
        let (scheme, address) = match &service.health {
            Health::Grpc(GrpcAddress { is_tls: true, address }) => ("grpcs", Some(address.reachable())),
            Health::Grpc(GrpcAddress { is_tls: false, address }) => ("grpc", Some(address.reachable())),
            Health::Tcp(address) => ("grpc", Some(address.reachable())),
            Health::Http(_) | Health::Alive => ("grpc", None),
        };
        if let Some(address) = address {
            let (keys, origin) = (session.credentials(), format!("{scheme}://{address}"));
            let methods = requests::reflection::methods(keys, &origin, session.tls()).await?;
            found.extend(methods.into_iter().map(|method| (service.name.clone(), method)));
        }
    }
    session.close().await?;
    Ok(found)
}
