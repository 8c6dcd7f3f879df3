//! Kubernetes manifests as a target.
//!
//! Each Deployment, StatefulSet or other workload becomes a service. An image cannot be started here, so the workload
//! is started from the source directory with its name; host names of the cluster become addresses of this machine. A
//! workload without source is attached. Nothing is sent to a cluster.

mod cluster_view;
mod documents;
mod drafted_service;
mod environment;
pub mod files;
mod helm;
mod kustomize;
mod network;
mod plan;
mod renderer;
mod resources;
mod sources;

pub use cluster_view::{ClusterView, ClusterWorkload};

use super::dockerfile::join;
use super::language::{image_name, image_sdk, support};
use super::{Command, Confidence, Draft, Guess, folder_name, stated};
use model::Failure;
use network::Network;
use plan::Plan;
use resources::{Cluster, ClusterService, PortRef, Workload};
use sources::{Source, SourceTree};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Folders whose name says nothing about the application.
const GENERIC: [&str; 6] = ["base", "overlays", "dev", "local", "templates", "chart"];
/// Names of containers that do not name a service.
const GENERIC_CONTAINERS: [&str; 8] = ["server", "app", "main", "service", "container", "web", "api", "backend"];
/// How far up from the manifests sources are looked for.
const LEVELS_UP: usize = 4;

/// `base`: the folder of the target file.
///
/// # Errors
/// Request, if a manifest cannot be used; each names the file and the document.
pub fn draft(path: &Path, shown: &str, base: &Path) -> Result<Draft, Failure> {
    let manifests = files::read(path, shown)?;
    let mut notes = manifests.notes;
    let cluster = Cluster::read(&manifests.documents, &mut notes)?;
    if cluster.workloads.is_empty() {
        return Err(no_workloads(shown, &manifests.documents, &notes));
    }
    let current = absolute(Path::new("."));
    let places = Places {
        shown,
        roots: &roots(path, &manifests.folder, &current),
        base: &absolute(base),
        current: &current,
        is_used: &is_used,
    };
    let draft = Draft::new(shown, name(&cluster, &manifests.folder));
    Ok(from_cluster(&cluster, draft, &places, notes))
}

/// Where things are on this machine.
pub(super) struct Places<'a> {
    /// The manifests, in messages.
    shown: &'a str,
    /// Folders in which sources may be.
    roots: &'a [PathBuf],
    /// The folder of the target file.
    base: &'a Path,
    /// The working directory, for messages.
    current: &'a Path,
    /// Whether something listens on a port.
    is_used: &'a dyn Fn(u16) -> bool,
}

