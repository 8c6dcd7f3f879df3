//! `faultloom diff`: compares two runs.

use crate::args::Diff;
use crate::context::Context;
use crate::render::view;
use model::{Exit, Failure};
use serde_json::Value;

pub async fn diff(context: &Context, args: &Diff) -> Result<Exit, Failure> {
    let difference = app::history::diff(context, &args.before, &args.after).await?;
    if context.common.json {
        println!("{}", Value::Object(difference.view.fields));
    } else {
        view::print(&difference.view.blocks, false);
    }
    Ok(if difference.differs { Exit::Fail } else { Exit::Pass })
}
