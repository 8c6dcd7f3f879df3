//! `faultloom faults on|off`: the switch that stops every fault at the target, also those of plans in flight.

use crate::args::Faults;
use crate::context::Context;
use crate::stage;
use model::{Exit, Failure};
use serde_json::json;

pub async fn faults(context: &Context, args: &Faults) -> Result<Exit, Failure> {
    let file = stage::trust_file(context)?;
    target::switch_faults(&file, args.switch == "on")?;
    if context.common.json {
        println!("{}", json!({"faults": args.switch, "trust_file": file}));
    } else {
        println!("faults are {}; services notice within a fifth of a second of their next signed request", args.switch);
    }
    Ok(Exit::Pass)
}
