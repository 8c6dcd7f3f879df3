//! The use case of `faultloom env`: how services get their SDK and keys if `up` does not start them.
//!
//! Keys are created if there are none yet, in a file that only its owner can read.

use crate::installation::{Form, Installation};
use crate::spec::Version;
use crate::text::quoted;
use crate::{Context, register_schema, sdk_paths, target_session};
use model::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
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
    pub services: Vec<ServiceInstallation>,
    pub trust_file: PathBuf,
    /// Whether this call created the keys.
    pub created_keys: bool,
    /// Whether the target that is up here uses other keys.
    pub up_uses_other_keys: bool,
}

/// # Errors
/// Request for an unknown language or service, environment if the SDK is not built or the keys cannot be written.
pub fn plan(context: &Context, spec: &EnvSpec) -> Result<InstallationPlan, Failure> {
    let sdk = Sdk::parse(&spec.language).filter(|sdk| *sdk != Sdk::None).ok_or_else(|| {
        Failure::request(format!("no SDK for '{}'", spec.language)).next("one of go, java, python, node")
    })?;
    let target = context.target_file().map(Target::load).transpose()?;
    let name = target.as_ref().map_or("app", |target| target.name.as_str());
    let services = services(context, spec, sdk, target.as_ref())?;
    runs::make_home(&context.home)?;
    let (trust_file, status) = (target_session::kept_trust(context, name), target_session::kept_status(context, name));
    let created_keys = !trust_file.exists();
    let trust = Trust::load_or_create(&trust_file, name)?;
    runs::create_directory(&status)
        .map_err(|error| Failure::environment(format!("cannot create {}", status.display())).why(error.to_string()))?;
    let sdk_path = match sdk {
        Sdk::Java => sdk_paths::java()?,
        Sdk::Node => sdk_paths::node()?,
        Sdk::Python => sdk_paths::python()?,
        Sdk::Go | Sdk::None => sdk_paths::folder("go")?,
    };
    let services = services.iter().map(|(name, service)| {
        let installation = Installation {
            service: name.clone(),
            target: target.as_ref(),
            described: *service,
            sdk,
            sdk_path: sdk_path.clone(),
            trust_file: trust_file.clone(),
            trust: trust.text(),
            status: status.clone(),
            show_keys: spec.show_keys,
        };
        ServiceInstallation {
            service: name.clone(),
            environment: installation.environment(),
            text: installation.text(spec.form),
        }
    });
    let services = services.collect();
    let up = target::read_state(&target_session::state_dir(context))?.filter(target::is_alive);
    let up_uses_other_keys = up.is_some_and(|state| state.trust_file != trust_file);
    Ok(InstallationPlan { sdk, services, trust_file, created_keys, up_uses_other_keys })
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
