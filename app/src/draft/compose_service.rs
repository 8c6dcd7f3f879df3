//! One service of a docker-compose file, as the file and its Dockerfile state it.

use super::Command;
use super::compose_environment::{Interpolation, Variable, variables};
use super::compose_ports::{Port, ports};
use super::dockerfile::{Dockerfile, join};
use super::language::support;
use super::local_command::words;
use super::node::Node;
use super::port_text;
use std::path::{Path, PathBuf};

/// Keys that are read here, or that have no effect outside of containers. Others are noted as ignored.
const HANDLED: [&str; 27] = [
    "build",
    "image",
    "command",
    "entrypoint",
    "environment",
    "env_file",
    "ports",
    "expose",
    "healthcheck",
    "depends_on",
    "container_name",
    "restart",
    "networks",
    "labels",
    "logging",
    "stdin_open",
    "tty",
    "init",
    "pull_policy",
    "platform",
    "hostname",
    "stop_grace_period",
    "stop_signal",
    "security_opt",
    "cap_drop",
    "cap_add",
    "annotations",
];

/// A service as its file states it.
pub struct ComposeService {
    pub name: String,
    pub ports: Vec<Port>,
    pub variables: Vec<Variable>,
    /// Folder of the source, and its name in messages; `None`: only an image.
    pub folder: Option<(PathBuf, String)>,
    /// With the name to show.
    pub dockerfile: Option<(Dockerfile, String)>,
    pub image: String,
    /// With its source.
    pub start: Option<(Command, String)>,
    pub health: Option<Vec<String>>,
    /// The services it waits for.
    pub needs: Vec<String>,
}

/// `base`: the file's folder.
pub fn read(
    name: &str,
    node: &Node,
    base: &Path,
    interpolation: &mut Interpolation,
    notes: &mut Vec<String>,
) -> ComposeService {
    let mut notes_here = Vec::new();
    let unknown: Vec<&str> = node
        .entries()
        .iter()
        .map(|(key, _)| key.as_str())
        .filter(|key| !HANDLED.contains(key) && !key.starts_with("x-"))
        .collect();
    if !unknown.is_empty() {
        notes_here.push(format!("ignored: {}", unknown.join(", ")));
    }
    let mut text = |node: &Node| node.text().map(|text| interpolation.apply(&text));
    let build = node.get("build");
    let context = build.and_then(|build| text(build).or_else(|| build.get("context").and_then(&mut text)));
    let context = context.or_else(|| build.map(|_| ".".to_owned()));
    let dockerfile = build.and_then(|build| build.get("dockerfile")).and_then(&mut text);
    let folder = context.map(|context| {
        let shown = context.trim_start_matches("./").trim_end_matches('/').to_owned();
        (
            base.join(&context),
            if shown.is_empty() || shown == "." { "this folder".to_owned() } else { format!("{shown}/") },
        )
    });
    let dockerfile = folder.as_ref().and_then(|(path, shown)| {
        let name = dockerfile.unwrap_or_else(|| "Dockerfile".to_owned());
        match std::fs::read_to_string(path.join(&name)) {
            Ok(text) => {
                Some((Dockerfile::parse(&text), format!("{}{name}", if shown == "this folder" { "" } else { shown })))
            }
            Err(_) => {
                notes_here.push(format!("no {name} in {shown}"));
                None
            }
        }
    });
    let image = node.get("image").and_then(&mut text).unwrap_or_default();
    let mut form = |key: &str| match node.get(key)? {
        Node::List(items) => Some(Command::Words(items.iter().filter_map(&mut text).collect())),
        other => text(other).map(|line| Command::Words(words(&line))),
    };
    let (entrypoint, command) = (form("entrypoint"), form("command"));
    let start = match (entrypoint, command, &dockerfile) {
        (None, None, Some((file, at))) => file.start().map(|command| (command, at.clone())),
        (None, Some(command), Some((file, at))) if file.entrypoint.is_some() => {
            join(file.entrypoint.clone(), Some(command)).map(|command| (command, format!("{at} and command")))
        }
        (None, command, _) => command.map(|command| (command, "command".to_owned())),
        (entrypoint, command, _) => join(entrypoint, command).map(|command| (command, "entrypoint".to_owned())),
    };
    let health = match node.get("healthcheck").and_then(|check| check.get("test")) {
        Some(Node::List(items)) => Some(items.iter().filter_map(&mut text).collect()),
        Some(other) => text(other).map(|line| words(&line)),
        None => None,
    };
    let needs = match node.get("depends_on") {
        Some(Node::Map(entries)) => entries.iter().map(|(name, _)| name.clone()).collect(),
        Some(list) => list.items().iter().filter_map(Node::text).collect(),
        None => Vec::new(),
    };
    let mut ports = ports(node, &mut |text| interpolation.apply(text), &mut notes_here);
    let variables = variables(node, base, interpolation, &mut notes_here);
    // other services use a port also if it is not published
    let mut add = |inside: Option<u16>| {
        if let Some(inside) = inside.filter(|inside| !ports.iter().any(|port| port.inside == *inside)) {
            ports.push(Port { inside, published: None });
        }
    };
    if !add_port_of_variables(&variables, &mut add) {
        let from_file = dockerfile.as_ref().and_then(|(file, _)| file.exposed.first().copied());
        let in_command = match &start {
            Some((Command::Words(words), _)) => port_text::in_command(words),
            Some((Command::Shell(line), _)) => port_text::in_command(&words(line)),
            None => None,
        };
        add(in_command.or(from_file.filter(|_| node.get("ports").is_none() && node.get("expose").is_none())));
    }
    if folder.is_none() && ports.is_empty() {
        ports.extend(support(&image).map(|(_, inside)| Port { inside, published: None }));
    }
    notes.extend(notes_here.into_iter().map(|note| format!("{name}: {note}")));
    ComposeService { name: name.to_owned(), ports, variables, folder, dockerfile, image, start, health, needs }
}

/// False if no variable sets the port on which the service listens.
fn add_port_of_variables(variables: &[Variable], add: &mut dyn FnMut(Option<u16>)) -> bool {
    let port = variables.iter().find_map(|(name, value, _)| port_text::in_variable(name, value.as_deref()?));
    add(port);
    port.is_some()
}
