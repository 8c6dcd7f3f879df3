//! Counts of outcomes, and shares of them.

use super::Logged;
use crate::flip::Outcome;
use serde::{Deserialize, Serialize};

/// Counts of outcomes. Only the last three outcomes are manifested errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub none: u64,
    pub undetected: u64,
    pub hardening: u64,
    pub otherwise: u64,
    /// Nothing could be flipped. Not among the above.
    #[serde(default)]
    pub inactive: u64,
    /// Could not be judged. Not among the above.
    #[serde(default)]
    pub unjudged: u64,
    /// Of `hardening` and `otherwise`: with [`super::Deviation::corrupt_later`].
    #[serde(default)]
    pub corrupt_later: u64,
}

impl Tally {
    pub fn manifested(&self) -> u64 {
        self.undetected + self.hardening + self.otherwise
    }

    /// Everything that was tried.
    pub fn tried(&self) -> u64 {
        self.manifested() + self.none + self.inactive + self.unjudged
    }

    pub fn add(&mut self, other: &Tally) {
        self.none += other.none;
        self.undetected += other.undetected;
        self.hardening += other.hardening;
        self.otherwise += other.otherwise;
        self.inactive += other.inactive;
        self.unjudged += other.unjudged;
        self.corrupt_later += other.corrupt_later;
    }

    pub fn count(&mut self, logged: &Logged) {
        match (logged.effect.activated, logged.outcome) {
            (false, _) => self.inactive += 1,
            (true, None) => self.unjudged += 1,
            (true, Some(Outcome::None)) => self.none += 1,
            (true, Some(Outcome::Undetected)) => self.undetected += 1,
            (true, Some(Outcome::Hardening)) => self.hardening += 1,
            (true, Some(Outcome::Otherwise)) => self.otherwise += 1,
        }
        let detected = matches!(logged.outcome, Some(Outcome::Hardening | Outcome::Otherwise));
        let later = logged.deviation.as_ref().is_some_and(|d| d.corrupt_later);
        self.corrupt_later += u64::from(logged.effect.activated && detected && later);
    }
}

/// A share of the manifested errors with its 95 % interval (Wilson), all from 0 to 1. For a count of 0, `high` is the
/// one-sided 95 % bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Share {
    pub share: f64,
    pub low: f64,
    pub high: f64,
}

/// A share from 0 to 1 in percent, with a useful number of digits.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if p == 0.0 || p >= 10.0 => format!("{p:.1}"),
        p if p >= 0.1 => format!("{p:.2}"),
        p => format!("{p:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn a_share_has_a_useful_number_of_digits() {
        let texts = [0.0, 0.000_45, 0.0006, 0.0023, 0.0966, 0.104, 1.0].map(percent);
        assert_eq!(texts, ["0.0", "0.045", "0.060", "0.23", "9.66", "10.4", "100.0"]);
    }
}
