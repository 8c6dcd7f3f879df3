//! Repeats one injection of a campaign in a fresh process instead of a fork.

use super::{engine, spec_of};
use crate::spec::Version;
use crate::{Context, register_schema};
use ::campaign::repeat::{HeldProcess, wait_for_end};
use ::campaign::{EngineClient, Repeat, Spec};
use model::campaign::Logged;
use model::{Failure, Family};
use runs::RunDir;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which injection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RepeatSpec {
    pub version: Version<1>,
    /// `RUN:ID`, or `RUN:VARIANT:ID`; RUN may be `last`.
    pub injection: String,
}

register_schema!("flip-replay", RepeatSpec);

/// Which injection to stop at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HoldSpec {
    pub version: Version<1>,
    /// `RUN:ID`, or `RUN:VARIANT:ID`; RUN may be `last`.
    pub injection: String,
    /// Stop right before the flip instead of right after it.
    #[serde(default)]
    pub before: bool,
}

register_schema!("flip-hold", HoldSpec);

/// The injection as the campaign logged it, and its repetition.
pub struct Repeated {
    pub before: Logged,
    pub again: Logged,
}

impl Repeated {
    pub fn is_same(&self) -> bool {
        self.before.outcome == self.again.outcome
            && self.before.effect.ending == self.again.effect.ending
            && self.before.deviation == self.again.deviation
    }
}

/// Runs the program to its end with the injection, and blocks its thread meanwhile.
///
/// # Errors
/// Request for an injection that does not exist, unknown if the program has changed, aborted if canceled.
pub async fn repeat(context: &Context, spec: &RepeatSpec) -> Result<Repeated, Failure> {
    let found = find(context, &spec.injection).await?;
    let repeat = found.repeat();
    let before = repeat.logged()?;
    let again = repeat.run(&mut engine()?, &context.cancel.flag())?.ok_or_else(stopped)?;
    Ok(Repeated { before, again })
}

fn stopped() -> Failure {
    Failure::new(Family::Aborted, "the replay was stopped")
}

/// A process that is stopped at an injection, for a debugger. It ends when this is dropped.
pub struct HeldInjection {
    pub process: HeldProcess,
    engine: EngineClient,
}

/// Runs the program up to the injection.
pub async fn hold(context: &Context, spec: &HoldSpec) -> Result<HeldInjection, Failure> {
    let found = find(context, &spec.injection).await?;
    let repeat = found.repeat();
    repeat.logged()?;
    let mut engine = engine()?;
    let process = repeat.hold(&mut engine, !spec.before, &context.cancel.flag())?.ok_or_else(stopped)?;
    Ok(HeldInjection { process, engine })
}

impl HeldInjection {
    /// Blocks until the process has ended or `context` is canceled.
    pub fn wait(&mut self, context: &Context) -> Result<(), Failure> {
        wait_for_end(&mut self.engine, &context.cancel.flag())
    }
}

struct Found {
    spec: Spec,
    dir: RunDir,
    variant: u32,
    id: u32,
}

impl Found {
    fn repeat(&self) -> Repeat<'_> {
        Repeat { spec: &self.spec, dir: &self.dir, variant: self.variant, id: self.id }
    }
}

async fn find(context: &Context, injection: &str) -> Result<Found, Failure> {
    let (run, name, id) = parse(context, injection)?;
    let store = context.store().await?;
    let run = store.find(run).await?;
    let spec = spec_of(&run)?;
    if spec.live.is_some() {
        let program =
            spec.variants.iter().flat_map(|v| v.program.argv.first()).next().map_or("PROGRAM", String::as_str);
        return Err(Failure::request(format!(
            "run {} flipped bits in a running process: that cannot be repeated",
            run.id.short()
        ))
        .why("a running process is never twice in the same state; `show` lists what was hit")
        .next(format!(
            "flips that can be repeated, in a copy of it: {} --replay INPUT -- {program}",
            context.command("flip")
        )));
    }
    let variant = variant(&spec, name)?;
    Ok(Found { dir: store.dir(run.id), spec, variant, id })
}

/// `RUN:ID` or `RUN:VARIANT:ID`.
fn parse<'a>(context: &Context, text: &'a str) -> Result<(&'a str, Option<&'a str>, u32), Failure> {
    let parts: Vec<&str> = text.split(':').collect();
    let (run, name, id) = match parts.as_slice() {
        [run, id] => (*run, None, *id),
        [run, name, id] => (*run, Some(*name), *id),
        _ => ("", None, ""),
    };
    let id = id.parse().ok().filter(|_| !run.is_empty());
    id.map(|id| (run, name, id)).ok_or_else(|| {
        Failure::request(format!("'{text}' is not RUN:ID or RUN:VARIANT:ID"))
            .next(format!("such as: {} replay last:17", context.command("flip")))
            .field("injection")
    })
}

fn variant(spec: &Spec, name: Option<&str>) -> Result<u32, Failure> {
    let names = || spec.variants.iter().map(|v| v.name.as_str()).collect::<Vec<_>>().join(", ");
    let index = match name {
        None if spec.variants.len() == 1 => Some(0),
        None => None,
        Some(name) => spec.variants.iter().position(|v| v.name == name),
    };
    index.map(|index| index as u32).ok_or_else(|| match name {
        Some(name) => {
            Failure::request(format!("the campaign has no variant '{name}'")).next(format!("it has: {}", names()))
        }
        None => Failure::request("the campaign has several variants")
            .next(format!("name one, as in RUN:VARIANT:ID: {}", names())),
    })
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::Context;

    #[test]
    fn an_injection_is_named_by_its_run() {
        let context = Context::new(".faultloom");
        assert_eq!(parse(&context, "last:17").unwrap(), ("last", None, 17));
        assert_eq!(parse(&context, "a1b2:mc:0").unwrap(), ("a1b2", Some("mc"), 0));
        for text in ["", "17", "last", "last:x", ":1", "a:b:c:1", "last:-1"] {
            assert_eq!(parse(&context, text).unwrap_err().exit(), model::Exit::Usage, "{text}");
        }
    }
}
