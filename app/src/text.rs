//! Numbers, times and words as people read them.

use model::is_deceptive;
use model::trace::{Call, Outcome, Protocol};

/// `16384` → `16,384`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `412 k`, `12 M`; exact below 10,000.
pub fn rounded(n: u64) -> String {
    match n {
        0..10_000 => grouped(n),
        10_000..10_000_000 => format!("{} k", grouped(n / 1000)),
        _ => format!("{} M", grouped(n / 1_000_000)),
    }
}

pub fn milliseconds(us: u64) -> String {
    match us {
        0..=999 => format!("0.{:01} ms", us / 100),
        1000..=99_999 => format!("{}.{} ms", us / 1000, us % 1000 / 100),
        _ => format!("{} ms", grouped(us / 1000)),
    }
}

pub fn seconds(s: f64) -> String {
    if s < 10.0 {
        format!("{s:.1} s")
    } else if s < 120.0 {
        format!("{s:.0} s")
    } else {
        format!("{:.0} min {:02.0} s", (s / 60.0).floor(), s % 60.0)
    }
}

pub fn plural(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{} {one}s", grouped(n)) }
}

/// In UTC, so that a report shows the same time to every reader.
pub fn time(ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(ms) {
        Ok(at) => at.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
        Err(_) => format!("{ms} ms"),
    }
}

/// Text from a target, safe to write to a terminal: characters that control it, reorder text or are invisible are
/// escaped.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_deceptive(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// `text` as one word of a shell command.
pub fn quoted(text: &str) -> String {
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:@=,+".contains(c)) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// How a call ended: an HTTP status, the name of a gRPC status, `no reply` or `open`.
pub fn outcome(call: &Call) -> String {
    match (call.outcome, call.protocol) {
        (Outcome::Replied { status: 0 }, Protocol::Grpc) => "ok".into(),
        (Outcome::Replied { status }, Protocol::Grpc) => grpc_code(status),
        (Outcome::Replied { status }, Protocol::Http) => status.to_string(),
        (Outcome::Failed { status: 14 }, _) => "no reply".into(),
        (Outcome::Failed { status }, _) => grpc_code(status),
        (Outcome::Open, _) => "open".into(),
    }
}

fn grpc_code(code: u32) -> String {
    const NAMES: [&str; 17] = [
        "ok", "canceled", "unknown", "invalid", "deadline", "notfound", "exists", "denied", "exhaust", "precond",
        "aborted", "range", "unimpl", "internal", "unavail", "dataloss", "unauth",
    ];
    NAMES.get(code as usize).map_or_else(|| format!("grpc {code}"), |name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_deceive_are_escaped() {
        assert_eq!(printable("a\u{202e}b\u{200b}c"), "a\\u{202e}b\\u{200b}c");
        assert_eq!(printable("a\u{1b}[31mb\u{7}\u{9b}ü×"), "a\\u{1b}[31mb\\u{7}\\u{9b}ü×");
    }

    #[test]
    fn quoted_words_survive_the_shell() {
        assert_eq!(quoted("a/b-c.yaml"), "a/b-c.yaml");
        assert_eq!(quoted("my files/it's"), "'my files/it'\\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn times_are_in_utc() {
        assert_eq!(time(0), "1970-01-01 00:00:00Z");
        assert_eq!(time(1_709_210_096_000), "2024-02-29 12:34:56Z");
        assert_eq!(time(1_795_132_799_999), "2026-11-19 23:59:59Z");
    }

    #[test]
    fn numbers_have_separators_and_units() {
        assert_eq!([grouped(7), grouped(512), grouped(16384), grouped(1_000_000)], ["7", "512", "16,384", "1,000,000"]);
        assert_eq!([rounded(9_999), rounded(412_345), rounded(12_345_678)], ["9,999", "412 k", "12 M"]);
        assert_eq!([milliseconds(80), milliseconds(1234), milliseconds(123_456)], ["0.0 ms", "1.2 ms", "123 ms"]);
        assert_eq!([seconds(0.24), seconds(24.4), seconds(200.0)], ["0.2 s", "24 s", "3 min 20 s"]);
        assert_eq!([plural(1, "bug"), plural(2, "bug")], ["1 bug", "2 bugs"]);
    }
}
