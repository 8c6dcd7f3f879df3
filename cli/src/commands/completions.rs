//! `faultloom completions SHELL`: prints a completion script.

use crate::args::{Completions, visible};
use model::{Exit, Failure};

pub fn completions(args: &Completions) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut visible(), "faultloom", &mut script);
    print!("{}", String::from_utf8_lossy(&script));
    Ok(Exit::Pass)
}
