//! Requests with side effects: an order empties its cart, so the next one needs another customer or a refilled cart.
//!
//! `{case}` in the path, a header or the body expands to a number that is unique over all requests of this and earlier
//! processes. The requests to be sent `before` and `after` get the same number. They are sent without an envelope, and
//! their status must be below 400.

use crate::request::RequestSpec;
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

const PLACEHOLDER: &str = "{case}";
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A unique number: the start of the process in milliseconds, then a counter. Digits only, so it is valid everywhere.
pub(crate) fn number() -> String {
    static START: std::sync::OnceLock<u128> = std::sync::OnceLock::new();
    let start = START.get_or_init(|| {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_millis())
    });
    format!("{start}{:06}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl RequestSpec {
    /// Whether `{case}` occurs in it, so that each repetition is another request.
    pub fn is_numbered(&self) -> bool {
        self.path.contains(PLACEHOLDER)
            || self.headers.iter().any(|(_, value)| value.contains(PLACEHOLDER))
            || self.body.windows(PLACEHOLDER.len()).any(|w| w == PLACEHOLDER.as_bytes())
    }

    /// Whether repetitions of the request meet the same state as the first one.
    pub fn is_repeatable(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD") || self.is_numbered() || !self.before.is_empty()
    }

    /// The request with `{case}` replaced.
    pub(crate) fn with_number(&self, number: &str) -> Cow<'_, RequestSpec> {
        if !self.is_numbered() {
            return Cow::Borrowed(self);
        }
        let mut spec = self.clone();
        spec.path = spec.path.replace(PLACEHOLDER, number);
        for (_, value) in &mut spec.headers {
            *value = value.replace(PLACEHOLDER, number);
        }
        spec.body = replaced(&spec.body, number);
        Cow::Owned(spec)
    }
}

/// Of bytes, because an uploaded file need not be text.
fn replaced(body: &[u8], number: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = rest.windows(PLACEHOLDER.len()).position(|window| window == PLACEHOLDER.as_bytes()) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(number.as_bytes());
        rest = &rest[at + PLACEHOLDER.len()..];
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_placeholders_get_the_same_number_and_plain_requests_are_unchanged() {
        let mut spec = RequestSpec::parse("http://127.0.0.1:8080/cart/{case}", "POST").unwrap();
        spec.headers.push(("cookie".into(), "user=u{case}".into()));
        spec.body = b"id={case}\xff{case}".to_vec();
        let filled = spec.with_number("7");
        assert_eq!(
            (filled.path.as_str(), filled.headers[0].1.as_str(), &filled.body[..]),
            ("/cart/7", "user=u7", &b"id=7\xff7"[..])
        );
        assert!(spec.is_repeatable());
        let plain = RequestSpec::parse("http://127.0.0.1:8080/order", "POST").unwrap();
        assert!(matches!(plain.with_number("7"), Cow::Borrowed(_)) && !plain.is_repeatable());
        assert_ne!(number(), number());
    }
}
