//! `faultloom show`: one run in the terminal.

use crate::args::Show;
use crate::context::Context;
use crate::render::view;
use app::history::{self, ShowSpec};
use app::spec::Version;
use model::{Exit, Failure};
use serde_json::{Value, json};

pub async fn show(context: &Context, args: &Show) -> Result<Exit, Failure> {
    let spec = ShowSpec { version: Version, run: args.run.clone() };
    let shown = history::show(context, &spec).await?;
    if context.common.json {
        let mut fields = shown.view.fields;
        fields.insert("run".to_owned(), json!(shown.run));
        println!("{}", Value::Object(fields));
        return Ok(Exit::Pass);
    }
    view::head(&shown.run);
    view::print(&shown.view.blocks, args.all);
    Ok(Exit::Pass)
}
