//! The hidden verb behind `flip live`: a process of its own that traces, and the tool's side of it.

use bit_flips::live::helper::{self, Told};
use bit_flips::live::{Aim, Wound};
use model::{Exit, Failure};
use std::io::{self, Read, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How soon a wish to stop is noticed.
const LOOK: Duration = Duration::from_millis(20);

pub fn serve() -> Result<Exit, Failure> {
    helper::serve().map(|()| Exit::Pass).map_err(|e| Failure::environment(format!("no flip was asked for: {e}")))
}

/// One flip. When `stop` is set it is given up, unless it has been made already. Blocks until the process is let go.
pub fn flip(aim: &Aim, stop: &AtomicBool) -> Result<Wound, Failure> {
    let failed = |e: io::Error| Failure::environment(format!("the flip's tracer cannot be started: {e}"));
    let mut request = serde_json::to_vec(aim).map_err(|e| failed(e.into()))?;
    request.push(b'\n');
    let own = std::env::current_exe().map_err(failed)?;
    let mut child =
        Command::new(own).arg("flip-tracer").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let (mut requests, replies) = (child.stdin.take(), child.stdout.take());
    // one that has gone already says so by its silence
    requests.as_mut().map(|to| to.write_all(&request));
    let (to, from) = channel();
    std::thread::spawn(move || {
        let mut answer = String::new();
        let read = replies.map(|mut replies| replies.read_to_string(&mut answer));
        let _ = to.send(read.and_then(Result::ok).map(|_| answer));
    });
    let answer = loop {
        match from.recv_timeout(LOOK) {
            Ok(answer) => break answer,
            Err(RecvTimeoutError::Disconnected) => break None,
            // the end of its input tells it to let go
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => requests = None,
            Err(RecvTimeoutError::Timeout) => {}
        }
    };
    drop(requests);
    let _ = child.wait();
    let told: Option<Told> = answer.and_then(|answer| serde_json::from_str(&answer).ok());
    told.ok_or_else(|| {
        Failure::environment("the flip's tracer ended without an answer")
            .why(format!("whether process {} was hit is not known", aim.pid))
            .next("restart that process; if this happens again, please report it")
    })?
    .result()
}