fn from_cluster(cluster: &Cluster, mut draft: Draft, places: &Places, mut notes: Vec<String>) -> Draft {
    let mut plans = plans(cluster, places.roots, &mut notes);
    for plan in &mut plans {
        let services: Vec<&ClusterService> =
            cluster.services.iter().filter(|own| selects(own, plan.workload)).collect();
        plan.find_ports(&services);
    }
    let referenced = referenced(&network(cluster, &plans), &plans);
    let entry_at = entry(cluster, &plans, &referenced);
    // the entry keeps its port if it can, since people type it
    let first = entry_at.as_ref().map(|found| found.plan);
    let order: Vec<usize> = first.into_iter().chain((0..plans.len()).filter(|at| Some(*at) != first)).collect();
    plan::assign(&mut plans, &order, places.is_used);
    let network = network(cluster, &plans);
    for plan in &plans {
        let drafted = drafted_service::service(plan, &network, places);
        draft.contains_secrets |= drafted.contains_secrets;
        draft.services.extend(drafted.service);
        notes.extend(drafted.notes);
        draft.starts.extend(drafted.starts);
    }
    match &entry_at {
        Some(found) if found.is_grpc => notes.push(format!(
            "{} receives requests over gRPC: faultloom record grpc://127.0.0.1:{}/SERVICE/METHOD",
            plans[found.plan].workload.name,
            plans[found.plan].local(found.inside).unwrap_or(found.inside)
        )),
        Some(found) => draft.entry = plans[found.plan].local(found.inside).map(|local| found.address(local)),
        None => {}
    }
    let lost = |service: &&ClusterService| !plans.iter().any(|plan| selects(service, plan.workload));
    for service in cluster.services.iter().filter(lost) {
        notes.push(match service.kind.as_str() {
            "ExternalName" => format!("{}: calls to Service '{}' leave the cluster and stay as they are", service.at, service.name),
            _ => format!(
                "{}: Service '{}' selects no workload in these manifests, so calls to it stay as they are; name the folder \
                 that has its workload too, or start it and change the variables that refer to it",
                service.at, service.name
            ),
        });
    }
    if cluster.services.is_empty() {
        notes.push(format!(
            "{} has no Service: no workload has a host name in the cluster, and ports are those of the containers; name \
             the folder that contains the Services too, or check `listens`",
            places.shown
        ));
    }
    let kinds: Vec<String> =
        cluster.skipped.iter().map(|(kind, names)| format!("{kind} ({})", names.join(", "))).collect();
    if !kinds.is_empty() {
        notes.push(format!("skipped, since these kinds have no counterpart here: {}", kinds.join(", ")));
    }
    draft.notes = notes;
    draft
}

fn no_workloads(shown: &str, documents: &[documents::Document], notes: &[String]) -> Failure {
    let kinds: BTreeSet<String> = documents.iter().map(documents::Document::kind).collect();
    let found = match kinds.is_empty() {
        true => "it has no objects".to_owned(),
        false => format!("it has only: {}", kinds.into_iter().collect::<Vec<_>>().join(", ")),
    };
    Failure::request(format!("{shown} has no workloads"))
        .why([vec![found], notes.to_vec()].concat().join("\n"))
        .next("name the file or folder with the Deployments, StatefulSets or Pods of your application")
}

fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

fn is_used(port: u16) -> bool {
    let bound = std::net::TcpListener::bind(("127.0.0.1", port));
    bound.is_err_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
}

/// Folders in which sources may be: the manifests' own and those above it, up to the working directory or the
/// repository.
fn roots(path: &Path, folder: &Path, current: &Path) -> Vec<PathBuf> {
    if path == Path::new("-") {
        return vec![current.to_owned()];
    }
    let folder = absolute(folder);
    let inside = folder.starts_with(current);
    let mut found = Vec::new();
    for ancestor in folder.ancestors().take(LEVELS_UP + 1) {
        found.push(ancestor.to_owned());
        if (inside && ancestor == current) || ancestor.join(".git").exists() {
            break;
        }
    }
    if !inside && !found.last().is_some_and(|last| last.join(".git").exists()) {
        found.truncate(2);
    }
    found
}

fn name(cluster: &Cluster, folder: &Path) -> Guess<String> {
    let labels = cluster.workloads.iter().map(|workload| {
        workload.labels.iter().find(|(name, _)| name == "app.kubernetes.io/part-of").map(|(_, value)| value)
    });
    let labels: BTreeSet<Option<&String>> = labels.collect();
    if let (1, Some(Some(label))) = (labels.len(), labels.first()) {
        return stated((*label).clone(), "label app.kubernetes.io/part-of");
    }
    let folder = absolute(folder);
    let generic = |path: &&Path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        !GENERIC.contains(&name.as_str()) && !files::FOLDERS.contains(&name.as_str())
    };
    folder_name(folder.ancestors().find(generic).unwrap_or(&folder))
}

fn selects(service: &ClusterService, workload: &Workload) -> bool {
    service.namespace == workload.namespace
        && !service.selector.is_empty()
        && service.selector.iter().all(|pair| workload.labels.contains(pair))
}

