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

use super::reader::Reader;
use crate::Failure;
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

    /// Parses a whole trace. An error names the invalid line; lines within payloads are not counted.
    pub fn parse(bytes: &[u8]) -> Result<InputTrace, Failure> {
        if bytes.len() > TRACE_BYTES {
            return Err(Failure::request(format!("the input trace has {} bytes", bytes.len()))
                .why(format!("a trace has at most {TRACE_BYTES}"))
                .next("record or generate a shorter one"));
        }
        Reader::of(bytes).trace().map_err(|(line, why)| {
            Failure::request(format!("the input trace is invalid in line {line} (payloads not counted)"))
                .why(why)
                .next("the format is described in docs/formats/replay.md")
        })
    }
}

fn line(out: &mut Vec<u8>, words: &str) {
    out.extend(words.as_bytes());
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::super::reader::State;
    use super::*;
    use proptest::prelude::*;

    fn listener() -> impl Strategy<Value = Listener> {
        prop_oneof![Just(Listener::Any), any::<u16>().prop_map(Listener::Tcp), any::<u16>().prop_map(Listener::Udp)]
    }

    fn bytes(least: usize) -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), least..40)
    }

    fn answer() -> impl Strategy<Value = Answer> {
        (any::<Option<u32>>(), bytes(2), bytes(2)).prop_map(|(server, query, answer)| Answer {
            server: server.map(Ipv4Addr::from),
            query,
            answer,
        })
    }

    /// Traces whose connections are opened, used and closed in order.
    fn traces() -> impl Strategy<Value = InputTrace> {
        let acts = prop::collection::vec((0..4u8, 0..8u32, listener(), bytes(0), any::<u32>()), 0..40);
        (acts, prop::collection::vec(answer(), 0..4)).prop_map(|(acts, answers)| {
            let mut trace = InputTrace { steps: vec![], answers };
            let mut states = [State::Unused; 8];
            for (act, connection, to, bytes, ms) in acts {
                let state = &mut states[connection as usize];
                match (act, *state) {
                    (0, State::Unused) => trace.connect(connection, to),
                    (1, State::Open) => trace.send(connection, bytes),
                    (2, State::Open) => trace.close(connection),
                    (3, _) => trace.wait(ms),
                    _ => continue,
                }
                match act {
                    0 => *state = State::Open,
                    2 => *state = State::Closed,
                    _ => {}
                }
            }
            trace
        })
    }

    proptest! {
        #[test]
        fn traces_survive_a_round_trip(trace in traces()) {
            prop_assert_eq!(InputTrace::parse(&trace.to_bytes()).map_err(|e| e.what), Ok(trace));
        }

        #[test]
        fn an_accepted_trace_is_written_unchanged(bytes in traces(), at: prop::sample::Index, byte: u8) {
            let mut bytes = bytes.to_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            // each trace has one spelling, except that answers may be anywhere and are written first
            if let Ok(trace) = InputTrace::parse(&bytes) {
                prop_assert_eq!(InputTrace::parse(&trace.to_bytes()).map_err(|e| e.what), Ok(trace));
            }
        }

        #[test]
        fn parsing_any_bytes_does_not_panic(bytes: Vec<u8>) {
            let _ = InputTrace::parse(&[FIRST_LINE, &bytes].concat());
        }
    }

    #[test]
    fn an_invalid_trace_is_refused_with_its_line() {
        for (text, line) in [
            ("", 1),
            ("replay 2\n", 1),
            ("replay 1\nconnect 4096\n", 2),
            ("replay 1\nconnect 01\n", 2),
            ("replay 1\nconnect 1\nconnect 1\n", 3),
            ("replay 1\nsend 0 1\na\n", 2),
            ("replay 1\nconnect 0\nsend 0 2\na\n", 3),
            ("replay 1\nconnect 0\nclose 0\nsend 0 1\na\n", 4),
            ("replay 1\nconnect 0 tcp 65536\n", 2),
            ("replay 1\nanswer * 1 2\nabb\n", 2),
            ("replay 1\nanswer 1.2.3 2 2\naabb\n", 2),
            ("replay 1\nwait 4294967296\n", 2),
            ("replay 1\nwait 1", 2),
        ] {
            let failure = InputTrace::parse(text.as_bytes()).expect_err(text);
            assert!(failure.what.contains(&format!("in line {line} ")), "{text:?}: {}", failure.what);
        }
    }
}
