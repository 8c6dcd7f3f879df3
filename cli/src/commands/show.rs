//! `faultloom show`: one run in the terminal.

use crate::args::Show;
use crate::context::Context;
use crate::render::view;
use model::{Exit, Failure};
use serde_json::{Value, json};

pub async fn show(context: &Context, args: &Show) -> Result<Exit, Failure> {
    let shown = app::history::show(context, &args.run).await?;
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
