//! A docker-compose file as a target.
//!
//! A service with a build context becomes a process that is started from its source. A service with only an image keeps
//! running in its container and is attached; databases and the like are marked as support. Addresses of the compose
//! network (`db:5432`) become addresses of this machine.

use super::compose_environment::Interpolation;
use super::compose_ports::{Moved, Port};
use super::compose_service::{ComposeService, read};
use super::language::{self, folder_sdk, image_name, mark_support, program_sdk, support};
use super::local_command::{local, words};
use super::node::{self, Node};
use super::{Command, Draft, Guess, Service, folder_name, guess, is_secret, likely, open, port_text, stated};
use model::Failure;
use std::collections::BTreeSet;
use std::path::Path;
use target::Sdk;

pub const NAMES: [&str; 4] = ["compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"];

/// `shown`: the file's name in messages.
pub fn draft(file: &Path, shown: &str) -> Result<Draft, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::request(format!("cannot read {shown}")).why(error.to_string()).next("check the path")
    })?;
    let document = node::parse(&text, shown)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = match document.get("name").and_then(Node::text) {
        Some(name) => stated(name, format!("name in {shown}")),
        None => folder_name(folder),
    };
    let mut draft = Draft::new(shown, name);
    let services = document.get("services").map(Node::entries).unwrap_or_default();
    if services.is_empty() {
        return Err(Failure::request(format!("{shown} has no services"))
            .why("a compose file has them below the key 'services'"));
    }
    for (key, _) in document.entries() {
        if !["name", "version", "services", "volumes", "networks"].contains(&key.as_str()) && !key.starts_with("x-") {
            draft.notes.push(format!("'{key}' of {shown} is ignored"));
        }
    }
    let mut interpolation = Interpolation::of_folder(folder);
    let read: Vec<ComposeService> =
        services.iter().map(|(name, node)| read(name, node, folder, &mut interpolation, &mut draft.notes)).collect();
    if !interpolation.missing.is_empty() {
        let names = interpolation.missing.join(", ");
        draft.notes.push(format!("{names} has no value in .env and no default, so it is empty"));
    }
    let local_ports = assign_ports(&read);
    let mut moved = Moved::default();
    for (service, local_ports) in read.iter().zip(&local_ports) {
        moved.service(&service.name);
        for (port, local) in service.ports.iter().zip(local_ports) {
            if let Some(local) = local {
                moved.put(&service.name, port.inside, *local);
            }
        }
    }
    for (service, local_ports) in read.iter().zip(&local_ports) {
        let drafted = match &service.folder {
            Some((path, at)) => process(service, path, at, local_ports, &moved, &mut draft.notes),
            None => container(service, local_ports, shown),
        };
        draft.services.push(drafted);
    }
    draft.entry = entry(&read, &draft.services);
    let attached = draft.services.iter().filter(|service| service.attached.is_some());
    let attached: Vec<&str> = attached.map(|service| service.name.as_str()).collect();
    if !attached.is_empty() {
        draft.starts.push(format!("docker compose -f {shown} up -d {}", attached.join(" ")));
    }
    Ok(draft)
}

/// For each port of each service: the port on this machine, `None` if only the user can choose it.
fn assign_ports(services: &[ComposeService]) -> Vec<Vec<Option<u16>>> {
    let mut taken: BTreeSet<u16> = BTreeSet::new();
    // published ports stay as they are: people and scripts use them
    for port in services.iter().flat_map(|service| &service.ports) {
        taken.extend(port.published);
    }
    let mut assigned = Vec::new();
    for service in services {
        let mut own = Vec::new();
        for port in &service.ports {
            let movable = service.folder.is_some() && movable(service, port.inside);
            let local = match (port.published, &service.folder) {
                (published, None) => published,
                (Some(published), _) if published == port.inside || movable => Some(published),
                (Some(_), _) => free(&mut taken, port.inside, false),
                (None, _) => free(&mut taken, port.inside, movable),
            };
            own.push(local);
        }
        assigned.push(own);
    }
    assigned
}

