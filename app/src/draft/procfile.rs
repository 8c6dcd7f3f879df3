//! A Procfile as a target: one service per line, `name: command`.
//!
//! Tools that run a Procfile set `$PORT` for each process type, from 5000 on in steps of 100. The draft does the same
//! for commands that use `$PORT`.

use super::compose_environment::lines;
use super::language::{self, folder_sdk, mark_support, program_sdk, support};
use super::local_command::{go_package, words};
use super::{Build, Command, Draft, Service, folder_name, guess, is_secret, likely, port_text, stated};
use model::Failure;
use std::path::Path;
use target::Sdk;

const FIRST_PORT: u16 = 5000;
const STEP: u16 = 100;
/// Process types that run once and end.
const ONCE: [&str; 2] = ["release", "postdeploy"];

pub fn draft(file: &Path, shown: &str) -> Result<Draft, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::request(format!("cannot read {shown}")).why(error.to_string()).next("check the path")
    })?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut draft = Draft::new(shown, folder_name(folder));
    let mut variables = Vec::new();
    for (name, value) in std::fs::read_to_string(folder.join(".env")).map(|text| lines(&text)).unwrap_or_default() {
        match is_secret(&name) {
            true => draft.notes.push(format!("{name} of .env is not copied: export it before `faultloom up`")),
            false => variables.push((name, stated(value, ".env"))),
        }
    }
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, command)) = line.split_once(':').filter(|(name, _)| name.chars().all(plain)) else {
            return Err(Failure::request(format!("{shown}, line {}: not 'name: command'", number + 1))
                .why(format!("the line is: {line}"))
                .next("correct the line, or name another file"));
        };
        let command = command.trim();
        if ONCE.contains(&name) {
            draft.notes.push(format!("{name}: runs once and is not a service: {command}"));
            continue;
        }
        let mut service = line_service(name, command, draft.services.len(), folder);
        for (variable, guess) in variables.iter().filter(|(variable, _)| variable != "PORT") {
            if !service.environment.iter().any(|(own, _)| own == variable) {
                service.environment.push((variable.clone(), guess.clone()));
            }
        }
        draft.services.push(service);
    }
    if draft.services.is_empty() {
        return Err(Failure::request(format!("{shown} has no process types"))
            .why("such as: web: gunicorn -b 127.0.0.1:$PORT app:app"));
    }
    let web = draft.services.iter().find(|service| service.name == "web" && !service.listens.is_empty());
    draft.entry =
        web.map(|web| likely(format!("http://{}/", web.listens[0].value), "the web process receives requests"));
    Ok(draft)
}

/// `PORT=1 NAME=value program …`: the variables, and the rest. Values that only a shell can expand stay with the rest.
fn assignments(command: &str) -> (Vec<(String, String)>, &str) {
    let mut variables = Vec::new();
    let mut rest = command.trim_start();
    while let Some((word, after)) = rest.split_once(char::is_whitespace) {
        let Some((name, value)) = word.split_once('=') else { break };
        let named = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !named || value.contains(['$', '`', '\'', '"', '\\']) {
            break;
        }
        variables.push((name.to_owned(), value.to_owned()));
        rest = after.trim_start();
    }
    (variables, rest)
}

fn plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn line_service(name: &str, command: &str, at: usize, folder: &Path) -> Service {
    let (variables, command) = assignments(command);
    let split = words(command);
    let directory = split.windows(2).find(|pair| pair[0] == "cd").map(|pair| pair[1].clone());
    let inside = directory.as_ref().map_or(folder.to_owned(), |directory| folder.join(directory));
    let shown = directory.map_or("this folder".to_owned(), |directory| format!("{directory}/"));
    // after `cd … &&`
    let program: Vec<String> = match split.iter().rposition(|word| word == "&&") {
        Some(last) => split[last + 1..].to_vec(),
        None => split.clone(),
    };
    let local_binary = program.first().is_some_and(|first| first.contains('/'));
    let own = |folder: &Path, shown: &str| if local_binary { folder_sdk(folder, shown) } else { None };
    let sdk = program_sdk(&program)
        .or_else(|| language::binary_sdk(&program, &inside))
        .or_else(|| own(&inside, &shown))
        .or_else(|| own(&folder.join(name), &format!("{name}/")).filter(|sdk| sdk.value == Sdk::Go));
    let sdk = sdk.unwrap_or_else(|| language::none("found no language with an SDK in the command"));
    let mut service = Service::new(name, sdk);
    for (variable, value) in &variables {
        service.environment.push((variable.clone(), stated(value.clone(), "its line")));
    }
    let variable = variables.iter().find_map(|(name, value)| port_text::in_variable(name, value));
    if let Some((name, port)) = program.first().and_then(|program| support(program)) {
        mark_support(&mut service, name);
        let port = port_text::in_command(&split).unwrap_or(port);
        service.listens.push(likely(format!("127.0.0.1:{port}"), format!("{name}'s port")));
    } else if let Some(port) = variable {
        service.listens.push(likely(format!("127.0.0.1:{port}"), "the port in its line"));
    } else if command.contains("$PORT") || command.contains("${PORT") {
        let port = FIRST_PORT + STEP * u16::try_from(at).unwrap_or(0);
        let from = "$PORT in the command; ports are 5000, 5100, …";
        service.environment.push(("PORT".into(), likely(port.to_string(), from)));
        service.listens.push(likely(format!("127.0.0.1:{port}"), from));
    } else if let Some(port) = port_text::in_command(&split) {
        service.listens.push(likely(format!("127.0.0.1:{port}"), "the port in its command"));
    } else if name == "web" {
        let port = FIRST_PORT + STEP * u16::try_from(at).unwrap_or(0);
        let from = "web processes get PORT";
        service.environment.push(("PORT".into(), guess(port.to_string(), from)));
        service.listens.push(guess(format!("127.0.0.1:{port}"), from));
    }
    if service.sdk.value == Sdk::Go && local_binary {
        let binary = &program[0];
        // a module in a folder of its own is built from there
        let module = folder.join(name).join("go.mod").is_file() && !inside.join("go.mod").is_file();
        let from = if module { folder.join(name) } else { inside.clone() };
        service.build = Some(match go_package(name, &from) {
            Some(package) if module => {
                Build::Shell(format!("(cd {name} && faultloom go build -o ../{binary} {package})"))
            }
            Some(package) => Build::Go { output: binary.clone(), package },
            None => Build::Shell(format!("build {binary} with `faultloom go build` in place of `go build`")),
        });
    }
    let simple = !command.contains(['$', '|', '&', ';', '<', '>', '`', '*', '(', '=']);
    let drafted = if simple { Command::Words(split) } else { Command::Shell(command.to_owned()) };
    service.command = Some(stated(drafted, "its line"));
    service
}
