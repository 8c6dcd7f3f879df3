//! The hidden verb behind `flip live`: the process that traces.

use bit_flips::live::helper;
use model::{Exit, Failure};

pub fn serve() -> Result<Exit, Failure> {
    helper::serve().map(|()| Exit::Pass).map_err(|e| Failure::environment(format!("no flip was requested: {e}")))
}
