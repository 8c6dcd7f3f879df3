//! The input trace: what clients send to a server under the replay shim, and what its upstream servers answer.
//!
//! ```text
//! replay 1
//! connect 0 tcp 11211
//! send 0 7
//! get a␍␊
//! close 0
//! ```
//!
//! The shim reads it strictly (`shim/trace.c`), so this does: what one accepts, the other does. See `docs/formats/replay.md`.

mod reader;

use model::Failure;
use reader::Reader;
use std::net::Ipv4Addr;

/// Of a whole trace.
pub const TRACE_BYTES: usize = 64 << 20;
/// Numbers of connections are below this.
pub const CONNECTIONS: u32 = 4096;
pub const ANSWERS: usize = 4096;

const FIRST_LINE: &[u8] = b"replay 1\n";

/// Where a connection goes. Port 0: the first that is listened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    Any,
    Tcp(u16),
    Udp(u16),
}

/// What happens next, when the server has nothing left to do.
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
    /// The client sends no more; it still reads.
    Close {
        connection: u32,
    },
    /// Virtual time passes.
    Wait {
        ms: u32,
    },
}

/// What an upstream server says to a datagram. The first two bytes of both are an id: they are not compared, and are copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// None: any server.
    pub server: Option<Ipv4Addr>,
    pub query: Vec<u8>,
    pub answer: Vec<u8>,
}

/// Steps in their order, and answers, which have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    pub steps: Vec<Step>,
    pub answers: Vec<Answer>,
}

impl Trace {
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

    /// The numbers of its connections, in the order in which they are opened.
    pub fn connections(&self) -> Vec<u32> {
        let opened = |step: &Step| match step {
            Step::Connect { connection, .. } => Some(*connection),
            _ => None,
        };
        self.steps.iter().filter_map(opened).collect()
    }

    /// The trace as the shim reads it. Does not check bounds: [`Trace::parse`] does.
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

    /// Reads a trace whole, or says in which line it is wrong. Lines of payloads are not counted.
    pub fn parse(bytes: &[u8]) -> Result<Trace, Failure> {
        if bytes.len() > TRACE_BYTES {
            return Err(Failure::request(format!("the input trace has {} bytes", bytes.len()))
                .why(format!("a trace has at most {TRACE_BYTES}"))
                .next("record or generate less"));
        }
        Reader::of(bytes).trace().map_err(|(line, why)| {
            Failure::request(format!("the input trace is wrong in its line {line} (payloads not counted)"))
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
    use super::reader::State;
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

    /// Connections that are opened, used and closed in order.
    fn traces() -> impl Strategy<Value = Trace> {
        let acts = prop::collection::vec((0..4u8, 0..8u32, listener(), bytes(0), any::<u32>()), 0..40);
        (acts, prop::collection::vec(answer(), 0..4)).prop_map(|(acts, answers)| {
            let mut trace = Trace { steps: vec![], answers };
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
            prop_assert_eq!(Trace::parse(&trace.to_bytes()).map_err(|e| e.what), Ok(trace));
        }

        #[test]
        fn what_is_accepted_is_written_the_same(bytes in traces(), at: prop::sample::Index, byte: u8) {
            let mut bytes = bytes.to_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            // with one spelling for each trace; answers may stand anywhere, and are written first
            if let Ok(trace) = Trace::parse(&bytes) {
                prop_assert_eq!(Trace::parse(&trace.to_bytes()).map_err(|e| e.what), Ok(trace));
            }
        }

        #[test]
        fn anything_is_read_without_a_panic(bytes: Vec<u8>) {
            let _ = Trace::parse(&[FIRST_LINE, &bytes].concat());
        }
    }

    #[test]
    fn what_is_wrong_is_refused_with_its_line() {
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
            let failure = Trace::parse(text.as_bytes()).expect_err(text);
            assert!(failure.what.contains(&format!("in its line {line} ")), "{text:?}: {}", failure.what);
        }
    }

    #[test]
    fn bounds_are_those_of_the_shim() {
        let source = include_str!("../shim/trace.h");
        assert!(source.contains(&format!("#define TRACE_BYTES ({}u << 20)", TRACE_BYTES >> 20)));
        assert!(source.contains(&format!("#define CONNECTIONS {CONNECTIONS}\n")));
        assert!(source.contains(&format!("#define ANSWERS {ANSWERS}\n")));
    }
}
