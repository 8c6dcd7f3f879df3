//! Makes one flip in a running process through a separate tracer process ([`bit_flips::live::helper`]).

use bit_flips::live::helper::HelperReply;
use bit_flips::live::{Injection, Target};
use model::Failure;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How often the stop flag is checked.
const STOP_CHECK: Duration = Duration::from_millis(20);

/// Makes one flip. `executable` with `arguments` must call [`bit_flips::live::helper::serve`]. If `stop` is set, the
/// flip is given up unless it has been made already. Blocks until the process is detached.
pub fn flip(executable: &Path, arguments: &[&OsStr], target: &Target, stop: &AtomicBool) -> Result<Injection, Failure> {
    let failed = |e: io::Error| Failure::environment(format!("the flip's tracer cannot be started: {e}"));
    let mut request = serde_json::to_vec(target).map_err(|e| failed(e.into()))?;
    request.push(b'\n');
    let mut command = Command::new(executable);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let (mut requests, replies) = (child.stdin.take(), child.stdout.take());
    // a tracer that has already ended is recognized by its missing reply
    requests.as_mut().map(|to| to.write_all(&request));
    let (to, from) = channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = replies.map(|mut replies| replies.read_to_string(&mut text));
        let _ = to.send(read.and_then(Result::ok).map(|_| text));
    });
    let text = loop {
        match from.recv_timeout(STOP_CHECK) {
            Ok(text) => break text,
            Err(RecvTimeoutError::Disconnected) => break None,
            // the end of its input makes it detach
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => requests = None,
            Err(RecvTimeoutError::Timeout) => {}
        }
    };
    drop(requests);
    let _ = child.wait();
    let reply: Option<HelperReply> = text.and_then(|text| serde_json::from_str(&text).ok());
    reply
        .ok_or_else(|| {
            Failure::environment("the flip's tracer ended without a reply")
                .why(format!("whether process {} was changed is unknown", target.pid))
                .next("restart that process; if this happens again, please report it")
        })?
        .result()
}
