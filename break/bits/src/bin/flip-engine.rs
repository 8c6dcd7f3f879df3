//! The flip engine by itself, for tests and benches of this crate: requests on standard input, replies on standard output.

use bit_flips::contain::{self, Contained};
use model::Family;
use std::process::ExitCode;

const SCRATCH_BYTES: u64 = 1 << 30;
const FAILED: u8 = 1;
const CANNOT: u8 = 3;

fn main() -> ExitCode {
    let serve = |contained: &Contained| match bit_flips::engine::serve(
        contained,
        std::io::stdin().lock(),
        std::io::stdout().lock(),
    ) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("the flip engine ended: {error}");
            FAILED
        }
    };
    contain::enter(SCRATCH_BYTES, serve)
        .unwrap_or_else(|failure| {
            eprintln!("{failure}");
            // a bug of ours is no lack of the environment: tests skip for that
            if failure.family == Family::Bug { FAILED } else { CANNOT }
        })
        .into()
}
