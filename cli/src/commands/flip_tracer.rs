//! The hidden verb behind `flip live`: the tracer process, and its start.

use bit_flips::live::{Injection, Target, helper};
use campaign::tracer_client;
use model::{Exit, Failure};
use std::ffi::OsStr;
use std::sync::atomic::AtomicBool;

pub fn serve() -> Result<Exit, Failure> {
    helper::serve().map(|()| Exit::Pass).map_err(|e| Failure::environment(format!("no flip was requested: {e}")))
}

/// Makes one flip; see [`tracer_client::flip`].
pub fn flip(target: &Target, stop: &AtomicBool) -> Result<Injection, Failure> {
    let own = std::env::current_exe()
        .map_err(|e| Failure::environment(format!("the flip's tracer cannot be started: {e}")))?;
    tracer_client::flip(&own, &[OsStr::new("flip-tracer")], target, stop)
}
