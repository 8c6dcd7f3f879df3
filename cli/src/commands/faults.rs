//! `faultloom faults on|off`: switches every fault at the target.

use crate::args::Faults;
use crate::context::Context;
use app::services::{self, FaultsSpec};
use app::spec::Version;
use model::{Exit, Failure};
use serde_json::json;

pub async fn faults(context: &Context, args: &Faults) -> Result<Exit, Failure> {
    let spec = FaultsSpec { version: Version, on: args.switch == "on" };
    let switched = services::switch_faults(context, &spec).await?;
    if context.common.json {
        println!("{}", json!({"faults": args.switch, "trust_file": switched.trust_file}));
    } else {
        println!("faults are {} at every service of the target", args.switch);
    }
    Ok(Exit::Pass)
}
