//! Plays an input trace to a running server over real connections, one step after the other.
//!
//! A byte stream does not show when an answer is complete. In the first run, an answer is complete when no bytes arrive
//! for [`QUIET`]; in later runs each send waits for as many bytes as in the first run, or for the timeout. At the end
//! every connection is shut down for writing and read to its end. So extra answers are received, and the server's
//! connections are closed in order instead of reset before the trace is played again.

use model::Failure;
use model::flip::{Effect, Ending};
use model::flip::{Output, Stream};
use model::replay::{InputTrace, Listener, Step};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

const QUIET: Duration = Duration::from_millis(50);
/// Time to read bytes that have arrived.
const LEAST: Duration = Duration::from_millis(1);
/// How long a server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(2);
const BYTES_MAX: usize = 64 << 20;

pub struct ReplayClient {
    server: String,
    trace: InputTrace,
    /// How many bytes the connection had received after each step of the first run.
    lengths: Option<Vec<usize>>,
}

/// How long a client reads.
#[derive(Clone, Copy)]
enum Until {
    /// Until it has received this many bytes in total.
    Bytes(usize),
    /// Until no bytes have arrived for this time.
    Silence(Duration),
}

struct Connection {
    stream: TcpStream,
    bytes: Vec<u8>,
    ended: bool,
}

impl ReplayClient {
    /// Refuses a trace with datagrams: a lost one cannot be distinguished from a wrong one.
    pub fn new(server: &str, trace: InputTrace) -> Result<ReplayClient, Failure> {
        let datagrams = |step: &Step| matches!(step, Step::Connect { to: Listener::Udp(_), .. });
        if trace.steps.iter().any(datagrams) {
            return Err(Failure::request("the trace has datagrams, which may be lost")
                .next("run the server under its trace without --server"));
        }
        Ok(ReplayClient { server: server.to_owned(), trace, lengths: None })
    }

    /// Plays the whole trace within `timeout`. A server that does not answer is not an error.
    pub fn run(&mut self, timeout: Duration) -> (Output, Effect) {
        let begin = Instant::now();
        let mut connections: BTreeMap<u32, Connection> = BTreeMap::new();
        let mut received = Vec::new();
        let mut late = false;
        for (index, step) in self.trace.steps.iter().enumerate() {
            let until = self.lengths.as_ref().map_or(Until::Silence(QUIET), |lengths| Until::Bytes(lengths[index]));
            let left = timeout.saturating_sub(begin.elapsed());
            late |= left.is_zero();
            let number = match step {
                _ if late => break,
                Step::Connect { connection, .. } => {
                    connections.extend(connect(&self.server).map(|made| (*connection, made)));
                    *connection
                }
                Step::Send { connection, bytes } => {
                    if let Some(to) = connections.get_mut(connection) {
                        // a server that has ended reads nothing, but what it sent before counts
                        to.ended |= to.stream.write_all(bytes).is_err();
                        late |= !to.receive(until, left);
                    }
                    *connection
                }
                Step::Close { connection } => {
                    if let Some(to) = connections.get_mut(connection) {
                        let _ = to.stream.shutdown(Shutdown::Write);
                        late |= !to.receive(until, left);
                    }
                    *connection
                }
                Step::Wait { ms } => {
                    std::thread::sleep(Duration::from_millis((*ms).into()).min(left));
                    u32::MAX
                }
            };
            received.push(connections.get(&number).map_or(0, |c| c.bytes.len()));
        }
        self.lengths.get_or_insert(received);
        late |= !drained(&mut connections, timeout.saturating_sub(begin.elapsed()));
        let named = |(number, c): (u32, Connection)| Stream { name: format!("connection {number}"), bytes: c.bytes };
        let output = Output { streams: connections.into_iter().map(named).collect() };
        let ending = if late { Ending::Hang } else { Ending::Exit(0) };
        let cpu_us = begin.elapsed().as_micros() as u64;
        (output, Effect { hit: String::new(), activated: true, ending, crash: None, cpu_us, refused_calls: 0 })
    }
}

/// Reads all connections to their end. False: the timeout was reached while bytes still arrived.
fn drained(connections: &mut BTreeMap<u32, Connection>, left: Duration) -> bool {
    for connection in connections.values() {
        let _ = connection.stream.shutdown(Shutdown::Write);
    }
    let begin = Instant::now();
    connections.values_mut().all(|connection| {
        let elapsed = begin.elapsed();
        // connections that the server keeps open are quiet at the same time
        let quiet = QUIET.saturating_sub(elapsed).max(LEAST);
        elapsed >= left || connection.receive(Until::Silence(quiet), left - elapsed)
    })
}

/// None: the server does not accept.
fn connect(server: &str) -> Option<Connection> {
    use std::net::ToSocketAddrs;
    let stream = server.to_socket_addrs().ok()?.find_map(|at| TcpStream::connect_timeout(&at, CONNECT).ok())?;
    stream.set_nodelay(true).ok()?;
    Some(Connection { stream, bytes: Vec::new(), ended: false })
}

