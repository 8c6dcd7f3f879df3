//! `faultloom schema target`: the JSON Schema that editors complete target files by.

use super::init::SCHEMA;
use model::{Exit, Failure};

pub fn schema() -> Result<Exit, Failure> {
    print!("{SCHEMA}");
    Ok(Exit::Pass)
}