fn plans<'a>(cluster: &'a Cluster, roots: &[PathBuf], notes: &mut Vec<String>) -> Vec<Plan<'a>> {
    let trees: Vec<SourceTree> = roots.iter().map(|root| SourceTree::read(root)).collect();
    let mut plans = Vec::new();
    for workload in &cluster.workloads {
        let container = &workload.container;
        let support = support(&container.image);
        let names = names(workload, cluster);
        let source = match support {
            Some(_) => None,
            None => trees.iter().find_map(|tree| tree.find(&names)),
        };
        let variables = environment::variables(workload, cluster, notes);
        plans.push(Plan { workload, variables, source, start: None, support, ports: Vec::new() });
    }
    // an application of one service lies at the top of its repository
    let own: Vec<usize> = (0..plans.len()).filter(|at| plans[*at].support.is_none()).collect();
    if let [only] = own[..]
        && plans[only].source.is_none()
    {
        plans[only].source = trees.iter().find_map(SourceTree::whole);
    }
    for plan in &mut plans {
        plan.start = start(plan);
    }
    plans
}

/// Names that the source may have, the most specific first. Images of languages and names that several containers have
/// say nothing about it.
fn names(workload: &Workload, cluster: &Cluster) -> Vec<String> {
    let container = &workload.container;
    let same = |other: &&Workload| other.container.name == container.name;
    let is_own =
        !GENERIC_CONTAINERS.contains(&container.name.as_str()) && cluster.workloads.iter().filter(same).count() == 1;
    let image = if image_sdk(&container.image).is_none() { image_name(&container.image) } else { "" };
    let names = [workload.name.as_str(), image, if is_own { container.name.as_str() } else { "" }];
    names.into_iter().filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The container's command: the manifest's, else that of the image's Dockerfile, else that of the source.
fn start(plan: &Plan) -> Option<(Command, String)> {
    let container = &plan.workload.container;
    let value = |name: &str| {
        plan.variables.iter().find(|variable| variable.name == name).map(|variable| variable.value.value.clone())
    };
    let expanded = |words: &Vec<String>| words.iter().map(|word| environment::expand(word, value)).collect::<Vec<_>>();
    let (command, args) = (container.command.as_ref().map(expanded), container.args.as_ref().map(expanded));
    let file = plan.source.as_ref().and_then(Source::dockerfile);
    let of_source = plan.source.as_ref().and_then(Source::command);
    match (command, args) {
        (Some(command), args) => Some((
            Command::Words([command, args.unwrap_or_default()].concat()),
            format!("command in {}", plan.workload.at),
        )),
        (None, Some(args)) => {
            let from = format!("args in {}", plan.workload.at);
            let entrypoint = of_source.map(|(command, _)| command).or_else(|| file.and_then(|file| file.entrypoint));
            let name = Command::Words(vec![plan.workload.name.clone()]);
            join(Some(entrypoint.unwrap_or(name)), Some(Command::Words(args))).map(|command| (command, from))
        }
        (None, None) => of_source.or_else(|| file?.start().map(|command| (command, "its Dockerfile".to_owned()))),
    }
}

/// Host names and ports of all Services, as far as a workload is behind them.
fn network(cluster: &Cluster, plans: &[Plan]) -> Network {
    let mut network = Network::default();
    for service in &cluster.services {
        let behind = plans.iter().position(|plan| selects(service, plan.workload));
        // a name outside of the cluster stays as it is
        if service.kind == "ExternalName" || behind.is_none() {
            continue;
        }
        network.service(&service.namespace, &service.name, behind);
        let Some(plan) = behind.map(|at| &plans[at]) else { continue };
        for port in &service.ports {
            if let Some(local) = plan.inside(&port.target).and_then(|inside| plan.local(inside)) {
                network.port(&service.namespace, &service.name, port.port, local);
            }
        }
    }
    network
}

/// Workloads to which a variable, an argument or a command of another refers.
fn referenced(network: &Network, plans: &[Plan]) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    for (at, plan) in plans.iter().enumerate() {
        let all: Vec<(String, String)> =
            plan.variables.iter().map(|own| (own.name.clone(), own.value.value.clone())).collect();
        let words = match &plan.start {
            Some((Command::Words(words), _)) => words.clone(),
            _ => Vec::new(),
        };
        let words = words.into_iter().map(|word| (String::new(), word));
        for (name, value) in all.iter().cloned().chain(words) {
            let rewritten = network.rewrite(&plan.workload.namespace, &name, &value, &all);
            found.extend(rewritten.workloads.into_iter().filter(|other| *other != at));
        }
    }
    found
}

