//! `faultloom diff`: compares two runs.

use crate::args::Diff;
use crate::context::Context;
use crate::render::view;
use app::history::DiffSpec;
use app::spec::Version;
use model::{Exit, Failure};
use serde_json::Value;

pub async fn diff(context: &Context, args: &Diff) -> Result<Exit, Failure> {
    let spec = DiffSpec { version: Version, before: args.before.clone(), after: args.after.clone() };
    let difference = app::history::diff(context, &spec).await?;
    if context.common.json {
        println!("{}", Value::Object(difference.view.fields));
    } else {
        view::print(&difference.view.blocks, false);
    }
    Ok(if difference.differs { Exit::Fail } else { Exit::Pass })
}
