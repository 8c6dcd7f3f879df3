//! Parses an input trace as strictly as the shim does.

use super::input_trace::{ANSWERS, Answer, CONNECTIONS, FIRST_LINE, InputTrace, Listener, Step, TRACE_BYTES};
use crate::Failure;
use std::net::Ipv4Addr;

impl InputTrace {
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

#[derive(Clone, Copy, PartialEq)]
enum State {
    Unused,
    Open,
    Closed,
}

struct Reader<'a> {
    rest: &'a [u8],
    states: Vec<State>,
}

type Read<T> = Result<T, &'static str>;

impl<'a> Reader<'a> {
    pub fn of(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes, states: vec![State::Unused; CONNECTIONS as usize] }
    }

    /// Parses all of it. An error is the number of a line and why it is invalid.
    pub fn trace(mut self) -> Result<InputTrace, (usize, &'static str)> {
        let mut trace = InputTrace::default();
        if !self.accept(FIRST_LINE) {
            return Err((1, "it does not begin with `replay 1`"));
        }
        for line in 2.. {
            if self.rest.is_empty() {
                break;
            }
            if self.accept(b"answer ") {
                if trace.answers.len() == ANSWERS {
                    return Err((line, "there are too many answers"));
                }
                trace.answers.push(self.answer().map_err(|why| (line, why))?);
            } else {
                trace.steps.push(self.step().map_err(|why| (line, why))?);
            }
        }
        Ok(trace)
    }

    fn step(&mut self) -> Read<Step> {
        let step = if self.accept(b"connect ") {
            self.connect()?
        } else if self.accept(b"send ") {
            let connection = self.open_connection()?;
            self.expect(b" ")?;
            let length = self.number(TRACE_BYTES as u32)?;
            self.expect(b"\n")?;
            Step::Send { connection, bytes: self.payload(length)? }
        } else if self.accept(b"close ") {
            let connection = self.open_connection()?;
            self.states[connection as usize] = State::Closed;
            Step::Close { connection }
        } else if self.accept(b"wait ") {
            Step::Wait { ms: self.number(u32::MAX)? }
        } else {
            return Err("it does not begin with connect, send, close, wait or answer");
        };
        self.expect(b"\n")?;
        Ok(step)
    }

    fn connect(&mut self) -> Read<Step> {
        let connection = self.number(CONNECTIONS - 1)?;
        let to = if self.accept(b" udp ") {
            Listener::Udp(self.port()?)
        } else if self.accept(b" tcp ") {
            Listener::Tcp(self.port()?)
        } else {
            Listener::Any
        };
        if self.states[connection as usize] != State::Unused {
            return Err("the connection was opened before");
        }
        self.states[connection as usize] = State::Open;
        Ok(Step::Connect { connection, to })
    }

    fn answer(&mut self) -> Read<Answer> {
        let server = self.server()?;
        self.expect(b" ")?;
        let query = self.number(u32::from(u16::MAX))?;
        self.expect(b" ")?;
        let answer = self.number(u32::from(u16::MAX))?;
        self.expect(b"\n")?;
        if query < 2 || answer < 2 {
            return Err("a query and its answer have an id of two bytes");
        }
        let answer = Answer { server, query: self.payload(query)?, answer: self.payload(answer)? };
        self.expect(b"\n")?;
        Ok(answer)
    }

    fn server(&mut self) -> Read<Option<Ipv4Addr>> {
        if self.accept(b"*") {
            return Ok(None);
        }
        let mut parts = [0u8; 4];
        for (i, part) in parts.iter_mut().enumerate() {
            if i > 0 {
                self.expect(b".")?;
            }
            *part = self.number(255)? as u8;
        }
        Ok(Some(Ipv4Addr::from(parts)))
    }

    fn open_connection(&mut self) -> Read<u32> {
        let connection = self.number(CONNECTIONS - 1)?;
        match self.states[connection as usize] {
            State::Open => Ok(connection),
            _ => Err("the connection is not open"),
        }
    }

    fn port(&mut self) -> Read<u16> {
        self.number(u32::from(u16::MAX)).map(|port| port as u16)
    }

    /// A decimal number without leading zeros, up to `max`.
    fn number(&mut self, max: u32) -> Read<u32> {
        const INVALID: &str = "a number is missing or out of range";
        let digits = self.rest.iter().take(10).take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        if number.len() > 1 && number[0] == b'0' {
            return Err(INVALID);
        }
        let number = std::str::from_utf8(number).ok().and_then(|text| text.parse::<u32>().ok());
        number.filter(|number| *number <= max).ok_or(INVALID)
    }

    fn payload(&mut self, length: u32) -> Read<Vec<u8>> {
        let (bytes, rest) = self.rest.split_at_checked(length as usize).ok_or("the trace ends within a payload")?;
        self.rest = rest;
        Ok(bytes.to_vec())
    }

    fn accept(&mut self, expected: &[u8]) -> bool {
        let rest = self.rest.strip_prefix(expected);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, expected: &[u8]) -> Read<()> {
        if self.accept(expected) { Ok(()) } else { Err("the rest of the line does not fit its first word") }
    }
}

#[cfg(test)]
mod tests {
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
