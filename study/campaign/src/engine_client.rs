//! The client of the flip engine: sends requests and receives replies, one JSON object per line.
//!
//! [`EngineClient::exchange`] is the only request loop. Dropping a client closes the engine's input and output, which
//! ends the engine, and waits for that.

use bit_flips::engine_messages::{Reply, Request};
use model::{Failure, Family};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// How often the stop flag is checked.
const STOP_CHECK: Duration = Duration::from_millis(50);
/// Replies that may be queued; then the engine blocks.
const QUEUED_MAX: usize = 64;
/// Longer than any reply: the engine limits the output of programs.
const LINE_MAX: u64 = 1 << 30;
/// How long the engine may take to end after its input was closed; then it is killed.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Fields are dropped in this order: the engine ends once both pipes are closed.
pub struct EngineClient {
    requests: Box<dyn Write + Send>,
    replies: Receiver<Result<Reply, Failure>>,
    /// None: the engine is not a process of ours.
    process: Option<EngineProcess>,
}

/// The reaper of the engine's sandbox, which ends after the engine. Dropping waits for that.
struct EngineProcess(Child);

impl EngineClient {
    /// Starts an engine: `executable` with `arguments` must call [`sandbox::enter`] and then
    /// [`bit_flips::engine::serve`].
    pub fn start(executable: &Path, arguments: &[&OsStr]) -> Result<EngineClient, Failure> {
        let failed = |e: std::io::Error| Failure::environment(format!("the flip engine cannot be started: {e}"));
        let mut child = sandbox::supervisor_command(executable, arguments).spawn().map_err(failed)?;
        let (Some(requests), Some(replies)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both are pipes")
        };
        tracing::debug!(reaper = child.id(), "flip engine started");
        Ok(EngineClient { process: Some(EngineProcess(child)), ..EngineClient::connect(replies, requests) })
    }

    /// Connects to an engine that the caller has started.
    pub fn connect(replies: impl Read + Send + 'static, requests: impl Write + Send + 'static) -> EngineClient {
        let (to, from) = sync_channel(QUEUED_MAX);
        std::thread::spawn(move || {
            let mut lines = BufReader::new(replies);
            while let Some(reply) = read_reply(&mut lines) {
                let last = reply.is_err();
                if to.send(reply).is_err() || last {
                    return;
                }
            }
        });
        EngineClient { requests: Box::new(requests), replies: from, process: None }
    }

    /// Pid of the reaper of the engine's sandbox, as [`sandbox::host_pid`] needs it. None: see
    /// [`EngineClient::connect`].
    pub fn reaper(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.0.id())
    }

    /// Sends a request and passes each reply to `handle` until that returns a value. None: `stop` was set. A refusal is
    /// an error with the engine's text, and so is an engine that ends.
    pub fn exchange<T>(
        &mut self,
        request: &Request,
        stop: &AtomicBool,
        handle: impl FnMut(Reply) -> Result<Option<T>, Failure>,
    ) -> Result<Option<T>, Failure> {
        self.send(request)?;
        self.receive(stop, handle)
    }

    /// Receives further replies to the last request, as [`EngineClient::exchange`] does.
    pub fn receive<T>(
        &mut self,
        stop: &AtomicBool,
        mut handle: impl FnMut(Reply) -> Result<Option<T>, Failure>,
    ) -> Result<Option<T>, Failure> {
        loop {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            match self.replies.recv_timeout(STOP_CHECK) {
                Ok(Ok(Reply::Refused { what, why, next, request })) => {
                    let failure = if request { Failure::request(what) } else { Failure::environment(what) };
                    return Err(Failure { why, next, ..failure });
                }
                Ok(reply) => {
                    if let Some(value) = handle(reply?)? {
                        return Ok(Some(value));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(ended()),
            }
        }
    }

    fn send(&mut self, request: &Request) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(request).map_err(|e| Failure::new(Family::Bug, e.to_string()))?;
        line.push(b'\n');
        match self.requests.write_all(&line).and_then(|()| self.requests.flush()) {
            // an engine that refused and ended has sent the reason, which is received next
            Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(ended().why(e.to_string())),
            _ => Ok(()),
        }
    }
}

