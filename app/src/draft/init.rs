//! The use case of `faultloom init`.

use super::{
    Build, Confidence, Draft, SCHEMA, Service, build, checks, compose, kubernetes, listeners, procfile, scripts,
    stated, yaml,
};
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
    /// A compose file, Kubernetes manifests, a kustomization, a Helm chart, a Procfile, or a folder with one of them or
    /// with start scripts; `-`: manifests on standard input. Default: the working directory.
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
    let mut draft = source(context, spec, &output)?;
    draft.normalize_names();
    if let Some(name) = &spec.name {
        draft.name = stated(name.clone(), "--name");
        draft.normalize_names();
    }
    note_ports(&mut draft);
    let schema = context.home.join(SCHEMA_FILE);
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
    if draft.contains_secrets {
        use std::os::unix::fs::PermissionsExt;
        let only_owner = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&output, only_owner).map_err(|error| {
            Failure::environment(format!("cannot protect {}", output.display()))
                .why(format!("it contains values of Secrets; {error}"))
                .next("choose another file (--output FILE)")
        })?;
    }
    let next = next(context, spec, &draft, &output, &todos);
    Ok(Drafted { draft, output, todos, next })
}

/// Writes the schema to which drafted files refer. `init` itself writes only the target file.
pub fn write_schema(home: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = home.join(SCHEMA_FILE);
    let mut options = std::fs::OpenOptions::new();
    // like everything in the store
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(&file).and_then(|mut file| file.write_all(SCHEMA.as_bytes())).map_err(|error| {
        Failure::environment(format!("cannot write {}", file.display()))
            .why(error.to_string())
            .next("choose another folder with --home DIR")
    })
}

fn source(context: &Context, spec: &InitSpec, output: &Path) -> Result<Draft, Failure> {
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
    let base = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if from == Path::new("-") {
        return kubernetes::draft(&from, "standard input", base);
    }
    if from.is_file() {
        let name = from.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let draft = if name.starts_with("Procfile") {
            procfile::draft(&from, &shown(&from))
        } else if kubernetes::files::is_manifests(&from) {
            kubernetes::draft(&from, &shown(&from), base)
        } else {
            compose::draft(&from, &shown(&from))
        };
        return draft.map_err(or_attach);
    }
    if !from.is_dir() {
        return Err(Failure::request(format!("{} does not exist", from.display()))
            .next(
                "name a compose file, Kubernetes manifests, a Procfile or a folder of start scripts, or draft from \
                 listeners (--attach)",
            )
            .field("from"));
    }
    if let Some(file) = compose::NAMES.iter().map(|name| from.join(name)).find(|file| file.is_file()) {
        return compose::draft(&file, &shown(&file)).map_err(or_attach);
    }
    let file = from.join("Procfile");
    if file.is_file() {
        return procfile::draft(&file, &shown(&file)).map_err(or_attach);
    }
    if let Some(path) = kubernetes::files::discover(&from, spec.from.is_some()) {
        return kubernetes::draft(&path, &shown(&path), base).map_err(or_attach);
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
                "looked for {}, Procfile, Kubernetes manifests here and in {}, and start scripts here and in {}",
                compose::NAMES.join(", "),
                kubernetes::files::FOLDERS.join(", "),
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
    let folder = |service: &'_ Service| service.directory.as_ref().map(|folder| folder.value.clone());
    let folders: Vec<Option<String>> = draft.services.iter().map(folder).collect();
    let builds = draft.services.iter().zip(&folders);
    let builds: Vec<(Option<&str>, &Build)> =
        builds.filter_map(|(service, folder)| Some((folder.as_deref(), service.build.as_ref()?))).collect();
    steps.extend(build::commands(&builds));
    steps.extend(draft.starts.iter().cloned());
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
