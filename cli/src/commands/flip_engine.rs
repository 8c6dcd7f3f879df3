//! The hidden verb behind `flip`: the engine, in namespaces of its own.

use bit_flips::contain::{self, Contained};
use bit_flips::engine;
use bit_flips::protocol::Reply;
use model::{Exit, Failure};

/// Files of all programs that run at a time.
const SCRATCH_BYTES: u64 = 2 << 30;

/// Serves the protocol until its standard input ends. Must be called before there is a second thread.
pub fn serve() -> Result<Exit, Failure> {
    let serve = |contained: &Contained| {
        let served = engine::serve(contained, std::io::stdin().lock(), std::io::stdout().lock());
        // a tool that reads no more has gone: there is nobody to tell
        u8::from(served.is_err_and(|e| e.kind() != std::io::ErrorKind::BrokenPipe))
    };
    match contain::enter(SCRATCH_BYTES, serve) {
        Ok(0) => Ok(Exit::Pass),
        Ok(_) => Ok(Exit::Environment),
        // the tool tells it: it stands between the user and this process
        Err(failure) => {
            let refused = Reply::Refused { what: failure.what, why: failure.why, next: failure.next, request: false };
            println!("{}", serde_json::to_string(&refused).unwrap_or_default());
            Ok(Exit::Environment)
        }
    }
}