/// The port itself if it is free; one of its neighbors if it can be moved. Below 1024 a port needs privileges.
fn free(taken: &mut BTreeSet<u16>, port: u16, movable: bool) -> Option<u16> {
    let first = if port < 1024 { port.checked_add(8000)? } else { port };
    let found = match movable {
        true => (first..=u16::MAX).find(|port| !taken.contains(port))?,
        false => Some(port).filter(|port| *port >= 1024 && !taken.contains(port))?,
    };
    taken.insert(found);
    Some(found)
}

/// Whether a variable or a flag sets the port, so that it can be changed.
fn movable(service: &ComposeService, inside: u16) -> bool {
    service.variables.iter().any(|(name, value, _)| {
        value.as_deref().is_some_and(|value| port_text::in_variable(name, value) == Some(inside))
    }) || matches!(&service.start, Some((Command::Words(words), _)) if port_text::in_command(words) == Some(inside))
}

fn process(
    read: &ComposeService,
    path: &Path,
    shown: &str,
    local_ports: &[Option<u16>],
    moved: &Moved,
    notes: &mut Vec<String>,
) -> Service {
    let from_file = read.dockerfile.as_ref().and_then(|(file, at)| {
        // the pages of a web server were only built with the language of the first stages
        if support(file.image()).is_some() { None } else { file.sdk(at) }
    });
    let program = match &read.start {
        Some((Command::Words(words), _)) => program_sdk(words),
        Some((Command::Shell(line), _)) => program_sdk(&words(line)),
        None => None,
    };
    let sdk = program.or(from_file).or_else(|| folder_sdk(path, shown));
    let sdk = sdk.unwrap_or_else(|| language::none(format!("found no language with an SDK in {shown}")));
    let workdir = read.dockerfile.as_ref().and_then(|(file, _)| file.workdir.as_deref());
    let mut local = local(&read.name, path, shown, sdk.value, read.start.clone(), workdir);
    let mut service = Service::new(&read.name, sdk);
    let all: Vec<(String, String)> =
        read.variables.iter().map(|(name, value, _)| (name.clone(), value.clone().unwrap_or_default())).collect();
    for (name, value, from) in &read.variables {
        let Some(value) = value else { continue };
        if is_secret(name) && from != "environment" {
            notes.push(format!("{}: {name} of {from} is not copied: export it before `faultloom up`", read.name));
            continue;
        }
        let (text, replaced) = moved.rewrite(name, value, &all);
        let mut drafted = match replaced.as_str() {
            "" => stated(text, from.clone()),
            replaced => likely(text, format!("{replaced} in the compose network")),
        };
        for (port, local) in read.ports.iter().zip(local_ports) {
            let own = port_text::in_variable(name, value) == Some(port.inside);
            if let (true, Some(local)) = (own && *local != Some(port.inside), local)
                && let Some(text) = port_text::replaced(value, port.inside, *local)
            {
                drafted = likely(text, format!("{value} in its container"));
            }
        }
        service.environment.push((name.clone(), drafted));
    }
    for (port, local_port) in read.ports.iter().zip(local_ports) {
        if let (Some(local_port), Command::Words(words)) = (local_port, &mut local.command.value)
            && let Some(changed) = port_text::replaced_in_command(words, port.inside, *local_port)
        {
            *words = changed;
        }
        service.listens.push(match (local_port, port.published) {
            (Some(local), Some(published)) if *local == published => {
                stated(format!("127.0.0.1:{local}"), "published in `ports`")
            }
            (Some(local), _) if *local == port.inside => {
                likely(format!("127.0.0.1:{local}"), format!("its port {} in the container", port.inside))
            }
            (Some(local), _) => {
                guess(format!("127.0.0.1:{local}"), format!("{} in its container; moved to a free port", port.inside))
            }
            (None, _) => open(
                &format!("which port? its container uses {}, and no variable or flag sets it", port.inside),
                "two services cannot share a port, and ports below 1024 need privileges",
            ),
        });
    }
    service.health = read.health.as_ref().and_then(|test| health(test, &read.ports, local_ports));
    if shown != "this folder" {
        service.directory = Some(stated(shown.trim_end_matches('/').to_owned(), "its build context"));
    }
    service.command = Some(local.command);
    service.build = local.build;
    service
}

