//! The spec of a sweep, and its resolution into the spec that is stored and run.

use crate::request::{Expect, Request};
use crate::spec::Version;
use crate::target_session::TargetSession;
use crate::{Context, register_schema};
use model::{Failure, FaultKind};
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
    /// `services`, `all-services`, `temporal`, `crash-points`, `calls`, `guided`; default: `services`, `crash-points`,
    /// `guided`.
    #[serde(default)]
    pub spaces: Vec<String>,
    /// What the faults do: `unavailable`, `status 13`, `delay 200ms`, or `all`. Default: `unavailable`. If there are no
    /// spaces either, also, one call at a time: `lost-reply` for calls that change state, `hang`, and delays around the
    /// deadlines that callers use.
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
    /// Kinds of which the request decides where they are injected, one call at a time, and for how long.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_request: Vec<FaultKind>,
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
        self.faults()?;
        self.request.check()
    }

    /// What is stored and run against this target.
    pub fn resolve(&self, context: &Context, session: &TargetSession) -> Result<StoredSpec, Failure> {
        let (request, expect) = self.request.with_conditions(&self.expect, session)?;
        let Faults { spaces, effects, by_request } = self.faults()?;
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
            by_request,
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

    fn faults(&self) -> Result<Faults, Failure> {
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
        let is_all = |kind: &String| kind == ALL_KINDS;
        if self.kinds.len() > 1 && self.kinds.iter().any(is_all) {
            return Err(
                Failure::request("'all' stands for every kind of fault, and others are named beside it").field("kinds")
            );
        }
        let plain = |kind| Effect { kind, arg: 0 };
        let (effects, by_request) = if self.kinds.iter().any(is_all) {
            let (waiting, others): (Vec<FaultKind>, Vec<FaultKind>) =
                FaultKind::ALL.into_iter().partition(|kind| matches!(kind, FaultKind::Hang | FaultKind::Delay));
            // deadlines are observed while calls hang
            (others.into_iter().map(plain).collect(), waiting.into_iter().rev().collect())
        } else if !self.kinds.is_empty() {
            (self.kinds.iter().map(|kind| effect(kind)).collect::<Result<Vec<_>, _>>()?, Vec::new())
        } else if !self.spaces.is_empty() {
            (vec![plain(FaultKind::Unavailable)], Vec::new())
        } else {
            let by_request = vec![FaultKind::LostReply, FaultKind::Hang, FaultKind::Delay];
            (vec![plain(FaultKind::Unavailable)], by_request)
        };
        Ok(Faults { spaces, effects, by_request })
    }
}

/// Stands for every kind of fault.
const ALL_KINDS: &str = "all";

/// What is injected: every effect in every space, then some kinds as the request requires.
struct Faults {
    spaces: Vec<SpaceKind>,
    effects: Vec<Effect>,
    by_request: Vec<FaultKind>,
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
        let Faults { spaces, effects, by_request } = spec(&[]).faults().unwrap();
        assert_eq!(spaces, [SpaceKind::Services, SpaceKind::CrashPoints, SpaceKind::Guided]);
        assert_eq!(effects, [effect("unavailable").unwrap()]);
        assert_eq!(by_request, [FaultKind::LostReply, FaultKind::Hang, FaultKind::Delay]);
        assert_eq!(spec(&[]).concurrency, CONCURRENCY);
    }

    #[test]
    fn what_is_named_is_all_that_is_injected() {
        let mut named = spec(&[]);
        named.spaces = vec!["services".to_owned()];
        let faults = named.faults().unwrap();
        assert_eq!((faults.effects.len(), faults.by_request.len()), (1, 0));
        assert!(spec(&["reset"]).faults().unwrap().by_request.is_empty());
    }

    #[test]
    fn all_kinds_are_every_kind_once() {
        let faults = spec(&["all"]).faults().unwrap();
        let mut kinds: Vec<FaultKind> = faults.effects.iter().map(|effect| effect.kind).collect();
        kinds.extend(faults.by_request);
        assert!(FaultKind::ALL.iter().all(|kind| kinds.iter().filter(|one| *one == kind).count() == 1), "{kinds:?}");
        assert!(spec(&["all", "reset"]).check().is_err());
    }

    #[test]
    fn a_condition_is_not_part_of_a_kind() {
        let failure = spec(&["unavailable after GetCurrencies×1"]).check().unwrap_err();
        assert!(failure.to_string().contains("more than a kind of fault"), "{failure}");
        assert!(spec(&["no-such-kind"]).check().is_err());
    }
}
