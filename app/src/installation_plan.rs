//! The use case of `faultloom env`: how services get their SDK and keys if `up` does not start them.
//!
//! It only prints. Keys are created on request, in a file that only its owner can read.

use crate::draft::kubernetes::{self, ClusterView};
use crate::installation::{Form, Installation};
use crate::spec::Version;
use crate::text::quoted;
use crate::{Context, register_schema, sdk_paths, target_session};
use model::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use target::{Sdk, Service, Target, Trust};

/// Which services, and where they are started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvSpec {
    pub version: Version<1>,
    /// `go`, `java`, `python` or `node`.
    pub language: String,
    /// Only this service; default: all of the target with that language.
    #[serde(default)]
    pub service: Option<String>,
    #[serde(default)]
    pub form: Form,
    /// Include the keys themselves.
    #[serde(default)]
    pub show_keys: bool,
    /// Create the keys if there are none yet.
    #[serde(default)]
    pub create_keys: bool,
    /// For Kubernetes: the manifests to patch; default: those in the folder of the target file.
    #[serde(default)]
    pub manifests: Option<PathBuf>,
}

register_schema!("env", EnvSpec);

pub struct ServiceInstallation {
    pub service: String,
    pub environment: Vec<(&'static str, String)>,
    /// Lines for the form that was chosen.
    pub text: String,
}

pub struct InstallationPlan {
    pub sdk: Sdk,
    /// Printed once, before the services.
    pub preamble: String,
    pub services: Vec<ServiceInstallation>,
    pub trust_file: PathBuf,
    /// Whether this call created the keys.
    pub created_keys: bool,
    /// The command that creates the keys, if there are none.
    pub create_keys: Option<String>,
    /// Whether the target that is up here uses other keys.
    pub up_uses_other_keys: bool,
}

/// # Errors
/// Request for an unknown language or service, for keys that do not exist, or for manifests that cannot be read;
/// environment if the SDK is not built or the keys cannot be written.
pub fn plan(context: &Context, spec: &EnvSpec) -> Result<InstallationPlan, Failure> {
    let sdk = Sdk::parse(&spec.language).filter(|sdk| *sdk != Sdk::None).ok_or_else(|| {
        Failure::request(format!("no SDK for '{}'", spec.language)).next("one of go, java, python, node")
    })?;
    let target = context.target_file().map(Target::load).transpose()?;
    let name = target.as_ref().map_or("app", |target| target.name.as_str());
    let services = services(context, spec, sdk, target.as_ref())?;
    let (trust_file, status) = (target_session::kept_trust(context, name), target_session::kept_status(context, name));
    let had_keys = trust_file.exists();
    if spec.create_keys {
        runs::make_home(&context.home)?;
        runs::create_directory(&status).map_err(|error| {
            Failure::environment(format!("cannot create {}", status.display())).why(error.to_string())
        })?;
    }
    let create = || {
        let one = spec.service.as_ref().map(|name| format!(" --service {name}")).unwrap_or_default();
        format!("{} {}{one} --create-keys", context.command("env"), sdk.name())
    };
    let is_prepared = had_keys && status.is_dir();
    let create_keys = (!spec.create_keys && !is_prepared).then(create);
    let trust = match (had_keys || spec.create_keys, spec.show_keys) {
        (true, _) => Trust::load_or_create(&trust_file, name)?.text(),
        (false, false) => String::new(),
        (false, true) => {
            return Err(Failure::request("there are no keys to show yet")
                .why(format!("{} does not exist", trust_file.display()))
                .next(format!("create them: {}", create())));
        }
    };
    let cluster = match spec.form {
        Form::Kubernetes => cluster(spec, target.as_ref())?,
        _ => None,
    };
    let sdk_path = match sdk {
        Sdk::Java => sdk_paths::java()?,
        Sdk::Node => sdk_paths::node()?,
        Sdk::Python => sdk_paths::python()?,
        Sdk::Go | Sdk::None => sdk_paths::folder("go")?,
    };
    let installations: Vec<Installation> = services
        .iter()
        .map(|(name, service)| Installation {
            service: name.clone(),
            target: target.as_ref(),
            described: *service,
            sdk,
            sdk_path: sdk_path.clone(),
            trust_file: trust_file.clone(),
            trust: trust.clone(),
            status: status.clone(),
            show_keys: spec.show_keys,
            create_keys: create_keys.clone(),
            cluster: cluster.as_ref(),
        })
        .collect();
    let preamble = match (spec.form, installations.first()) {
        (Form::Kubernetes, Some(first)) => first.kubernetes_secret(),
        _ => String::new(),
    };
    let services = installations.iter().map(|installation| ServiceInstallation {
        service: installation.service.clone(),
        environment: installation.environment(),
        text: installation.text(spec.form),
    });
    let services = services.collect();
    let up = target::read_state(&target_session::state_dir(context))?.filter(target::is_alive);
    let up_uses_other_keys = up.is_some_and(|state| state.trust_file != trust_file);
    let created_keys = spec.create_keys && !had_keys;
    Ok(InstallationPlan { sdk, preamble, services, trust_file, created_keys, create_keys, up_uses_other_keys })
}

/// The manifests that were named, or those in the folder of the target file. None without any.
fn cluster(spec: &EnvSpec, target: Option<&Target>) -> Result<Option<ClusterView>, Failure> {
    let folder = target.and_then(|target| target.file.parent()).unwrap_or(Path::new("."));
    let found = spec.manifests.clone().or_else(|| kubernetes::files::discover(folder, false));
    let Some(path) = found else { return Ok(None) };
    if path != Path::new("-") && !path.exists() {
        return Err(Failure::request(format!("{} does not exist", path.display()))
            .next("name the file or the folder with the manifests of these services")
            .field("manifests"));
    }
    let shown = path.display().to_string();
    ClusterView::read(&path, shown.strip_prefix("./").unwrap_or(&shown)).map(Some)
}

/// One service by name, or all of the language.
fn services<'a>(
    context: &Context,
    spec: &EnvSpec,
    sdk: Sdk,
    target: Option<&'a Target>,
) -> Result<Vec<(String, Option<&'a Service>)>, Failure> {
    match (&spec.service, target) {
        (Some(name), Some(target)) => {
            let names = target.services().iter().map(|service| service.name.as_str()).collect::<Vec<_>>();
            let service = target.service(name).ok_or_else(|| {
                Failure::request(format!("no service is named '{name}'")).why(format!(
                    "services of {}: {}",
                    target.file.display(),
                    names.join(", ")
                ))
            })?;
            Ok(vec![(name.clone(), Some(service))])
        }
        (Some(name), None) => Ok(vec![(name.clone(), None)]),
        (None, Some(target)) => {
            let found: Vec<(String, Option<&Service>)> = target
                .services()
                .iter()
                .filter(|service| service.sdk == sdk)
                .map(|service| (service.name.clone(), Some(service)))
                .collect();
            match found.is_empty() {
                false => Ok(found),
                true => Err(Failure::request(format!("no service of the target has sdk: {}", sdk.name()))
                    .why(described(target))
                    .next("write it into the target file, or name one with --service NAME")),
            }
        }
        (None, None) => Err(Failure::request("which service? there is no target file here")
            .next(format!("name it (--service NAME), or draft a target file: {}", context.command("init")))
            .field("service")),
    }
}

fn described(target: &Target) -> String {
    let each = target.services().iter().map(|service| format!("{}: {}", quoted(&service.name), service.sdk.name()));
    each.collect::<Vec<_>>().join(", ")
}
