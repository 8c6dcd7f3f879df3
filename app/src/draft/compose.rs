//! A docker-compose file as a target.
//!
//! A service with a source (`build:`) becomes a process started from that source. One with an image only has no
//! source to start here: it stays in its container and is attached, a database marked as support. Addresses of the
//! compose network (`db:5432`) become addresses of this machine.

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

/// `shown`: what messages call the file.
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
            .why("a compose file has them below the key 'services'")
            .next("name another file, or take what runs: faultloom init --attach"));
    }
    for (key, _) in document.entries() {
        if !["name", "version", "services", "volumes", "networks"].contains(&key.as_str()) && !key.starts_with("x-") {
            draft.notes.push(format!("'{key}' of {shown} is not taken over"));
        }
    }
    let mut interpolation = Interpolation::beside(folder);
    let read: Vec<ComposeService> =
        services.iter().map(|(name, node)| read(name, node, folder, &mut interpolation, &mut draft.notes)).collect();
    if !interpolation.missing.is_empty() {
        let names = interpolation.missing.join(", ");
        draft.notes.push(format!("no value for {names}: neither .env nor a default gives one, so it is empty"));
    }
    let places = place(&read);
    let mut moved = Moved::default();
    for (service, place) in read.iter().zip(&places) {
        moved.service(&service.name);
        for (port, here) in service.ports.iter().zip(place) {
            if let Some(here) = here {
                moved.put(&service.name, port.inside, *here);
            }
        }
    }
    for (service, place) in read.iter().zip(&places) {
        let drafted = match &service.folder {
            Some((path, at)) => process(service, path, at, place, &moved, &mut draft.notes),
            None => container(service, place, shown),
        };
        draft.services.push(drafted);
    }
    draft.entry = entry(&read, &draft.services);
    Ok(draft)
}

/// For each service, for each of its ports: the port of this machine, `None` if only the user can say.
fn place(services: &[ComposeService]) -> Vec<Vec<Option<u16>>> {
    let mut taken: BTreeSet<u16> = BTreeSet::new();
    // what is published is fixed: people and scripts know it
    for port in services.iter().flat_map(|service| &service.ports) {
        taken.extend(port.published);
    }
    let mut places = Vec::new();
    for service in services {
        let mut own = Vec::new();
        for port in &service.ports {
            let movable = service.folder.is_some() && movable(service, port.inside);
            let here = match (port.published, &service.folder) {
                (published, None) => published,
                (Some(published), _) if published == port.inside || movable => Some(published),
                (Some(_), _) => free(&mut taken, port.inside, false),
                (None, _) => free(&mut taken, port.inside, movable),
            };
            own.push(here);
        }
        places.push(own);
    }
    places
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

/// Whether a variable or a flag says the port, so that another can be said.
fn movable(service: &ComposeService, inside: u16) -> bool {
    service.variables.iter().any(|(name, value, _)| {
        value.as_deref().is_some_and(|value| port_text::in_variable(name, value) == Some(inside))
    }) || matches!(&service.start, Some((Command::Words(words), _)) if port_text::in_command(words) == Some(inside))
}

fn process(
    read: &ComposeService,
    path: &Path,
    shown: &str,
    place: &[Option<u16>],
    moved: &Moved,
    notes: &mut Vec<String>,
) -> Service {
    let from_file = read.dockerfile.as_ref().and_then(|(file, at)| {
        // pages that a web server hands out were only built with the first stages' language
        if support(file.image()).is_some() { None } else { file.sdk(at) }
    });
    let program = match &read.start {
        Some((Command::Words(words), _)) => program_sdk(words),
        Some((Command::Shell(line), _)) => program_sdk(&words(line)),
        None => None,
    };
    let sdk = program.or(from_file).or_else(|| folder_sdk(path, shown));
    let sdk = sdk.unwrap_or_else(|| language::none(format!("nothing in {shown} tells a language that has an SDK")));
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
        for (port, here) in read.ports.iter().zip(place) {
            let own = port_text::in_variable(name, value) == Some(port.inside);
            if let (true, Some(here)) = (own && *here != Some(port.inside), here)
                && let Some(text) = port_text::replaced(value, port.inside, *here)
            {
                drafted = likely(text, format!("{value} in its container"));
            }
        }
        service.environment.push((name.clone(), drafted));
    }
    for (port, here) in read.ports.iter().zip(place) {
        if let (Some(here), Some(Guess { value: Command::Words(words), .. })) = (here, Some(&mut local.command))
            && let Some(changed) = port_text::replaced_in_command(words, port.inside, *here)
        {
            *words = changed;
        }
        service.listens.push(match (here, port.published) {
            (Some(here), Some(published)) if *here == published => {
                stated(format!("127.0.0.1:{here}"), "published in `ports`")
            }
            (Some(here), _) if *here == port.inside => {
                likely(format!("127.0.0.1:{here}"), format!("its port {} in the container", port.inside))
            }
            (Some(here), _) => guess(
                format!("127.0.0.1:{here}"),
                format!("{} in its container, where every service may have it", port.inside),
            ),
            (None, _) => open(
                &format!("which port? it has {} in its container, and nothing here says how to change it", port.inside),
                "two services cannot share a port, and ports below 1024 need privileges",
            ),
        });
    }
    service.health = read.health.as_ref().and_then(|test| health(test, &read.ports, place));
    if shown != "this folder" {
        service.directory = Some(stated(shown.trim_end_matches('/').to_owned(), "its build context"));
    }
    service.command = Some(local.command);
    service.build = local.build;
    service
}