/// A service without a build context.
fn container(read: &ComposeService, local_ports: &[Option<u16>], shown: &str) -> Service {
    let image = image_name(&read.image).to_owned();
    let mut service =
        Service::new(&read.name, language::none(format!("image {}: it has no build context", read.image)));
    if let Some((name, _)) = support(&read.image) {
        mark_support(&mut service, name);
    }
    service.attached = Some(format!("runs in its container of {shown}"));
    for (port, local) in read.ports.iter().zip(local_ports) {
        service.listens.push(match local {
            Some(local) => stated(format!("127.0.0.1:{local}"), "published in `ports`"),
            None => open(
                &format!("publish its port, such as ports: [\"{0}:{0}\"], and write it here", port.inside),
                format!("this machine reaches {image} only by a published port"),
            ),
        });
    }
    if service.listens.is_empty() {
        service
            .listens
            .push(open("at which address does it listen?", format!("{shown} names no port of {}", read.name)));
    }
    service.health = read.health.as_ref().and_then(|test| health(test, &read.ports, local_ports));
    service
}

/// A container's health check as a check from outside: the URL of curl or wget, or gRPC's probe. Other checks have no
/// counterpart.
fn health(test: &[String], ports: &[Port], local_ports: &[Option<u16>]) -> Option<Guess<(&'static str, String)>> {
    let words: Vec<String> = test.iter().flat_map(|word| words(word)).collect();
    let local = |port: u16| {
        let found = ports.iter().zip(local_ports).find(|(own, _)| own.inside == port);
        found.map_or(Some(port), |(_, local)| *local)
    };
    if words.iter().any(|word| word.ends_with("grpc_health_probe") || word == "grpc-health-probe") {
        let port = words.iter().find_map(|word| port_text::at_end(word.trim_start_matches("-addr=")))?;
        return Some(likely(("grpc", format!("127.0.0.1:{}", local(port)?)), "the gRPC probe of its healthcheck"));
    }
    let url =
        words.iter().find_map(|word| word.strip_prefix("http://").map(|rest| rest.trim_end_matches(['\'', '"'])))?;
    let (authority, path) = url.split_once('/').unwrap_or((url, ""));
    let port = authority.split_once(':').map_or(Some(80), |(_, port)| port.parse().ok())?;
    let address = format!("http://127.0.0.1:{}/{path}", local(port)?);
    Some(likely(("http", address), "the URL of its healthcheck"))
}

/// The service that has a published port and that no other service depends on.
fn entry(read: &[ComposeService], services: &[Service]) -> Option<Guess<String>> {
    let needed: BTreeSet<&str> = read.iter().flat_map(|service| service.needs.iter().map(String::as_str)).collect();
    let candidates: Vec<usize> = (0..read.len())
        .filter(|at| read[*at].ports.iter().any(|port| port.published.is_some()))
        .filter(|at| services[*at].support.is_none() && services[*at].sdk.value != Sdk::None)
        .collect();
    let first = candidates.iter().find(|at| !needed.contains(read[**at].name.as_str())).or(candidates.first())?;
    let address = services[*first].listens.iter().find(|listen| listen.confidence != super::Confidence::Open)?;
    let why = match needed.contains(read[*first].name.as_str()) {
        true => "the first service with a published port",
        false => "has a published port, and no other service needs it",
    };
    Some(guess(format!("http://{}/", address.value), format!("{} {why}", read[*first].name)))
}
