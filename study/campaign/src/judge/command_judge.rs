//! The user's own judge: a command that judges each output that is not the golden one.
//!
//! It gets one JSON object on its standard input, `{"golden": …, "seen": …, "effect": …, "stderr": …}` with the
//! streams' bytes in base64, and prints `none`, `undetected`, `hardening` or `otherwise`. If it fails, prints something
//! else or takes longer than [`TIMEOUT`], the injection is not judged, which makes the campaign's verdict unknown.

use model::flip::{Effect, Outcome, Output};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub const TIMEOUT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(2);
/// The longest answer that is read.
const ANSWER_MAX: u64 = 256;

/// Parses the outcome that a command of the user printed.
pub(crate) fn parse(answer: &str) -> Option<Outcome> {
    serde_json::from_value(answer.trim().into()).ok()
}

pub struct CommandJudge {
    command: String,
    timeout: Duration,
}

impl CommandJudge {
    pub fn new(command: String) -> CommandJudge {
        CommandJudge { command, timeout: TIMEOUT }
    }

    #[cfg(test)]
    pub(crate) fn with_timeout(command: &str, timeout: Duration) -> CommandJudge {
        CommandJudge { command: command.to_owned(), timeout }
    }

    /// Err: why there is no outcome.
    pub fn judge(&self, golden: &Output, output: &Output, effect: &Effect, stderr: &[u8]) -> Result<Outcome, String> {
        let question = serde_json::json!({
            "golden": golden, "seen": output, "effect": effect, "stderr": String::from_utf8_lossy(stderr),
        });
        let failed = |what: &str| format!("the judge '{}' {what}", self.command);
        let mut child = Command::new("sh")
            .args(["-c", &self.command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|e| failed(&format!("cannot be started: {e}")))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        // it may answer without reading everything, or read everything without answering: both pipes at once
        let writer = std::thread::spawn(move || stdin.map(|mut to| to.write_all(question.to_string().as_bytes())));
        let reader = std::thread::spawn(move || {
            let mut answer = String::new();
            let read = stdout.map(|from| from.take(ANSWER_MAX).read_to_string(&mut answer));
            read.and_then(Result::ok).map(|_| answer)
        });
        let ended = self.wait(&mut child);
        let _ = writer.join();
        let answer = reader.join().ok().flatten().unwrap_or_default();
        match ended {
            None => Err(failed(&format!("took longer than {} s", self.timeout.as_secs_f64()))),
            Some(status) if !status.success() => Err(failed(&format!("failed: {status}"))),
            Some(_) => parse(&answer).ok_or_else(|| {
                failed(&format!(
                    "printed '{}', which is not none, undetected, hardening or otherwise",
                    answer.trim().escape_debug()
                ))
            }),
        }
    }

    /// None: it was killed after the timeout, with everything it started.
    fn wait(&self, child: &mut Child) -> Option<std::process::ExitStatus> {
        let begin = Instant::now();
        while begin.elapsed() < self.timeout {
            if let Ok(Some(status)) = child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(POLL);
        }
        if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = child.wait();
        None
    }
}
