//! `faultloom ui`: the workbench in the browser.

use crate::args::Ui;
use crate::browser;
use crate::context::Context;
use crate::signals::stop_signal;
use model::{Exit, Failure};
use serde_json::json;
use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, Ordering};

pub async fn ui(context: &Context, args: &Ui) -> Result<Exit, Failure> {
    let stop = stop_signal()?;
    context.store().await?; // a store that cannot be read is reported here, not in the browser
    let (is_json, opens, is_first) = (context.common.json, args.open, AtomicBool::new(true));
    let on_address = move |address: &str| {
        let first = is_first.swap(false, Ordering::Relaxed);
        if is_json {
            println!("{}", json!({"address": address}));
        } else if first {
            println!(
                "the workbench is at\n  {address}\nCtrl-C stops it. The address works once; the next one is printed when it was used."
            );
        } else {
            println!("for another browser or tab:\n  {address}");
        }
        if first
            && opens
            && let Err(failure) = browser::open(OsStr::new(address))
        {
            eprintln!("{failure}");
        }
    };
    let options = api::Options { port: args.port, allows_runs: args.allow_run, on_address: Box::new(on_address) };
    api::serve(context, options, stop).await?;
    Ok(Exit::Pass)
}
