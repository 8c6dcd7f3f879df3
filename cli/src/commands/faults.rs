//! `faultloom faults on|off`: switches every fault at the target.

use crate::args::Faults;
use crate::context::Context;
use model::{Exit, Failure};
use serde_json::json;

pub async fn faults(context: &Context, args: &Faults) -> Result<Exit, Failure> {
    let switched = app::services::switch_faults(context, args.switch == "on").await?;
    if context.common.json {
        println!("{}", json!({"faults": args.switch, "trust_file": switched.trust_file}));
    } else {
        println!("faults are {} at every service of the target", args.switch);
    }
    Ok(Exit::Pass)
}
