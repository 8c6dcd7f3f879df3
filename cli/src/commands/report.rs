//! `faultloom report`: one self-contained HTML page for a run.

use crate::args::Report;
use crate::browser;
use crate::context::Context;
use app::history::{self, ReportSpec};
use app::spec::Version;
use model::{Exit, Failure};
use serde_json::json;

pub async fn report(context: &Context, args: &Report) -> Result<Exit, Failure> {
    let spec = ReportSpec {
        version: Version,
        run: args.run.clone(),
        output: args.output.clone(),
        unredacted: args.unredacted,
    };
    let written = history::report(context, &spec).await?;
    if context.common.json {
        println!("{}", json!({"run": written.run, "report": written.path}));
    } else {
        println!("{}", written.path.display());
    }
    if args.open {
        browser::open(written.path.as_os_str())?;
    }
    Ok(Exit::Pass)
}
