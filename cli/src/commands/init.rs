//! `faultloom init`: a target file for the user's own application, drafted from what is there, every guess explained.

use crate::args::Init;
use crate::context::Context;
use app::draft::SCHEMA;
use app::draft::{self, Draft, Sure, compose, listeners, procfile, scripts, yaml};
use app::text::plural;
use app::text::printable;
use model::{Exit, Failure};
use serde_json::{Value, json};
use std::io::{ErrorKind, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

const SCHEMA_FILE: &str = "target.schema.json";
const FOLDERS: [&str; 3] = ["scripts", "bin", "start"];

pub fn init(context: &Context, args: &Init) -> Result<Exit, Failure> {
    let output = args.output.clone().unwrap_or_else(|| PathBuf::from("target.yaml"));
    if output.exists() && !args.force {
        return Err(Failure::request(format!("{} is there already", output.display()))
            .next("write another file with --output FILE, or replace it with --force"));
    }
    let mut draft = source(args)?;
    draft.settle_names();
    if let Some(name) = &args.name {
        draft.name = draft::stated(name.clone(), "--name");
        draft.settle_names();
    }
    note_ports(&mut draft);
    runs::make_home(&context.common.home)?;
    let schema = context.common.home.join(SCHEMA_FILE);
    write(&schema, SCHEMA)?;
    let text = yaml::render(&draft, &as_seen_from(&output, &schema));
    // what is written can be read: with its open questions, but not with another mistake
    let checked = target::Target::parse(&text, Path::new("/draft/target.yaml"), &output.display().to_string());
    let todos = draft.todos();
    if let (Err(failure), true) = (&checked, todos.is_empty()) {
        return Err(Failure::new(model::Family::Bug, "the drafted target file cannot be read back")
            .why(failure.to_string())
            .next("write it by hand: docs/guides/first-minutes.md shows one"));
    }
    write(&output, &text)?;
    let next = next(context, args, &draft, &output, &todos);
    if context.common.json {
        println!("{}", report(&draft, &output, &todos, &next));
    } else {
        print!("{}", crate::render::draft::table(&draft));
        for note in &draft.notes {
            println!(" note: {}", printable(note));
        }
        println!("");
        match todos.as_slice() {
            [] => println!("wrote {}", output.display()),
            todos => {
                let count = plural(todos.len() as u64, "TODO");
                println!(
                    "wrote {}; {count} that only you can answer (`up` refuses the file until then):",
                    output.display()
                );
                todos.iter().for_each(|todo| println!("   {}", printable(todo)));
            }
        }
        for (at, step) in next.iter().enumerate() {
            println!("{} {}", if at == 0 { "next:" } else { "     " }, printable(step));
        }
    }
    Ok(Exit::Pass)
}

fn source(args: &Init) -> Result<Draft, Failure> {
    if args.attach {
        return listeners::draft(&args.ports);
    }
    let from = args.from.clone().unwrap_or_else(|| PathBuf::from("."));
    let shown = |path: &Path| {
        let text = path.display().to_string();
        text.strip_prefix("./").unwrap_or(&text).to_owned()
    };
    if from.is_file() {
        let name = from.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        return match name.starts_with("Procfile") {
            true => procfile::draft(&from, &shown(&from)),
            false => compose::draft(&from, &shown(&from)),
        };
    }
    if !from.is_dir() {
        return Err(Failure::request(format!("{} is not there", from.display()))
            .next("name a compose file, a Procfile or a folder of start scripts, or use --attach"));
    }
    if let Some(file) = compose::NAMES.iter().map(|name| from.join(name)).find(|file| file.is_file()) {
        return compose::draft(&file, &shown(&file));
    }
    let file = from.join("Procfile");
    if file.is_file() {
        return procfile::draft(&file, &shown(&file));
    }
    let folders = std::iter::once(from.clone()).chain(FOLDERS.iter().map(|name| from.join(name)));
    let with_scripts = folders.filter(|folder| folder.is_dir()).find_map(|folder| {
        let path = shown(&folder);
        let from_target = if path == "." || path.is_empty() { String::new() } else { path.clone() };
        scripts::draft(&folder, &path, &from_target).ok()
    });
    with_scripts.ok_or_else(|| {
        Failure::request(format!("nothing in {} tells which services there are", from.display()))
            .why(format!(
                "looked for {}, Procfile, and start scripts here and in {}",
                compose::NAMES.join(", "),
                FOLDERS.join(", ")
            ))
            .next("start your application and take its listeners: faultloom init --attach")
    })
}

/// Ports that are in use now: the application itself, perhaps.
fn note_ports(draft: &mut Draft) {
    let mut used = Vec::new();
    for service in draft.services.iter().filter(|service| service.command.is_some()) {
        for listen in service.listens.iter().filter(|listen| listen.sure != Sure::Open) {
            let bound = TcpListener::bind(listen.value.as_str());
            if bound.is_err_and(|error| error.kind() == ErrorKind::AddrInUse) {
                used.push(format!("{} ({})", listen.value, service.name));
            }
        }
    }
    if !used.is_empty() {
        let verb = if used.len() == 1 { "is" } else { "are" };
        let used = used.join(", ");
        draft.notes.push(format!("{used} {verb} in use now; what runs already is taken by `faultloom init --attach`"));
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| {
        Failure::environment(format!("cannot write {}", path.display()))
            .why(error.to_string())
            .next("choose another place with --output FILE")
    };
    std::fs::File::create(path).and_then(|mut file| file.write_all(text.as_bytes())).map_err(cannot)
}

/// A relative path where both have a folder in common below which they lie.
fn as_seen_from(file: &Path, other: &Path) -> String {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (file, other) = (absolute(file), absolute(other));
    let relative = file.parent().and_then(|folder| other.strip_prefix(folder).ok());
    relative.unwrap_or(&other).display().to_string()
}

/// What to type now, in order.
fn next(context: &Context, args: &Init, draft: &Draft, output: &Path, todos: &[String]) -> Vec<String> {
    let mut steps = Vec::new();
    if !todos.is_empty() {
        steps.push(format!("edit {}", output.display()));
    }
    for service in &draft.services {
        if let Some(build) = &service.build {
            let folder = service.directory.as_ref().map(|folder| folder.value.as_str());
            steps.push(match folder {
                Some(folder) => format!("(cd {folder} && {build})"),
                None => build.clone(),
            });
        }
    }
    let contained: Vec<&str> = draft
        .services
        .iter()
        .filter(|service| service.attached.is_some() && !args.attach)
        .map(|service| service.name.as_str())
        .collect();
    if !contained.is_empty() {
        steps.push(format!("docker compose -f {} up -d {}", draft.source, contained.join(" ")));
    }
    let named = match output == Path::new("target.yaml") {
        true => String::new(),
        false => format!(" -t {}", output.display()),
    };
    let home = match context.common.home == Path::new(".faultloom") {
        true => String::new(),
        false => format!(" --home {}", context.common.home.display()),
    };
    if args.attach {
        let languages: Vec<&str> = draft.languages().into_iter().map(|(sdk, _)| sdk.name()).collect();
        let first = languages.first().copied().unwrap_or("go");
        steps.push(format!("faultloom{named}{home} env {first}    (how each service gets its SDK and its keys)"));
    }
    steps.push(format!("faultloom{named}{home} doctor --target"));
    steps
}

fn report(draft: &Draft, output: &Path, todos: &[String], next: &[String]) -> Value {
    let field = |key: &str, value: &Value, from: &str, sure: Sure| json!({"what": key, "value": value, "from": from, "sure": sure.name()});
    let services: Vec<Value> = draft
        .services
        .iter()
        .map(|service| {
            let guesses: Vec<Value> =
                service.fields().iter().map(|(key, value, from, sure)| field(key, value, from, *sure)).collect();
            let environment: Vec<Value> = service
                .environment
                .iter()
                .map(|(name, guess)| field(name, &json!(guess.value), &guess.from, guess.sure))
                .collect();
            json!({"name": service.name, "attached": service.attached, "build": service.build, "guesses": guesses, "environment": environment})
        })
        .collect();
    let entry = draft.entry.as_ref().map(|entry| field("entry", &json!(entry.value), &entry.from, entry.sure));
    json!({
        "file": output, "from": draft.source, "name": draft.name.value, "entry": entry, "services": services,
        "notes": draft.notes, "todos": todos, "next": next,
    })
}
