//! Writes text to a terminal or a pipe. Characters that control a terminal, reorder text or are invisible are escaped
//! wherever they come from: a URL, a name in a history, a path. Line breaks and tabs are kept.
//!
//! The escape is JSON's, `\\u202e`, so documents in JSON keep their meaning.

use model::is_deceptive;
use std::fmt::{self, Write as _};
use std::io::Write;

/// Ignores errors: the reader may have closed its end (`faultloom runs | head -1`).
pub fn write(to: &mut impl Write, text: fmt::Arguments<'_>) {
    let mut escaped = Escaped(String::new());
    let _ = escaped.write_fmt(text);
    let _ = to.write_all(escaped.0.as_bytes());
}

struct Escaped(String);

impl fmt::Write for Escaped {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            if !is_deceptive(c) || c == '\n' || c == '\t' {
                self.0.push(c);
                continue;
            }
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(self.0, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::write;

    fn written(text: &str) -> String {
        let mut out = Vec::new();
        write(&mut out, format_args!("{text}"));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn text_that_deceives_is_escaped_and_other_text_is_unchanged() {
        assert_eq!(written("GET /ü\tx\n"), "GET /ü\tx\n");
        assert_eq!(written("a\u{202e}b\u{1b}[31m\r"), "a\\u202eb\\u001b[31m\\u000d");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let value = serde_json::json!({"name": "a\u{202e}b\u{e0041}\u{feff}"});
        let text = written(&value.to_string());
        assert!(text.is_ascii(), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
