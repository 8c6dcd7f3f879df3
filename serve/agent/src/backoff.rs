//! Retry delays for one operation. The first failure in a row is reported once, and so is the recovery.

use model::Failure;
use std::time::Duration;

/// Consecutive failures of one operation.
#[derive(Debug)]
pub struct Backoff {
    /// Name of the failing part in messages, such as "the fleet's store".
    subject: &'static str,
    failures: u64,
}

const FIRST_DELAY: Duration = Duration::from_millis(500);
const MAX_DELAY: Duration = Duration::from_secs(60);

impl Backoff {
    pub fn new(subject: &'static str) -> Backoff {
        Backoff { subject, failures: 0 }
    }

    /// Counts a failure. Returns the message for the operator if it is the first failure in a row.
    pub fn record_failure(&mut self, failure: &Failure) -> Option<String> {
        self.failures += 1;
        (self.failures == 1).then(|| failure.to_string())
    }

    /// Ends a row of failures. Returns the message for the operator if there was one.
    pub fn record_success(&mut self) -> Option<String> {
        let failures = std::mem::take(&mut self.failures);
        let times = if failures == 1 { "failure" } else { "failures" };
        (failures > 0).then(|| format!("{} works again after {failures} {times}", self.subject))
    }

    /// Time to wait before the next attempt. Doubles with each failure in a row, up to a minute.
    pub fn delay(&self) -> Duration {
        let doublings = self.failures.saturating_sub(1).min(16) as u32;
        (FIRST_DELAY * 2u32.pow(doublings)).min(MAX_DELAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_and_the_recovery_are_reported() {
        let mut backoff = Backoff::new("the store");
        let failure = Failure::environment("no space");
        assert_eq!(backoff.record_success(), None);
        assert_eq!(backoff.record_failure(&failure).as_deref(), Some("error: no space"));
        assert_eq!(backoff.record_failure(&failure), None);
        assert_eq!(backoff.record_success().as_deref(), Some("the store works again after 2 failures"));
        assert_eq!(backoff.record_success(), None);
    }

    #[test]
    fn delays_double_up_to_a_minute() {
        let mut backoff = Backoff::new("the store");
        let mut delays = Vec::new();
        for _ in 0..12 {
            backoff.record_failure(&Failure::environment(""));
            delays.push(backoff.delay().as_millis());
        }
        assert_eq!(delays[..4], [500, 1_000, 2_000, 4_000]);
        assert_eq!(delays[11], 60_000);
    }
}
