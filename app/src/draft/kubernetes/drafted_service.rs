//! One workload as a service of the target: started from its source, or attached.

use super::Places;
use super::environment::Variable;
use super::network::Network;
use super::plan::{Plan, Port};
use super::renderer::program;
use super::resources::ProbeCheck;
use super::sources::{Source, Start};
use crate::draft::language::{self, folder_sdk, mark_support, program_sdk};
use crate::draft::local_command::{local, words};
use crate::draft::{Command, Confidence, Guess, Service, guess, likely, port_text, stated};
use crate::text::quoted;
use std::path::Path;
use target::Sdk;

/// The default of `start_timeout_s` in target files.
const START_TIMEOUT_S: u64 = 20;
/// Support programs that start without a configuration, with the flags that set their port and address.
const STARTABLE: [(&str, &[&str]); 3] = [
    ("redis-server", &["--save", "", "--bind", "127.0.0.1", "--port"]),
    ("valkey-server", &["--save", "", "--bind", "127.0.0.1", "--port"]),
    ("memcached", &["-l", "127.0.0.1", "-p"]),
];

pub struct Drafted {
    /// `None`: it has no address, so it cannot be attached.
    pub service: Option<Service>,
    pub notes: Vec<String>,
    /// Starts what is attached.
    pub starts: Option<String>,
    /// The environment has values of Secrets.
    pub contains_secrets: bool,
}

pub fn service(plan: &Plan, network: &Network, places: &Places) -> Drafted {
    match (plan.support, &plan.source) {
        (Some((name, _)), _) => support(plan, name),
        (None, Some(source)) => process(plan, source, network, places),
        (None, None) => {
            let image = &plan.workload.container.image;
            let why = match image.is_empty() {
                true => "its container has no image, and no source directory here has its name".to_owned(),
                false => format!("image '{image}' has no source directory here"),
            };
            attached(plan, &why)
        }
    }
}

fn process(plan: &Plan, source: &Source, network: &Network, places: &Places) -> Drafted {
    let workload = plan.workload;
    let shown = match source.folder.strip_prefix(places.current) {
        Ok(path) if path.as_os_str().is_empty() => "this folder".to_owned(),
        Ok(path) => format!("{}/", path.display()),
        Err(_) => format!("{}/", source.folder.display()),
    };
    let file = source.dockerfile();
    let program = plan.start.as_ref().and_then(|(command, _)| match command {
        Command::Words(all) => program_sdk(all),
        Command::Shell(line) => program_sdk(&words(line)),
    });
    let of_start = match &source.start {
        Start::GoCommand(name) => Some(likely(Sdk::Go, format!("package ./cmd/{name} in {shown}"))),
        Start::JavaClass(name) => Some(likely(Sdk::Java, format!("{name}.java in {shown}"))),
        Start::Project(_) | Start::Script(..) => None,
    };
    let of_file = || file.as_ref().and_then(|file| file.sdk(&format!("{shown}Dockerfile")));
    let sdk = of_start.or(program).or_else(of_file).or_else(|| folder_sdk(&source.folder, &shown));
    let sdk = sdk.unwrap_or_else(|| language::none(format!("found no language with an SDK in {shown}")));
    let name = match &source.start {
        Start::GoCommand(name) => name,
        _ => &workload.name,
    };
    let workdir = file.as_ref().and_then(|file| file.workdir.as_deref());
    let mut local = local(name, &source.folder, &shown, sdk.value, plan.start.clone(), workdir);
    if local.command.confidence == Confidence::Open {
        return attached(plan, &format!("its source is in {shown}, but how it is started is not stated there"));
    }
    let mut notes = Vec::new();
    let mut service = Service::new(&workload.name, sdk);
    environment(plan, network, &mut service, &mut notes);
    if let Command::Words(words) = &mut local.command.value {
        for word in words.iter_mut() {
            *word = network.rewrite(&workload.namespace, "", word, &[]).text;
        }
    }
    for port in &plan.ports {
        if let Command::Words(words) = &mut local.command.value
            && let Some(changed) = port_text::replaced_in_command(words, port.inside, port.local)
        {
            *words = changed;
        }
    }
    unmovable(plan, &mut service, &mut notes);
    service.listens = plan.ports.iter().map(listens).collect();
    service.health = health(plan);
    let path = relative(places.base, &source.folder);
    if path != "." {
        service.directory = Some(likely(path, how_found(plan)));
    }
    service.start_timeout_s = workload
        .container
        .start_timeout_s
        .filter(|s| *s > START_TIMEOUT_S)
        .map(|s| stated(s.min(3600), "how long its probes allow it"));
    service.command = Some(local.command);
    service.build = local.build;
    if !workload.init_containers.is_empty() {
        notes.push(format!("init containers are not run: {}", workload.init_containers.join(", ")));
    }
    if !workload.sidecars.is_empty() {
        notes.push(format!("other containers of its pod are not started: {}", workload.sidecars.join(", ")));
    }
    if !workload.mounts.is_empty() {
        notes.push(format!("files of the pod that do not exist on this machine: {}", workload.mounts.join(", ")));
    }
    let notes = notes.into_iter().map(|note| format!("{}: {note}", workload.name)).collect();
    let contains_secrets = plan.variables.iter().any(|variable| variable.is_secret);
    Drafted { service: Some(service), notes, starts: None, contains_secrets }
}

