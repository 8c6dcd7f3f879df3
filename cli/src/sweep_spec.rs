//! What a sweep is to do, from what its user typed.

use crate::args::{Expect, Sweep as Args};
use crate::context::{self, Context};
use app::target_session::TargetSession;
use model::Failure;
use request_faults::SpaceKind;
use request_faults::space::Effect;
use requests::RequestSpec;
use serde::{Deserialize, Serialize};

/// What a sweep was asked to do; stored with the run, so that it can be resumed.
#[derive(Serialize, Deserialize)]
pub struct SweepSpec {
    pub request: RequestSpec,
    pub spaces: Vec<SpaceKind>,
    pub effects: Vec<Effect>,
    /// What replies must be like.
    pub expect: Expect,
    /// The command that sends the same request once.
    pub record: String,
    /// Of the target, for the space of all services.
    pub services: Vec<String>,
}

pub fn plan(context: &Context, args: &Args, session: &TargetSession) -> Result<SweepSpec, Failure> {
    let request = context::request(&args.request, session.entry())?;
    let (spaces, effects) = asked(args)?;
    let services: Vec<String> = session.services();
    if spaces.contains(&SpaceKind::AllServices) && services.is_empty() {
        return Err(Failure::request("the space 'all-services' needs a target file that names them")
            .next("give one with -t FILE, or use --space services"));
    }
    let flags = context::flags(&args.request, &args.expect, &request);
    let record = format!("{} {flags}", context.command("record")).trim_end().to_owned();
    Ok(SweepSpec { request, spaces, effects, expect: args.expect.clone(), record, services })
}

/// Which spaces, of which kinds of fault.
pub fn asked(args: &Args) -> Result<(Vec<SpaceKind>, Vec<Effect>), Failure> {
    let mut spaces = Vec::new();
    for text in &args.spaces {
        let known = || SpaceKind::ALL.map(SpaceKind::as_str).join(", ");
        spaces.push(SpaceKind::parse(text).ok_or_else(|| {
            Failure::request(format!("there is no space '{text}'")).why(format!("spaces: {}", known()))
        })?);
    }
    if spaces.is_empty() {
        spaces = vec![SpaceKind::Services, SpaceKind::CrashPoints, SpaceKind::Guided];
    }
    let effects = args.kinds.iter().map(|k| effect(k)).collect::<Result<Vec<_>, _>>()?;
    Ok((spaces, effects))
}

/// `unavailable`, `status 13`, `delay 200ms`.
fn effect(text: &str) -> Result<Effect, Failure> {
    let fault: model::Fault = format!("* {text}").parse().map_err(|e: model::FaultTextError| {
        Failure::request(format!("'{text}' is no kind of fault")).why(e.to_string())
    })?;
    if fault.selector != model::Selector::default() || !fault.after.is_empty() || fault.max_fires != 0 || fault.nth != 0
    {
        return Err(Failure::request(format!("'{text}' is more than a kind of fault"))
            .why("a sweep says itself when its faults happen")
            .next(format!("-k {}; for one fault with its conditions: record --fault", fault.kind.as_str())));
    }
    Ok(Effect { kind: fault.kind, arg: fault.arg })
}
