//! The engine as its client: requests go out, replies come in, one JSON object per line.
//!
//! Whoever started the engine gives the two ends. When an [`Engine`] is dropped its requests end, and so does the engine.

use bit_flips::protocol::{Reply, Request};
use model::{Failure, Family};
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// How soon a wish to stop is noticed.
const LOOK: Duration = Duration::from_millis(50);
/// Replies that may wait to be judged; then the engine waits.
const WAITING_MAX: usize = 64;
/// No output is longer: the engine bounds what a program writes.
const LINE_MAX: u64 = 1 << 30;

pub struct Engine {
    requests: Box<dyn Write + Send>,
    replies: Receiver<Result<Reply, Failure>>,
}

pub enum Event {
    Reply(Box<Reply>),
    /// The wish to stop was noticed while waiting.
    Stopped,
}

impl Engine {
    pub fn over(replies: impl Read + Send + 'static, requests: impl Write + Send + 'static) -> Engine {
        let (to, from) = sync_channel(WAITING_MAX);
        std::thread::spawn(move || {
            let mut lines = BufReader::new(replies);
            while let Some(reply) = next(&mut lines) {
                let last = reply.is_err();
                if to.send(reply).is_err() || last {
                    return;
                }
            }
        });
        Engine { requests: Box::new(requests), replies: from }
    }

    pub fn ask(&mut self, request: &Request) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(request).map_err(|e| Failure::new(Family::Bug, e.to_string()))?;
        line.push(b'\n');
        // an engine that refused and ended has said why: that is read before its absence is told
        match self.requests.write_all(&line).and_then(|()| self.requests.flush()) {
            Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(gone().why(e.to_string())),
            _ => Ok(()),
        }
    }

    /// The next reply. A refusal is an error with the engine's words; so is an engine that ended.
    pub fn wait(&self, stop: &AtomicBool) -> Result<Event, Failure> {
        loop {
            if stop.load(Ordering::Relaxed) {
                return Ok(Event::Stopped);
            }
            match self.replies.recv_timeout(LOOK) {
                Ok(Ok(Reply::Refused { what, why, next, request })) => {
                    let failure = if request { Failure::request(what) } else { Failure::environment(what) };
                    return Err(Failure { why, next, ..failure });
                }
                Ok(reply) => return reply.map(|reply| Event::Reply(Box::new(reply))),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
            }
        }
    }
}

fn gone() -> Failure {
    Failure::environment("the flip engine ended before its work was done")
        .next("what it did is kept: go on with --resume; if it happens again, please report it")
}

fn next(lines: &mut impl BufRead) -> Option<Result<Reply, Failure>> {
    let mut line = Vec::new();
    match lines.by_ref().take(LINE_MAX).read_until(b'\n', &mut line) {
        Ok(_) if line.last() == Some(&b'\n') => Some(
            serde_json::from_slice(&line)
                .map_err(|e| Failure::new(Family::Bug, format!("the flip engine said what is no reply: {e}"))),
        ),
        // the end, or a line that was cut off by it
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bit_flips::protocol::Spent;

    fn told(bytes: &'static [u8]) -> Engine {
        Engine::over(bytes, std::io::sink())
    }

    #[test]
    fn replies_come_in_order_and_the_end_is_an_error() {
        let engine = told(b"{\"progress\":{\"position\":5,\"of\":9}}\n{\"refused\":{\"what\":\"no\",\"why\":\"it is static\",\"next\":null}}\n{\"do");
        let go = AtomicBool::new(false);
        assert!(matches!(engine.wait(&go), Ok(Event::Reply(r)) if *r == Reply::Progress { position: 5, of: 9 }));
        let refused = engine.wait(&go).err().unwrap();
        assert_eq!((refused.what.as_str(), refused.why.as_deref()), ("no", Some("it is static")));
        assert!(engine.wait(&go).err().unwrap().what.contains("ended before"));
    }

    #[test]
    fn a_wish_to_stop_is_noticed_while_nothing_comes() {
        let (silent, _kept) = std::io::pipe().unwrap();
        let engine = Engine::over(silent, std::io::sink());
        assert!(matches!(engine.wait(&AtomicBool::new(true)), Ok(Event::Stopped)));
    }

    #[test]
    fn what_is_no_reply_is_our_bug() {
        let failure = told(b"hello\n").wait(&AtomicBool::new(false)).err().unwrap();
        assert_eq!(failure.family, Family::Bug);
        let done = serde_json::to_string(&Reply::Done(Spent::default())).unwrap();
        assert!(done.starts_with("{\"done\":"), "{done}");
    }
}