fn how_found(plan: &Plan) -> String {
    let name = &plan.workload.name;
    match plan.source.as_ref().map(|source| &source.start) {
        Some(Start::GoCommand(command)) => format!("its package cmd/{command} matches Deployment '{name}'"),
        Some(Start::Script(_, file)) => format!("its file {file} matches '{name}'"),
        Some(Start::JavaClass(class)) => format!("its class {class} matches '{name}'"),
        _ => format!("its name matches '{name}' or its image"),
    }
    .replace("Deployment ", &format!("{} ", plan.workload.kind))
}

fn environment(plan: &Plan, network: &Network, service: &mut Service, notes: &mut Vec<String>) {
    let all: Vec<(String, String)> =
        plan.variables.iter().map(|own| (own.name.clone(), own.value.value.clone())).collect();
    let mut secrets = Vec::new();
    let mut unreachable = Vec::new();
    let is_ours = |variable: &&Variable| variable.name.starts_with("FAULTLOOM_");
    if plan.variables.iter().any(|variable| is_ours(&variable)) {
        notes.push("its variables FAULTLOOM_… are left out, since `up` sets them".to_owned());
    }
    for variable in plan.variables.iter().filter(|variable| !is_ours(variable)) {
        let (name, value) = (&variable.name, &variable.value.value);
        let found = network.rewrite(&plan.workload.namespace, name, value, &all);
        unreachable.extend(found.unreachable);
        let mut drafted = match found.replaced.as_slice() {
            [] => variable.value.clone(),
            replaced => likely(found.text, format!("{} in the cluster", replaced.join(", "))),
        };
        for port in plan.ports.iter().filter(|port| port.local != port.inside) {
            if port_text::in_variable(name, value) == Some(port.inside)
                && let Some(text) = port_text::replaced(value, port.inside, port.local)
            {
                drafted = likely(text, format!("{value} in the cluster"));
            }
        }
        if let Some(text) = loopback(&drafted.value).filter(|_| is_bind(name)) {
            drafted = likely(text, format!("{value} in the cluster; here only this machine reaches it"));
        }
        if variable.is_secret {
            secrets.push(name.as_str());
        }
        service.environment.push((name.clone(), drafted));
    }
    if !secrets.is_empty() {
        notes.push(format!("the target file contains values of Secrets ({}): do not publish it", secrets.join(", ")));
    }
    if !unreachable.is_empty() {
        unreachable.sort();
        unreachable.dedup();
        notes.push(format!(
            "refers to {}, a port that its Service does not have: correct the variable in the target file",
            unreachable.join(", ")
        ));
    }
}

fn is_bind(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["BIND", "HOST", "LISTEN", "ADDR", "ADDRESS"].iter().any(|word| name.contains(word))
}

/// `0.0.0.0` as the loopback address.
fn loopback(value: &str) -> Option<String> {
    let rest = ["0.0.0.0", "[::]"].iter().find_map(|any| value.strip_prefix(any))?;
    (rest.is_empty() || rest.starts_with(':')).then(|| format!("127.0.0.1{rest}"))
}

/// Ports that had to change although no variable and no flag sets them.
fn unmovable(plan: &Plan, service: &mut Service, notes: &mut Vec<String>) {
    let Some(port) = plan.ports.iter().find(|port| port.local != port.inside && !port.is_movable) else { return };
    let variables: &[&str] = if service.sdk.value == Sdk::Java { &["PORT", "SERVER_PORT"] } else { &["PORT"] };
    for name in variables {
        if !service.environment.iter().any(|(own, _)| own == name) {
            let from = "no variable or flag sets its port, and many programs read this one";
            service.environment.push(((*name).to_owned(), guess(port.local.to_string(), from)));
        }
    }
    notes.push(format!(
        "port {} is in use here by another service, and no variable or flag sets it: PORT={} is a guess; if the program \
         does not read PORT, change the port of one of them in the target file",
        port.inside, port.local
    ));
}

fn listens(port: &Port) -> Guess<String> {
    let address = format!("127.0.0.1:{}", port.local);
    match port.local == port.inside {
        true => likely(address, port.from.clone()),
        false => guess(address, format!("{}; {} in the cluster, moved to a free port", port.from, port.inside)),
    }
}

fn health(plan: &Plan) -> Option<Guess<(&'static str, String)>> {
    let probe = plan.workload.container.probe.as_ref()?;
    let local = |port| plan.local(plan.inside(port)?);
    let check = match &probe.check {
        ProbeCheck::Http { port, path, https: false }
            if !path.contains(|c: char| c.is_whitespace() || c.is_control()) =>
        {
            ("http", format!("http://127.0.0.1:{}{path}", local(port)?))
        }
        ProbeCheck::Http { port, .. } | ProbeCheck::Tcp(port) => ("tcp", format!("127.0.0.1:{}", local(port)?)),
        ProbeCheck::Grpc(port) => ("grpc", format!("127.0.0.1:{}", local(port)?)),
    };
    Some(stated(check, probe.from))
}

