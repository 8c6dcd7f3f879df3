//! Lines of text, or any bytes: a reader cannot distinguish right from wrong ones.
//!
//! A last line without a line feed is valid, since programs write such. An output that is a prefix of the golden one is
//! truncated all the same; the judge recognizes that without a protocol.

use super::protocol::{Message, Protocol, Reading};

pub struct Lines {
    /// A line that begins with one of these is an error message.
    pub errors: Vec<String>,
}

impl Protocol for Lines {
    fn name(&self) -> &'static str {
        "lines"
    }

    fn messages(&self, bytes: &[u8]) -> Vec<Message> {
        let mut messages = Vec::new();
        let mut begin = 0;
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            let error = self.errors.iter().any(|e| line.starts_with(e.as_bytes()));
            let reading = if error { Reading::Error } else { Reading::Good };
            messages.push(Message { range: begin..begin + line.len(), reading });
            begin += line.len();
        }
        messages
    }
}
