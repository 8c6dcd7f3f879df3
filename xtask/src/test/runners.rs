//! Reads the names and outcomes of single tests from what the test runners of all languages write.

pub mod cargo;
pub mod go;
pub mod junit;
pub mod node;

use super::results::{TestOutcome, record};

/// Outcomes of tests by id.
pub type Named = Vec<(String, TestOutcome)>;

pub fn record_all(named: Named) {
    named.into_iter().for_each(|(id, outcome)| record(id, outcome));
}