/// An image without source here.
fn container(read: &ComposeService, place: &[Option<u16>], shown: &str) -> Service {
    let image = image_name(&read.image).to_owned();
    let mut service = Service::new(&read.name, language::none(format!("image {}: its source is not here", read.image)));
    if let Some((name, _)) = support(&read.image) {
        mark_support(&mut service, name);
    }
    service.attached = Some(format!("stays in its container of {shown}"));
    for (port, here) in read.ports.iter().zip(place) {
        service.listens.push(match here {
            Some(here) => stated(format!("127.0.0.1:{here}"), "published in `ports`"),
            None => open(
                &format!("publish its port, such as ports: [\"{0}:{0}\"], and write it here", port.inside),
                format!("{image} is reached from this machine by a published port only"),
            ),
        });
    }
    if service.listens.is_empty() {
        service.listens.push(open("where is it reached?", format!("{shown} names no port of {}", read.name)));
    }
    service.health = read.health.as_ref().and_then(|test| health(test, &read.ports, place));
    service
}

/// A container's own check, as one from outside: a URL that curl or wget asks, gRPC's probe. Others have no
/// counterpart.
fn health(test: &[String], ports: &[Port], place: &[Option<u16>]) -> Option<Guess<(&'static str, String)>> {
    let words: Vec<String> = test.iter().flat_map(|word| words(word)).collect();
    let here = |port: u16| {
        let found = ports.iter().zip(place).find(|(own, _)| own.inside == port);
        found.map_or(Some(port), |(_, here)| *here)
    };
    if words.iter().any(|word| word.ends_with("grpc_health_probe") || word == "grpc-health-probe") {
        let port = words.iter().find_map(|word| port_text::at_end(word.trim_start_matches("-addr=")))?;
        return Some(likely(("grpc", format!("127.0.0.1:{}", here(port)?)), "healthcheck: its gRPC probe"));
    }
    let url =
        words.iter().find_map(|word| word.strip_prefix("http://").map(|rest| rest.trim_end_matches(['\'', '"'])))?;
    let (authority, path) = url.split_once('/').unwrap_or((url, ""));
    let port = authority.split_once(':').map_or(Some(80), |(_, port)| port.parse().ok())?;
    let address = format!("http://127.0.0.1:{}/{path}", here(port)?);
    Some(likely(("http", address), "healthcheck: the URL it asks"))
}

/// The service that has a published port and that no other one needs.
fn entry(read: &[ComposeService], services: &[Service]) -> Option<Guess<String>> {
    let needed: BTreeSet<&str> = read.iter().flat_map(|service| service.needs.iter().map(String::as_str)).collect();
    let candidates: Vec<usize> = (0..read.len())
        .filter(|at| read[*at].ports.iter().any(|port| port.published.is_some()))
        .filter(|at| services[*at].support.is_none() && services[*at].sdk.value != Sdk::None)
        .collect();
    let first = candidates.iter().find(|at| !needed.contains(read[**at].name.as_str())).or(candidates.first())?;
    let address = services[*first].listens.iter().find(|listen| listen.sure != super::Sure::Open)?;
    let why = match needed.contains(read[*first].name.as_str()) {
        true => "the first service with a published port",
        false => "has a published port, and no other service needs it",
    };
    Some(guess(format!("http://{}/", address.value), format!("{} {why}", read[*first].name)))
}
