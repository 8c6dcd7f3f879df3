//! The input trace: what clients send to a server under replay, and what its upstream servers answer.
//!
//! ```text
//! replay 1
//! connect 0 tcp 11211
//! send 0 7
//! get a␍␊
//! close 0
//! ```
//!
//! The shim parses it strictly (`break/replay/shim/trace.c`), and so does this: both accept the same traces.

use std::net::Ipv4Addr;

/// The largest trace.
pub const TRACE_BYTES: usize = 64 << 20;
/// Connection numbers are below this.
pub const CONNECTIONS: u32 = 4096;
/// The most answers of upstream servers.
pub const ANSWERS: usize = 4096;

pub(super) const FIRST_LINE: &[u8] = b"replay 1\n";

/// Where a connection goes. Port 0: the first port with a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    Any,
    Tcp(u16),
    Udp(u16),
}

/// The next event, delivered when the server is idle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Connect {
        connection: u32,
        to: Listener,
    },
    Send {
        connection: u32,
        bytes: Vec<u8>,
    },
    /// The client sends no more but still reads.
    Close {
        connection: u32,
    },
    /// Virtual time passes.
    Wait {
        ms: u32,
    },
}

/// An upstream server's answer to a datagram. The first two bytes of both are an id, which is not compared but copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// None: any server.
    pub server: Option<Ipv4Addr>,
    pub query: Vec<u8>,
    pub answer: Vec<u8>,
}

/// Steps in order, and answers, which have no order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputTrace {
    pub steps: Vec<Step>,
    pub answers: Vec<Answer>,
}

impl InputTrace {
    pub fn connect(&mut self, connection: u32, to: Listener) {
        self.steps.push(Step::Connect { connection, to });
    }

    pub fn send(&mut self, connection: u32, bytes: impl Into<Vec<u8>>) {
        self.steps.push(Step::Send { connection, bytes: bytes.into() });
    }

    pub fn close(&mut self, connection: u32) {
        self.steps.push(Step::Close { connection });
    }

    pub fn wait(&mut self, ms: u32) {
        self.steps.push(Step::Wait { ms });
    }

    /// Connection numbers in the order in which they are opened.
    pub fn connections(&self) -> Vec<u32> {
        let opened = |step: &Step| match step {
            Step::Connect { connection, .. } => Some(*connection),
            _ => None,
        };
        self.steps.iter().filter_map(opened).collect()
    }

    /// The trace as the shim reads it. Does not check limits: [`InputTrace::parse`] does.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = FIRST_LINE.to_vec();
        for answer in &self.answers {
            let server = answer.server.map_or("*".to_owned(), |server| server.to_string());
            line(&mut out, &format!("answer {server} {} {}", answer.query.len(), answer.answer.len()));
            out.extend(&answer.query);
            out.extend(&answer.answer);
            out.push(b'\n');
        }
        for step in &self.steps {
            match step {
                Step::Connect { connection, to: Listener::Any } => line(&mut out, &format!("connect {connection}")),
                Step::Connect { connection, to: Listener::Tcp(port) } => {
                    line(&mut out, &format!("connect {connection} tcp {port}"));
                }
                Step::Connect { connection, to: Listener::Udp(port) } => {
                    line(&mut out, &format!("connect {connection} udp {port}"));
                }
                Step::Send { connection, bytes } => {
                    line(&mut out, &format!("send {connection} {}", bytes.len()));
                    out.extend(bytes);
                    out.push(b'\n');
                }
                Step::Close { connection } => line(&mut out, &format!("close {connection}")),
                Step::Wait { ms } => line(&mut out, &format!("wait {ms}")),
            }
        }
        out
    }
}

fn line(out: &mut Vec<u8>, text: &str) {
    out.extend(text.as_bytes());
    out.push(b'\n');
}
