//! Numbers, times and outcomes as text. Every quantity has one form on all pages.

use model::Verdict;
use model::trace::{Call, Outcome, Protocol};

/// `850 µs`, `38.2 ms`, `1.24 s`, `2 min 5 s`.
pub(crate) fn duration(us: u64) -> String {
    let n = us as f64;
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..9_950 => format!("{:.2} ms", n / 1e3),
        9_950..99_950 => format!("{:.1} ms", n / 1e3),
        99_950..999_500 => format!("{:.0} ms", n / 1e3),
        999_500..9_995_000 => format!("{:.2} s", n / 1e6),
        9_995_000..60_000_000 => format!("{:.1} s", n / 1e6),
        _ => {
            let seconds = us / 1_000_000;
            match seconds {
                0..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
                _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
            }
        }
    }
}

/// `16,384`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// `1 case`, `2 cases`; the noun takes a plain s.
pub(crate) fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}

/// A share in percent. Only exact values are printed as 0 and 100.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "–".to_owned();
    }
    let share = part as f64 * 100.0 / whole as f64;
    match part {
        0 => "0".to_owned(),
        p if p == whole => "100".to_owned(),
        _ if share < 1.0 => "<1".to_owned(),
        _ if share > 99.0 => ">99".to_owned(),
        _ => format!("{share:.0}"),
    }
}

pub(crate) fn when(ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(ms) {
        Ok(t) => t.strftime("%-d %B %Y, %H:%M UTC").to_string(),
        Err(_) => format!("{ms} ms since 1970"),
    }
}

pub(crate) fn glyph(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "✓",
        Verdict::Fail => "✗",
        Verdict::Unknown => "?",
    }
}

fn grpc_name(code: u32) -> Option<&'static str> {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    NAMES.get(code as usize).copied()
}

fn status(protocol: Protocol, status: u32) -> String {
    match protocol {
        Protocol::Http => status.to_string(),
        Protocol::Grpc => {
            grpc_name(status).map_or_else(|| format!("gRPC {status}"), |name| name.to_lowercase().replace('_', " "))
        }
    }
}

/// The status of the reply to the user's request; None: there was no reply.
pub(crate) fn entry_status(protocol: Protocol, code: Option<u32>) -> String {
    code.map_or_else(|| "no reply".to_owned(), |code| status(protocol, code))
}

/// Whether the call ended without success. A call that is still open has not failed.
pub(crate) fn failed(call: &Call) -> bool {
    !call.is_ok() && call.outcome != Outcome::Open
}

/// How a call ended, in two words: `ok`, `404`, `✗ unavailable`, `open`.
pub(crate) fn outcome(call: &Call) -> String {
    match call.outcome {
        Outcome::Replied { status: s } => {
            let words = status(call.protocol, s);
            if call.is_ok() { words } else { format!("✗ {words}") }
        }
        // no reply: always a gRPC code, whatever the protocol
        Outcome::Failed { status: s } => format!("✗ {}", status(Protocol::Grpc, s)),
        Outcome::Open => "… open".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_change_units() {
        for (us, words) in [
            (0, "0 µs"),
            (999, "999 µs"),
            (1_100, "1.10 ms"),
            (38_200, "38.2 ms"),
            (99_960, "100 ms"),
            (999_600, "1.00 s"),
            (61_000_000, "1 min 1 s"),
            (7_260_000_000, "2 h 1 min"),
        ] {
            assert_eq!(duration(us), words);
        }
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!(
            (count(0), count(512), count(16_384), count(1_234_567)),
            ("0".into(), "512".into(), "16,384".into(), "1,234,567".into())
        );
        assert_eq!(counted(1, "case"), "1 case");
    }

    #[test]
    fn nearly_all_is_not_all() {
        assert_eq!(percent(9_999, 10_000), ">99");
        assert_eq!(percent(1, 10_000), "<1");
        assert_eq!((percent(0, 5), percent(5, 5), percent(0, 0)), ("0".into(), "100".into(), "–".into()));
    }

    #[test]
    fn dates_are_written_out() {
        assert_eq!(when(1_795_206_060_000), "20 November 2026, 20:21 UTC");
    }
}