/// A database, a cache, a queue: from an installed program if it needs no configuration, else in a container.
fn support(plan: &Plan, name: &'static str) -> Drafted {
    let workload = plan.workload;
    let mut service = Service::new(&workload.name, language::none(""));
    mark_support(&mut service, name);
    service.listens = plan.ports.iter().map(listens).collect();
    let plain = |own: &str| own == name || own.strip_suffix("-server") == Some(name);
    let startable = STARTABLE.iter().find(|(own, _)| plain(own) && program(own).is_some());
    let is_plain = workload.container.command.is_none() && workload.container.args.is_none();
    if let (Some((program, flags)), Some(port), true) = (startable, plan.ports.first(), is_plain) {
        let flags = flags.iter().map(|flag| (*flag).to_owned());
        let command = [vec![(*program).to_owned()], flags.collect(), vec![port.local.to_string()]].concat();
        service.command = Some(likely(Command::Words(command), format!("{program} is installed here")));
        return Drafted { service: Some(service), notes: Vec::new(), starts: None, contains_secrets: false };
    }
    if service.listens.is_empty() {
        return attached(plan, &format!("{name} has no port"));
    }
    service.attached =
        Some(format!("image '{}' has no source directory: run it in a container", workload.container.image));
    let ports: String = plan.ports.iter().map(|port| format!(" -p 127.0.0.1:{}:{}", port.local, port.inside)).collect();
    let variable = |own: &Variable| match own.is_secret {
        // its value belongs neither on a terminal nor in a history of commands
        true => format!(" -e {}", quoted(&own.name)),
        false => format!(" -e {}", quoted(&format!("{}={}", own.name, own.value.value))),
    };
    let variables: String = plan.variables.iter().map(variable).collect();
    let secrets: Vec<&str> = plan.variables.iter().filter(|own| own.is_secret).map(|own| own.name.as_str()).collect();
    let first = match secrets.is_empty() {
        true => String::new(),
        false => format!("    (export {} first)", secrets.join(" ")),
    };
    let image = quoted(&workload.container.image);
    let mut words: Vec<String> = workload.container.command.iter().flatten().skip(1).cloned().collect();
    words.extend(workload.container.args.iter().flatten().cloned());
    let entrypoint = workload.container.command.as_ref().and_then(|command| command.first());
    let entrypoint = entrypoint.map(|program| format!(" --entrypoint {}", quoted(program))).unwrap_or_default();
    let words: String = words.iter().map(|word| format!(" {}", quoted(word))).collect();
    let starts = format!("docker run -d --rm{ports}{variables}{entrypoint} {image}{words}{first}");
    Drafted { service: Some(service), notes: Vec::new(), starts: Some(starts), contains_secrets: false }
}

/// Something else has to start it.
fn attached(plan: &Plan, why: &str) -> Drafted {
    let workload = plan.workload;
    let name = &workload.name;
    let Some(port) = plan.ports.first() else {
        let note = format!(
            "{}: no command for service '{name}': {why}; it has no port either, so it is left out; add it to the target \
             file with `command:`",
            workload.at
        );
        return Drafted { service: None, notes: vec![note], starts: None, contains_secrets: false };
    };
    let mut service =
        Service::new(name, language::none(format!("image {} is not started here", workload.container.image)));
    service.listens = plan.ports.iter().map(listens).collect();
    service.health = health(plan);
    service.attached = Some(format!("{why}; set `command:`, or start it yourself"));
    let kind = workload.kind.to_lowercase();
    let starts =
        format!("kubectl port-forward {kind}/{name} {}:{}    (or set its `command:`)", port.local, port.inside);
    let note = format!("{}: no command for service '{name}': {why}; set `command:`", workload.at);
    Drafted { service: Some(service), notes: vec![note], starts: Some(starts), contains_secrets: false }
}

/// `folder` as seen from `base`, both absolute.
fn relative(base: &Path, folder: &Path) -> String {
    let common = base.components().zip(folder.components()).take_while(|(a, b)| a == b).count();
    let up = base.components().count() - common;
    let mut parts = vec!["..".to_owned(); up];
    parts.extend(folder.components().skip(common).map(|part| part.as_os_str().to_string_lossy().into_owned()));
    if parts.is_empty() { ".".to_owned() } else { parts.join("/") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_relative_to_the_target_file() {
        let relative = |base: &str, folder: &str| relative(Path::new(base), Path::new(folder));
        assert_eq!(relative("/a/b", "/a/b/c/d"), "c/d");
        assert_eq!(relative("/a/b", "/a/b"), ".");
        assert_eq!(relative("/a/b", "/a/x/y"), "../x/y");
    }

    #[test]
    fn listening_everywhere_becomes_listening_on_the_loopback_address() {
        assert_eq!(loopback("0.0.0.0:80").as_deref(), Some("127.0.0.1:80"));
        assert_eq!(
            (loopback("0.0.0.0").as_deref(), loopback("0.0.0.01"), loopback(":80")),
            (Some("127.0.0.1"), None, None)
        );
    }
}
