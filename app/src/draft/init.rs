//! The use case of `faultloom init`.

use super::{Confidence, Draft, SCHEMA, checks, compose, listeners, procfile, scripts, stated, yaml};
use crate::spec::Version;
use crate::{Context, register_schema};
use model::{Failure, Family};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

const SCHEMA_FILE: &str = "target.schema.json";
const FOLDERS: [&str; 3] = ["scripts", "bin", "start"];

/// What to draft a target file from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InitSpec {
    pub version: Version<1>,
    /// A compose file, a Procfile, or a folder with one of them or with start scripts; default: the working directory.
    #[serde(default)]
    pub from: Option<PathBuf>,
    /// Draft from the listeners of this machine instead.
    #[serde(default)]
    pub attach: bool,
    /// Only these listeners.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// Where to write it; default: `target.yaml`.
    #[serde(default)]
    pub output: Option<PathBuf>,
    /// Name of the application.
    #[serde(default)]
    pub name: Option<String>,
    /// Replace an existing file.
    #[serde(default)]
    pub force: bool,
}

register_schema!("init", InitSpec);

/// A draft that was written.
pub struct Drafted {
    pub draft: Draft,
    pub output: PathBuf,
    /// Values that only the user can supply.
    pub todos: Vec<String>,
    /// Commands to run next, in order.
    pub next: Vec<String>,
}

/// # Errors
/// Request, if the output exists or nothing can be drafted from; environment if a file cannot be written.
pub async fn init(context: &Context, spec: &InitSpec) -> Result<Drafted, Failure> {
    let output = spec.output.clone().unwrap_or_else(|| PathBuf::from("target.yaml"));
    if output.exists() && !spec.force {
        return Err(Failure::request(format!("{} exists already", output.display()))
            .next("write another file (--output FILE), or replace it (--force)")
            .field("force"));
    }
    let mut draft = source(context, spec)?;
    draft.normalize_names();
    if let Some(name) = &spec.name {
        draft.name = stated(name.clone(), "--name");
        draft.normalize_names();
    }
    note_ports(&mut draft);
    runs::make_home(&context.home)?;
    let schema = context.home.join(SCHEMA_FILE);
    write(&schema, SCHEMA)?;
    draft.checks = checks::propose(context).await?;
    let text = yaml::render(&draft, &relative_to(&output, &schema));
    // the drafted file must parse, except for its TODOs
    let checked = target::Target::parse(&text, Path::new("/draft/target.yaml"), &output.display().to_string());
    let todos = draft.todos();
    if let (Err(failure), true) = (&checked, todos.is_empty()) {
        return Err(Failure::new(Family::Bug, "the drafted target file cannot be read back")
            .why(failure.to_string())
            .next("write it by hand: docs/guides/first-minutes.md shows one"));
    }
    write(&output, &text)?;
    let next = next(context, spec, &draft, &output, &todos);
    Ok(Drafted { draft, output, todos, next })
}

fn source(context: &Context, spec: &InitSpec) -> Result<Draft, Failure> {
    if spec.attach {
        return listeners::draft(&spec.ports);
    }
    let from = spec.from.clone().unwrap_or_else(|| PathBuf::from("."));
    let attach = format!("{} --attach", context.command("init"));
    let or_attach = |failure: Failure| match failure.next {
        Some(_) => failure,
        None => failure.next(format!("name another file, or draft from running services: {attach}")),
    };
    let shown = |path: &Path| {
        let text = path.display().to_string();
        text.strip_prefix("./").unwrap_or(&text).to_owned()
    };
    if from.is_file() {
        let name = from.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let draft = match name.starts_with("Procfile") {
            true => procfile::draft(&from, &shown(&from)),
            false => compose::draft(&from, &shown(&from)),
        };
        return draft.map_err(or_attach);
    }
    if !from.is_dir() {
        return Err(Failure::request(format!("{} does not exist", from.display()))
            .next("name a compose file, a Procfile or a folder of start scripts, or draft from listeners (--attach)")
            .field("from"));
    }
    if let Some(file) = compose::NAMES.iter().map(|name| from.join(name)).find(|file| file.is_file()) {
        return compose::draft(&file, &shown(&file)).map_err(or_attach);
    }
    let file = from.join("Procfile");
    if file.is_file() {
        return procfile::draft(&file, &shown(&file)).map_err(or_attach);
    }
    let folders = std::iter::once(from.clone()).chain(FOLDERS.iter().map(|name| from.join(name)));
    let with_scripts = folders.filter(|folder| folder.is_dir()).find_map(|folder| {
        let path = shown(&folder);
        let from_target = if path == "." || path.is_empty() { String::new() } else { path.clone() };
        scripts::draft(&folder, &path, &from_target).ok()
    });
    with_scripts.ok_or_else(|| {
        Failure::request(format!("found no services in {}", from.display()))
            .why(format!(
                "looked for {}, Procfile, and start scripts here and in {}",
                compose::NAMES.join(", "),
                FOLDERS.join(", ")
            ))
            .next(format!("start your application and draft from its listeners: {attach}"))
    })
}

/// Notes ports that are in use now, perhaps by the application itself.
fn note_ports(draft: &mut Draft) {
    let mut used = Vec::new();
    for service in draft.services.iter().filter(|service| service.command.is_some()) {
        for listen in service.listens.iter().filter(|listen| listen.confidence != Confidence::Open) {
            let bound = TcpListener::bind(listen.value.as_str());
            if bound.is_err_and(|error| error.kind() == ErrorKind::AddrInUse) {
                used.push(format!("{} ({})", listen.value, service.name));
            }
        }
    }
    if !used.is_empty() {
        let verb = if used.len() == 1 { "is" } else { "are" };
        let used = used.join(", ");
        draft.notes.push(format!("{used} {verb} in use now; `faultloom init --attach` drafts from running services"));
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| {
        Failure::environment(format!("cannot write {}", path.display()))
            .why(error.to_string())
            .next("choose another file (--output FILE)")
            .field("output")
    };
    std::fs::File::create(path).and_then(|mut file| file.write_all(text.as_bytes())).map_err(cannot)
}

/// The path of `other`, relative to the folder of `file` if it is below it.
fn relative_to(file: &Path, other: &Path) -> String {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (file, other) = (absolute(file), absolute(other));
    let relative = file.parent().and_then(|folder| other.strip_prefix(folder).ok());
    relative.unwrap_or(&other).display().to_string()
}

/// Commands to run next, in order.
fn next(context: &Context, spec: &InitSpec, draft: &Draft, output: &Path, todos: &[String]) -> Vec<String> {
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
        .filter(|service| service.attached.is_some() && !spec.attach)
        .map(|service| service.name.as_str())
        .collect();
    if !contained.is_empty() {
        steps.push(format!("docker compose -f {} up -d {}", draft.source, contained.join(" ")));
    }
    let named = match output == Path::new("target.yaml") {
        true => String::new(),
        false => format!(" -t {}", output.display()),
    };
    let home = match context.home == Path::new(".faultloom") {
        true => String::new(),
        false => format!(" --home {}", context.home.display()),
    };
    if spec.attach {
        let languages: Vec<&str> = draft.languages().into_iter().map(|(sdk, _)| sdk.name()).collect();
        let first = languages.first().copied().unwrap_or("go");
        steps
            .push(format!("faultloom{named}{home} env {first}    (prints how each service gets its SDK and its keys)"));
    }
    steps.push(format!("faultloom{named}{home} doctor --target"));
    steps
}