impl Connection {
    /// False: the timeout was reached.
    fn receive(&mut self, until: Until, left: Duration) -> bool {
        let begin = Instant::now();
        let mut buffer = [0; 65_536];
        while !self.ended && !matches!(until, Until::Bytes(all) if self.bytes.len() >= all) {
            let rest = left.saturating_sub(begin.elapsed());
            let patience = match until {
                Until::Bytes(_) => rest,
                Until::Silence(quiet) => quiet.min(rest),
            };
            if patience.is_zero() || self.stream.set_read_timeout(Some(patience)).is_err() {
                return false;
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => self.ended = true,
                Ok(n) if self.bytes.len() + n <= BYTES_MAX => self.bytes.extend(&buffer[..n]),
                Ok(_) => return false,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return matches!(until, Until::Silence(_));
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.ended = true,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Echoes each byte twice; wrong ones while `disturbed`.
    fn server(disturbed: Arc<AtomicBool>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, disturbed) = (stream.unwrap(), disturbed.clone());
                std::thread::spawn(move || {
                    let mut byte = [0];
                    while stream.read(&mut byte).is_ok_and(|n| n == 1) {
                        byte[0] ^= u8::from(disturbed.load(Ordering::Relaxed) && byte[0] == b'b');
                        let _ = stream.write_all(&[byte[0], byte[0]]);
                    }
                });
            }
        });
        at
    }

    fn trace() -> InputTrace {
        let mut trace = InputTrace::default();
        (0..2).for_each(|connection| trace.connect(connection, Listener::Any));
        trace.send(0, "a\n");
        trace.send(1, "bc\n");
        trace.send(0, "d\n");
        trace.close(0);
        trace
    }

    #[test]
    fn a_trace_is_played_the_same_each_time() {
        let disturbed = Arc::new(AtomicBool::new(false));
        let mut clients = ReplayClient::new(&server(disturbed.clone()), trace()).unwrap();
        let timeout = Duration::from_secs(10);
        let (healthy, effect) = clients.run(timeout);
        assert_eq!(healthy.streams[0].bytes, b"aa\n\ndd\n\n");
        assert_eq!(healthy.streams[1].bytes, b"bbcc\n\n");
        assert_eq!((effect.ending, clients.run(timeout).0 == healthy), (Ending::Exit(0), true));
        disturbed.store(true, Ordering::Relaxed);
        assert_eq!(clients.run(timeout).0.streams[1].bytes, b"cccc\n\n");
        disturbed.store(false, Ordering::Relaxed);
        assert!(clients.run(timeout).0 == healthy);
    }

    /// The server sends an extra answer at the end of a connection while `disturbed`, and reports how each connection
    /// ended.
    #[test]
    fn an_extra_answer_is_received_and_connections_are_closed_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap().to_string();
        let disturbed = Arc::new(AtomicBool::new(false));
        let (to, from) = std::sync::mpsc::channel();
        let again = disturbed.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, mut byte) = (stream.unwrap(), [0]);
                while stream.read(&mut byte).is_ok_and(|n| n == 1) {
                    stream.write_all(&byte).unwrap();
                }
                if again.load(Ordering::Relaxed) {
                    stream.write_all(b"again\n").unwrap();
                }
                // a client that closes without having read everything resets the connection
                stream.shutdown(Shutdown::Write).unwrap();
                to.send(stream.read(&mut byte).map_err(|e| e.kind())).unwrap();
            }
        });
        let mut trace = InputTrace::default();
        trace.connect(0, Listener::Any);
        trace.send(0, "a\n");
        let mut clients = ReplayClient::new(&at, trace).unwrap();
        let timeout = Duration::from_secs(10);
        assert_eq!(clients.run(timeout).0.streams[0].bytes, b"a\n");
        disturbed.store(true, Ordering::Relaxed);
        assert_eq!(clients.run(timeout).0.streams[0].bytes, b"a\nagain\n");
        disturbed.store(false, Ordering::Relaxed);
        assert_eq!(clients.run(timeout).0.streams[0].bytes, b"a\n");
        for _ in 0..3 {
            assert_eq!(from.recv_timeout(timeout).unwrap(), Ok(0));
        }
    }

    #[test]
    fn a_server_that_is_gone_or_silent_is_an_outcome() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut clients = ReplayClient::new(&silent.local_addr().unwrap().to_string(), trace()).unwrap();
        clients.lengths = Some(vec![0, 0, 4, 6, 8, 8]);
        let (output, effect) = clients.run(Duration::from_millis(100));
        assert_eq!((output.streams[0].bytes.len(), effect.ending), (0, Ending::Hang));
        drop(silent);
        assert!(clients.run(Duration::from_secs(1)).0.streams.is_empty());
        let mut datagrams = InputTrace::default();
        datagrams.connect(0, Listener::Udp(53));
        assert!(ReplayClient::new("127.0.0.1:1", datagrams).is_err());
    }
}
