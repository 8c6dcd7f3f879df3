//! The flip engine on its own, for tests of this crate: requests on standard input, replies on standard output. The
//! argument is the path of the replay shim, if servers are studied.

use model::Family;
use sandbox::Sandbox;
use std::process::ExitCode;

const SCRATCH_BYTES: u64 = 1 << 30;
const FAILED: u8 = 1;
const UNAVAILABLE: u8 = 3;

fn main() -> ExitCode {
    let shim = std::env::args_os().nth(1).map(|path| std::fs::read(path).expect("the shim can be read"));
    let serve = |sandbox: &Sandbox| {
        let (requests, replies) = (std::io::stdin().lock(), std::io::stdout().lock());
        match bit_flips::engine::serve(sandbox, shim.as_deref(), requests, replies) {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("the flip engine failed: {error}");
                FAILED
            }
        }
    };
    sandbox::enter(SCRATCH_BYTES, serve)
        .unwrap_or_else(|failure| {
            eprintln!("{failure}");
            // a bug is not a missing requirement, for which tests are skipped
            if failure.family == Family::Bug { FAILED } else { UNAVAILABLE }
        })
        .into()
}
