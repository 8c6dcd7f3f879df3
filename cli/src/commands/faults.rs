//! `faultloom faults on|off`: the switch that stops every fault at the target, also those of plans in flight.

use crate::args::Faults;
use crate::context::Context;
use app::target_session;
use model::{Exit, Failure};
use serde_json::json;
use std::time::Duration;

/// SDKs look at their trust file at most this often (docs/formats/messages.md); a little longer, and the switch holds when we return.
const NOTICED_AFTER: Duration = Duration::from_millis(250);

pub async fn faults(context: &Context, args: &Faults) -> Result<Exit, Failure> {
    let file = target_session::trust_file(context)?;
    target::switch_faults(&file, args.switch == "on")?;
    tokio::time::sleep(NOTICED_AFTER).await;
    if context.common.json {
        println!("{}", json!({"faults": args.switch, "trust_file": file}));
    } else {
        println!("faults are {} at every service of the target", args.switch);
    }
    Ok(Exit::Pass)
}
