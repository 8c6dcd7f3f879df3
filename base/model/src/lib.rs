//! The types that all crates share: runs, faults, verdicts, exit codes.
//!
//! Pure data without I/O. Sibling crates communicate through these types.

mod call_rule;
pub mod campaign;
mod deceptive;
mod edit_distance;
pub mod failure;
pub mod fault;
mod fault_text;
pub mod flip;
pub mod random;
pub mod redact;
pub mod replay;
pub mod run;
pub mod short_names;
pub mod sweep;
pub mod trace;
pub mod verdict;

pub use call_rule::{CallResult, CallRule, CallRuleError, Calls};
pub use deceptive::is_deceptive;
pub use edit_distance::edit_distance;
pub use failure::{Failure, Family};
pub use fault::{After, Fault, FaultKind, Selector};
pub use fault_text::FaultTextError;
pub use run::{HostFacts, KindName, Run, RunId};
pub use verdict::{Exit, Verdict};
