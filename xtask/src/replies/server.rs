//! The scripted server. Each attempt has a port of its own, so that no library reuses a connection of another attempt.

use super::case::Case;
use super::{grpc, script};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wire::accept::Receiver;
use wire::envelope::Envelope;
use wire::trust::Trust;

/// How long a stalled reply lasts at most. Longer than the driver's limit for one call.
pub const STALL: Duration = Duration::from_secs(12);

/// What the server received for one attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    pub requests: u32,
    /// Those with an envelope that accepts a history in the body of the reply, which proves that they are traced.
    pub traced: u32,
}

/// A server that answers every request with the reply of one case. It stops when it is dropped; replies that have begun
/// continue.
pub struct Server {
    pub port: u16,
    shared: Arc<Shared>,
}

pub struct Shared {
    pub case: Case,
    trust: Trust,
    received: Mutex<Received>,
    is_stopped: AtomicBool,
}

impl Server {
    /// Starts to listen on loopback.
    pub fn start(case: &Case, is_grpc: bool, trust: &Trust) -> Result<Server, String> {
        let failed = |e: std::io::Error| format!("listen: {e}");
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let shared = Arc::new(Shared {
            case: case.clone(),
            trust: trust.clone(),
            received: Mutex::default(),
            is_stopped: AtomicBool::new(false),
        });
        let (server, answer) = (shared.clone(), if is_grpc { grpc::answer } else { answer_http });
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if server.is_stopped.load(Ordering::Relaxed) {
                    return;
                }
                let shared = server.clone();
                // a client that leaves early is an error of the connection only
                std::thread::spawn(move || drop(answer(&shared, stream)));
            }
        });
        Ok(Server { port, shared })
    }

    pub fn received(&self) -> Received {
        *self.shared.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port)); // wakes the thread that accepts
    }
}

impl Shared {
    /// Counts a request. Returns its number, from 1, and the call of its envelope, if that accepts a history.
    fn count(&self, envelope: Option<Envelope>) -> (u32, Option<u64>) {
        let accepts = |envelope: &Envelope| envelope.hop.accept.tail || envelope.hop.accept.field;
        // a reply without a body has no tail
        let is_expected = envelope.as_ref().is_some_and(|envelope| accepts(envelope) || self.case.method == "HEAD");
        let call = envelope.filter(accepts).map(|envelope| envelope.hop.call);
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        received.requests += 1;
        received.traced += u32::from(is_expected);
        (received.requests, call)
    }

    fn receiver(&self) -> Receiver {
        Receiver::new(self.trust.clone())
    }

    /// Counts a gRPC request, see [`Shared::count`].
    pub fn count_grpc(&self, envelope: Option<&[u8]>) -> Option<u64> {
        self.count(envelope.and_then(|bytes| self.receiver().accept(bytes, super::unix_s(), 1).ok())).1
    }
}

/// Reads one request and sends the reply.
fn answer_http(shared: &Arc<Shared>, mut stream: TcpStream) -> std::io::Result<()> {
    // The request is left in the receive buffer until the script ends: the kernel resets a connection that is closed
    // with unread bytes.
    let mut buffer = vec![0; 64 << 10];
    while let Some((head, length)) = next_request(&stream, &mut buffer)? {
        if !answer_request(shared, &mut stream, &head, &mut buffer[..length])? {
            break;
        }
    }
    Ok(())
}

/// The head of the next request, and its length with the body. `None`: the client has closed the connection.
fn next_request(stream: &TcpStream, buffer: &mut [u8]) -> std::io::Result<Option<(String, usize)>> {
    stream.set_read_timeout(Some(STALL))?;
    loop {
        let n = stream.peek(buffer)?;
        let text = String::from_utf8_lossy(&buffer[..n]).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head_value(head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            if body.len() >= length {
                return Ok(Some((head.to_owned(), head.len() + 4 + length)));
            }
        }
        if n == 0 {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn head_value<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let headers = head.lines().filter_map(|line| line.split_once(':'));
    headers.filter(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
}

/// Sends the reply to a request of these bytes, which are still to be read. Returns whether another may follow.
fn answer_request(
    shared: &Arc<Shared>,
    stream: &mut TcpStream,
    head: &str,
    request: &mut [u8],
) -> std::io::Result<bool> {
    let envelope = head_value(head, "x-faultloom");
    let envelope = envelope.and_then(|text| shared.receiver().accept_header(text, super::unix_s(), 1).ok());
    let (number, call) = shared.count(envelope);
    let call = call.unwrap_or_default();
    let Case { reply, then, .. } = &shared.case;
    let is_last = then.is_empty() || number > 1;
    for step in if number == 1 || then.is_empty() { reply } else { then } {
        match script::step(step, call).map_err(std::io::Error::other)? {
            script::Step::Send(bytes) => stream.write_all(&bytes)?,
            script::Step::PauseMs(ms) => std::thread::sleep(Duration::from_millis(ms)),
            script::Step::Reset => return Ok(false), // closes with the request unread
            script::Step::Close => {
                stream.read_exact(request)?;
                close(stream)?;
                return Ok(false);
            }
            script::Step::Stall => {
                stream.read_exact(request)?;
                stream.set_read_timeout(Some(STALL))?;
                while stream.read(request)? > 0 {}
                return Ok(false);
            }
        }
    }
    stream.read_exact(request)?;
    if is_last {
        close(stream)?;
    }
    Ok(!is_last)
}

/// Closes a connection without a reset.
pub fn close(mut stream: &TcpStream) -> std::io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer)? > 0 {}
    Ok(())
}
