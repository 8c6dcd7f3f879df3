//! Sweeps: run a fault space, assess every case, reduce the failures to bugs.
//!
//! Sources: 3MileBeach §5.3 (exhaustive strategies), §5.4.2 (root causes); the guided order is our own.

pub mod assess;
pub mod behavior_log;
pub mod bugs;
mod case_log;
pub mod cause;
pub mod confirm;
mod description;
mod ending;
mod exploration;
pub mod fingerprint;
mod good_run;
mod groups;
pub mod guided;
mod in_flight;
pub mod interference;
pub mod minimal;
pub mod oracle;
pub mod recovery;
pub mod runner;
mod service_logs;
mod story;

pub use assess::RecordingAssessment;
pub use oracle::{Checks, Oracle, ProgramOracle, SqlQuery, StateCondition, holds};
pub use recovery::{CrashRecovery, ExternalTarget, SendResult, TargetControl};
pub use runner::{Progress, SpaceRun, Sweeper};
