//! `faultloom report`: one self-contained HTML page for a run.

use crate::args::Report;
use crate::context::Context;
use app::history::{self, ReportSpec};
use app::spec::Version;
use model::{Exit, Failure};
use serde_json::json;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

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
        open(&written.path)?;
    }
    Ok(Exit::Pass)
}

/// Starts a browser and does not wait for it.
fn open(page: &Path) -> Result<(), Failure> {
    let given = std::env::var_os("BROWSER").filter(|browser| !browser.is_empty());
    let browsers = given.into_iter().chain(["xdg-open", "open"].map(OsString::from));
    for browser in browsers {
        let mut start = Command::new(&browser);
        start.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if start.spawn().is_ok() {
            return Ok(());
        }
    }
    Err(Failure::environment("no browser can be started: $BROWSER is not set, and there is no xdg-open")
        .next(format!("open {} yourself", page.display())))
}
