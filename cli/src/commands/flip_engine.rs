//! The hidden verb behind `flip`: the engine, in its own namespaces.

use bit_flips::engine;
use bit_flips::engine_messages::Reply;
use model::{Exit, Failure};
use sandbox::Sandbox;

/// Files of all concurrent programs.
const SCRATCH_BYTES: u64 = 2 << 30;

/// Serves requests until its standard input ends. Must be called before there is a second thread.
pub fn serve() -> Result<Exit, Failure> {
    let serve = |sandbox: &Sandbox| {
        let served = engine::serve(sandbox, Some(replay::SHIM), std::io::stdin().lock(), std::io::stdout().lock());
        // after the tool has ended, an error has no reader
        u8::from(served.is_err_and(|e| e.kind() != std::io::ErrorKind::BrokenPipe))
    };
    match sandbox::enter(SCRATCH_BYTES, serve) {
        Ok(0) => Ok(Exit::Pass),
        Ok(_) => Ok(Exit::Environment),
        // the tool shows the failure to the user
        Err(failure) => {
            let refused = Reply::Refused { what: failure.what, why: failure.why, next: failure.next, request: false };
            println!("{}", serde_json::to_string(&refused).unwrap_or_default());
            Ok(Exit::Environment)
        }
    }
}
