//! The spec of a sweep, and its resolution into the spec that is stored and run.

use crate::request::{Expect, Request};
use crate::spec::Version;
use crate::target_session::TargetSession;
use crate::{Context, register_schema};
use model::Failure;
use request_faults::SpaceKind;
use request_faults::space::Effect;
use requests::RequestSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Fault spaces to run for one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SweepSpec {
    pub version: Version<1>,
    #[serde(default)]
    pub request: Request,
    #[serde(default)]
    pub expect: Expect,
    /// `services`, `all-services`, `temporal`, `crash-points`, `guided`; default: `services`, `crash-points`, `guided`.
    #[serde(default)]
    pub spaces: Vec<String>,
    /// What the faults do: `unavailable`, `status 13`, `delay 200ms`; default: `unavailable`.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// How many requests are in flight at once.
    #[serde(default = "default_concurrency")]
    #[schemars(range(min = 1, max = 512))]
    pub concurrency: u16,
    /// Also write the results as a JUnit file.
    #[serde(default)]
    pub junit: Option<PathBuf>,
    /// Repeat each bug with services that are stopped for real instead of injected faults.
    #[serde(default)]
    pub confirm_real: bool,
}

register_schema!("sweep", SweepSpec);

/// Requests in flight at once by default.
pub const CONCURRENCY: u16 = 16;

fn default_concurrency() -> u16 {
    CONCURRENCY
}

/// An interrupted sweep to resume with its original options. The options here replace the original ones if they are
/// given; none of them changes what is sent or how a reply is judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeSpec {
    pub version: Version<1>,
    /// Its id (any unambiguous beginning or end), or `last`.
    pub run: String,
    /// How many requests are in flight at once; default: as in the interrupted sweep.
    #[serde(default)]
    #[schemars(range(min = 1, max = 512))]
    pub concurrency: Option<u16>,
    /// Also write the results as a JUnit file; default: as in the interrupted sweep.
    #[serde(default)]
    pub junit: Option<PathBuf>,
}

register_schema!("sweep-resume", ResumeSpec);

/// What a sweep's run stores, so that it can be resumed with the same options. The JSON names must not change. The
/// optional fields are missing in runs of earlier versions.
#[derive(Clone, Serialize, Deserialize)]
pub struct StoredSpec {
    pub request: RequestSpec,
    pub spaces: Vec<SpaceKind>,
    pub effects: Vec<Effect>,
    pub expect: Expect,
    /// The command that sends the same request once.
    pub record: String,
    /// Services of the target, for the space of all services.
    pub services: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u16>,
    /// Absolute, as are the paths below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub junit: Option<PathBuf>,
    /// The target file, named or found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confirm_real: bool,
}

impl SweepSpec {
    /// Refuses a wrong spec before anything is started for it.
    pub fn check(&self) -> Result<(), Failure> {
        self.expect.check()?;
        self.spaces_and_effects()?;
        self.request.check()
    }

    /// What is stored and run against this target.
    pub fn resolve(&self, context: &Context, session: &TargetSession) -> Result<StoredSpec, Failure> {
        let (request, expect) = self.request.with_conditions(&self.expect, session)?;
        let (spaces, effects) = self.spaces_and_effects()?;
        let services: Vec<String> = session.services();
        if spaces.contains(&SpaceKind::AllServices) && services.is_empty() {
            return Err(Failure::request("the space 'all-services' needs a target file that names them")
                .next("name a target file (-t FILE), or use the space 'services'")
                .field("spaces"));
        }
        let arguments = self.request.arguments(&self.expect, &request);
        let record = format!("{} {arguments}", context.command("record")).trim_end().to_owned();
        Ok(StoredSpec {
            request,
            spaces,
            effects,
            expect,
            record,
            services,
            concurrency: Some(self.concurrency),
            junit: self.junit.as_deref().map(absolute),
            target: session.target_file().map(absolute),
            trust: context.trust.as_deref().map(absolute),
            confirm_real: self.confirm_real,
        })
    }

    fn spaces_and_effects(&self) -> Result<(Vec<SpaceKind>, Vec<Effect>), Failure> {
        let mut spaces = Vec::new();
        for text in &self.spaces {
            let names = || SpaceKind::ALL.map(SpaceKind::as_str).join(", ");
            spaces.push(SpaceKind::parse(text).ok_or_else(|| {
                Failure::request(format!("there is no space '{text}'"))
                    .why(format!("spaces: {}", names()))
                    .field("spaces")
            })?);
        }
        if spaces.is_empty() {
            spaces = vec![SpaceKind::Services, SpaceKind::CrashPoints, SpaceKind::Guided];
        }
        let default = ["unavailable".to_owned()];
        let kinds = if self.kinds.is_empty() { &default[..] } else { &self.kinds };
        let effects = kinds.iter().map(|kind| effect(kind)).collect::<Result<Vec<_>, _>>()?;
        Ok((spaces, effects))
    }
}

/// A resumed sweep may be started in another folder.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// `unavailable`, `status 13`, `delay 200ms`.
fn effect(text: &str) -> Result<Effect, Failure> {
    let fault: model::Fault = format!("* {text}").parse().map_err(|e: model::FaultTextError| {
        Failure::request(format!("'{text}' is not a kind of fault")).why(e.to_string()).field("kinds")
    })?;
    if fault.selector != model::Selector::default() || !fault.after.is_empty() || fault.max_fires != 0 || fault.nth != 0
    {
        return Err(Failure::request(format!("'{text}' is more than a kind of fault"))
            .why("a sweep decides by itself when its faults fire")
            .next(format!(
                "name only its kind: '{}'; a recording takes one fault with its conditions",
                fault.kind.as_str()
            ))
            .field("kinds"));
    }
    Ok(Effect { kind: fault.kind, arg: fault.arg })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(kinds: &[&str]) -> SweepSpec {
        let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        serde_json::from_value(serde_json::json!({"version": 1, "kinds": kinds})).unwrap()
    }

    #[test]
    fn a_spec_of_nothing_but_its_version_has_defaults() {
        let (spaces, effects) = spec(&[]).spaces_and_effects().unwrap();
        assert_eq!(spaces, [SpaceKind::Services, SpaceKind::CrashPoints, SpaceKind::Guided]);
        assert_eq!(effects, [effect("unavailable").unwrap()]);
        assert_eq!(spec(&[]).concurrency, CONCURRENCY);
    }

    #[test]
    fn a_condition_is_not_part_of_a_kind() {
        let failure = spec(&["unavailable after GetCurrencies×1"]).check().unwrap_err();
        assert!(failure.to_string().contains("more than a kind of fault"), "{failure}");
        assert!(spec(&["no-such-kind"]).check().is_err());
    }
}
