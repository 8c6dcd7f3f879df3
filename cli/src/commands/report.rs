//! `faultloom report`: one self-contained HTML page for a run.

use crate::args::Report;
use crate::context::Context;
use model::{Exit, Failure};
use serde_json::json;

pub async fn report(context: &Context, args: &Report) -> Result<Exit, Failure> {
    let written = app::history::report(context, &args.run, args.output.as_deref()).await?;
    if context.common.json {
        println!("{}", json!({"run": written.run, "report": written.path}));
    } else {
        println!("{}", written.path.display());
    }
    Ok(Exit::Pass)
}
