//! What goes wrong again and again is told once, and once more when it is over.

use model::Failure;
use std::time::Duration;

/// One kind of trouble: the store, the fleet's store, the collector.
#[derive(Debug)]
pub struct Trouble {
    /// What it hits, as in "the fleet's store".
    subject: &'static str,
    failures: u64,
}

/// Pauses grow from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl Trouble {
    pub fn with(subject: &'static str) -> Trouble {
        Trouble { subject, failures: 0 }
    }

    pub fn there(&self) -> bool {
        self.failures > 0
    }

    /// What to tell, if it is the first failure in a row.
    pub fn failed(&mut self, failure: &Failure) -> Option<String> {
        self.failures += 1;
        (self.failures == 1).then(|| failure.to_string())
    }

    /// What to tell, if something had failed before.
    pub fn worked(&mut self) -> Option<String> {
        let failures = std::mem::take(&mut self.failures);
        (failures > 0).then(|| format!("{} works again, after {failures} failures", self.subject))
    }

    /// How long to leave it alone: twice as long with each failure in a row.
    pub fn pause(&self) -> Duration {
        let doublings = self.failures.saturating_sub(1).min(16) as u32;
        (FIRST_PAUSE * 2u32.pow(doublings)).min(LONGEST_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_told_once_and_its_end_too() {
        let mut trouble = Trouble::with("the store");
        let failure = Failure::environment("no space");
        assert_eq!(trouble.worked(), None);
        assert_eq!(trouble.failed(&failure).as_deref(), Some("error: no space"));
        assert_eq!(trouble.failed(&failure), None);
        assert_eq!(trouble.worked().as_deref(), Some("the store works again, after 2 failures"));
        assert_eq!((trouble.worked(), trouble.there()), (None, false));
    }

    #[test]
    fn pauses_double_up_to_a_minute() {
        let mut trouble = Trouble::with("the store");
        let mut pauses = Vec::new();
        for _ in 0..12 {
            trouble.failed(&Failure::environment(""));
            pauses.push(trouble.pause().as_millis());
        }
        assert_eq!(pauses[..4], [500, 1_000, 2_000, 4_000]);
        assert_eq!(pauses[11], 60_000);
    }
}
