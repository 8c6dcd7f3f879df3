//! `faultloom schema NAME`: the JSON Schema of a file or spec, for editors and other programs.

use crate::args::Schema;
use model::{Exit, Failure};

pub fn schema(args: &Schema) -> Result<Exit, Failure> {
    let text =
        app::spec::schema(&args.of).ok_or_else(|| Failure::request(format!("there is no schema '{}'", args.of)))?;
    print!("{text}");
    Ok(Exit::Pass)
}
