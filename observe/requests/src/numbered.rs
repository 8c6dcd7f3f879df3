//! Requests that leave something behind: an order empties its cart, so the next one needs another customer or a cart filled anew.
//!
//! `{case}` in the path, a header or the body stands for a number that no other request of this process or of an earlier one has;
//! requests to be sent `before` share it. They are sent clean, as any client would, and must be answered below 400.

use crate::request::RequestSpec;
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

const MARK: &str = "{case}";
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A number for one request: the process's start in milliseconds, then a count. Digits only, so it fits everywhere.
pub(crate) fn number() -> String {
    static START: std::sync::OnceLock<u128> = std::sync::OnceLock::new();
    let start = START.get_or_init(|| {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_millis())
    });
    format!("{start}{:06}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl RequestSpec {
    fn is_numbered(&self) -> bool {
        self.path.contains(MARK)
            || self.headers.iter().any(|(_, value)| value.contains(MARK))
            || self.body.windows(MARK.len()).any(|w| w == MARK.as_bytes())
    }

    /// Whether a request like this can be sent again and again and find what the first one found.
    pub fn is_repeatable(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD") || self.is_numbered() || !self.before.is_empty()
    }

    /// With `{case}` filled in.
    pub(crate) fn with_number(&self, number: &str) -> Cow<'_, RequestSpec> {
        if !self.is_numbered() {
            return Cow::Borrowed(self);
        }
        let mut spec = self.clone();
        spec.path = spec.path.replace(MARK, number);
        for (_, value) in &mut spec.headers {
            *value = value.replace(MARK, number);
        }
        if let Ok(text) = std::str::from_utf8(&spec.body) {
            spec.body = text.replace(MARK, number).into_bytes();
        }
        Cow::Owned(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_gets_the_same_number_and_plain_requests_stay() {
        let mut spec = RequestSpec::parse("http://127.0.0.1:8080/cart/{case}", "POST").unwrap();
        spec.headers.push(("cookie".into(), "user=u{case}".into()));
        spec.body = b"id={case}".to_vec();
        let filled = spec.with_number("7");
        assert_eq!(
            (filled.path.as_str(), filled.headers[0].1.as_str(), &filled.body[..]),
            ("/cart/7", "user=u7", &b"id=7"[..])
        );
        assert!(spec.is_repeatable());
        let plain = RequestSpec::parse("http://127.0.0.1:8080/order", "POST").unwrap();
        assert!(matches!(plain.with_number("7"), Cow::Borrowed(_)) && !plain.is_repeatable());
        assert_ne!(number(), number());
    }
}