/// Where requests from outside arrive.
struct Entry {
    plan: usize,
    inside: u16,
    is_grpc: bool,
    path: String,
    why: String,
    confidence: Confidence,
}

impl Entry {
    fn address(&self, local: u16) -> Guess<String> {
        let value = format!("http://127.0.0.1:{local}{}", self.path);
        Guess { value, from: self.why.clone(), confidence: self.confidence }
    }
}

/// By an Ingress or a route, a Service of type LoadBalancer or NodePort, or else the workload to which no other refers.
fn entry(cluster: &Cluster, plans: &[Plan], referenced: &BTreeSet<usize>) -> Option<Entry> {
    let mut candidates: Vec<Entry> = Vec::new();
    for route in &cluster.routes {
        let service = cluster.services.iter().find(|own| own.name == route.service && own.namespace == route.namespace);
        let why = format!("{} '{}' sends requests to it", route.kind, route.name);
        let mut found =
            service.map(|service| of_service(service, route.port.as_ref(), plans, &why)).unwrap_or_default();
        found.iter_mut().for_each(|entry| entry.is_grpc |= route.is_grpc);
        // a path that other services get first is no home page
        let at = if matches!(route.path.as_str(), "" | "/") { 0 } else { candidates.len() };
        found.into_iter().for_each(|entry| candidates.insert(at, entry));
    }
    for kind in ["LoadBalancer", "NodePort"] {
        for service in cluster.services.iter().filter(|service| service.kind == kind) {
            let why = format!("Service '{}' has type {kind}", service.name);
            candidates.extend(of_service(service, None, plans, &why));
        }
    }
    for (at, plan) in plans.iter().enumerate().filter(|(at, plan)| !referenced.contains(at) && plan.support.is_none()) {
        let why = format!("no other service refers to {}", plan.workload.name);
        candidates.extend(plan.ports.iter().map(|port| Entry {
            plan: at,
            inside: port.inside,
            is_grpc: port.is_grpc,
            path: "/".to_owned(),
            why: why.clone(),
            confidence: Confidence::Guess,
        }));
    }
    candidates.retain(|entry| plans[entry.plan].support.is_none());
    let http = candidates.iter().position(|entry| !entry.is_grpc);
    let at = http.or_else(|| (!candidates.is_empty()).then_some(0))?;
    Some(candidates.swap_remove(at))
}

fn of_service(service: &ClusterService, port: Option<&PortRef>, plans: &[Plan], why: &str) -> Vec<Entry> {
    let Some(at) = plans.iter().position(|plan| selects(service, plan.workload)) else { return Vec::new() };
    let wanted = |number: u16, name: &str| match port {
        Some(PortRef::Number(wanted)) => *wanted == number,
        Some(PortRef::Name(wanted)) => wanted == name,
        None => true,
    };
    let ports = service.ports.iter().filter(|port| wanted(port.port, &port.name));
    let entry = |inside: u16| {
        let is_grpc = plans[at].ports.iter().any(|port| port.inside == inside && port.is_grpc);
        Entry { plan: at, inside, is_grpc, path: "/".to_owned(), why: why.to_owned(), confidence: Confidence::Likely }
    };
    ports.filter_map(|port| plans[at].inside(&port.target)).map(entry).collect()
}

#[cfg(test)]
mod tests;