impl Drop for EngineProcess {
    fn drop(&mut self) {
        let EngineProcess(reaper) = self;
        let begin = Instant::now();
        while begin.elapsed() < END_TIMEOUT {
            if !matches!(reaper.try_wait(), Ok(None)) {
                tracing::debug!(reaper = reaper.id(), "flip engine ended");
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        tracing::debug!(reaper = reaper.id(), "flip engine killed: it did not end after its input was closed");
        let _ = reaper.kill();
        let _ = reaper.wait();
    }
}

/// A reply of the wrong kind, which is a bug.
pub(crate) fn unexpected(reply: &Reply) -> Failure {
    let what = match reply {
        Reply::Profile(_) => "profile",
        Reply::Refused { .. } => "refusal",
        Reply::Injected(_) => "injection",
        Reply::Progress { .. } => "progress",
        Reply::Done(_) => "end of a request",
        Reply::Totals(_) => "totals",
        Reply::Held(_) => "held process",
    };
    Failure::new(Family::Bug, format!("unexpected {what} from the flip engine"))
}

fn ended() -> Failure {
    Failure::environment("the flip engine ended before its work was done")
        .next("completed flips are kept: continue with --resume; if it happens again, please report it")
}

fn read_reply(lines: &mut impl BufRead) -> Option<Result<Reply, Failure>> {
    let mut line = Vec::new();
    match lines.by_ref().take(LINE_MAX).read_until(b'\n', &mut line) {
        Ok(_) if line.last() == Some(&b'\n') => Some(
            serde_json::from_slice(&line)
                .map_err(|e| Failure::new(Family::Bug, format!("invalid reply from the flip engine: {e}"))),
        ),
        // the end, or a line that it truncated
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bit_flips::engine_messages::Timings;

    fn client(bytes: &'static [u8]) -> EngineClient {
        EngineClient::connect(bytes, std::io::sink())
    }

    fn receive(client: &mut EngineClient, stop: bool) -> Result<Option<Reply>, Failure> {
        client.receive(&AtomicBool::new(stop), |reply| Ok(Some(reply)))
    }

    #[test]
    fn replies_arrive_in_order_and_the_end_is_an_error() {
        let mut client = client(b"{\"progress\":{\"position\":5,\"of\":9}}\n{\"refused\":{\"what\":\"no\",\"why\":\"it is static\",\"next\":null}}\n{\"do");
        assert_eq!(receive(&mut client, false).unwrap(), Some(Reply::Progress { position: 5, of: 9 }));
        let refused = receive(&mut client, false).unwrap_err();
        assert_eq!((refused.what.as_str(), refused.why.as_deref()), ("no", Some("it is static")));
        assert!(receive(&mut client, false).unwrap_err().what.contains("ended before"));
    }

    #[test]
    fn the_stop_flag_is_checked_while_no_reply_arrives() {
        let (silent, _open) = std::io::pipe().unwrap();
        let mut client = EngineClient::connect(silent, std::io::sink());
        assert_eq!(receive(&mut client, true).unwrap(), None);
    }

    #[test]
    fn an_engine_that_blocks_on_its_output_ends_with_its_client() {
        let script = "while echo '{\"progress\":{\"position\":5,\"of\":9}}'; do :; done";
        let mut client = EngineClient::start(Path::new("sh"), &[OsStr::new("-c"), OsStr::new(script)]).unwrap();
        assert_eq!(receive(&mut client, false).unwrap(), Some(Reply::Progress { position: 5, of: 9 }));
        let begin = Instant::now();
        drop(client);
        assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    }

    #[test]
    fn an_invalid_reply_is_our_bug() {
        let failure = receive(&mut client(b"hello\n"), false).unwrap_err();
        assert_eq!(failure.family, Family::Bug);
        let done = serde_json::to_string(&Reply::Done(Timings::default())).unwrap();
        assert!(done.starts_with("{\"done\":"), "{done}");
    }
}
