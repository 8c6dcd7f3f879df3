//! Times as users type them: `15m` ago, `14:30` today, or in full. All in UTC, like every time that is printed.

use std::str::FromStr;

/// Milliseconds since the epoch, or a time before now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeArg {
    Ago(Span),
    At(i64),
    /// Milliseconds since midnight, today or yesterday, whichever is the last one in the past.
    Today(i64),
}

/// A length of time: `90s`, `15m`, `2h`, `7d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub ms: i64,
}

const DAY_MS: i64 = 86_400_000;
/// Ten years: more is a typing error.
const SPAN_MAX_MS: i64 = 3_650 * DAY_MS;

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let wrong = || format!("'{text}' is not a length of time: use a whole number with s, m, h or d, such as 15m");
        let unit = text.chars().next_back().ok_or_else(wrong)?;
        let unit_ms = match unit {
            's' => 1_000,
            'm' => 60_000,
            'h' => 3_600_000,
            'd' => DAY_MS,
            _ => return Err(wrong()),
        };
        let number: i64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
        match number.checked_mul(unit_ms) {
            Some(ms @ 1..=SPAN_MAX_MS) => Ok(Span { ms }),
            _ => Err(format!("'{text}' is out of range: from 1s to ten years")),
        }
    }
}

impl FromStr for TimeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<TimeArg, String> {
        if let Ok(span) = text.parse() {
            return Ok(TimeArg::Ago(span));
        }
        if let Ok(at) = text.parse::<jiff::Timestamp>() {
            return Ok(TimeArg::At(at.as_millisecond()));
        }
        // without a zone: UTC
        if let Ok(at) = text.parse::<jiff::civil::DateTime>()
            && let Ok(at) = at.to_zoned(jiff::tz::TimeZone::UTC)
        {
            return Ok(TimeArg::At(at.timestamp().as_millisecond()));
        }
        if let Ok(time) = text.parse::<jiff::civil::Time>() {
            let minutes = i64::from(time.hour()) * 60 + i64::from(time.minute());
            return Ok(TimeArg::Today((minutes * 60 + i64::from(time.second())) * 1_000));
        }
        Err(format!("'{text}' is not a time: use 15m (ago), 14:30 (today, UTC) or 2026-11-21T14:30:00Z"))
    }
}

impl TimeArg {
    /// Milliseconds since the epoch.
    pub fn ms(self, now_ms: i64) -> i64 {
        match self {
            TimeArg::Ago(span) => now_ms - span.ms,
            TimeArg::At(ms) => ms,
            TimeArg::Today(since_midnight_ms) => {
                let at = now_ms.div_euclid(DAY_MS) * DAY_MS + since_midnight_ms;
                if at > now_ms { at - DAY_MS } else { at }
            }
        }
    }
}

pub fn now_ms() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_in_every_form() {
        let now = 1_795_289_400_000; // 2026-11-21 19:30 UTC
        for (text, ms) in [
            ("15m", now - 900_000),
            ("7d", now - 7 * DAY_MS),
            ("19:00", now - 1_800_000),
            ("20:00", now - 84_600_000),
            ("2026-11-21T19:30:00Z", now),
            ("2026-11-21T20:30:00+01:00", now),
            ("2026-11-21 19:30", now),
        ] {
            assert_eq!(text.parse::<TimeArg>().unwrap().ms(now), ms, "{text}");
        }
    }

    #[test]
    fn typing_errors_are_refused() {
        for text in
            ["", "m", "0m", "-5m", "5", "5w", "99999d", "9223372036854775807d", "25:00", "yesterday", "５m", "m5"]
        {
            assert!(text.parse::<TimeArg>().is_err(), "{text}");
        }
    }
}
