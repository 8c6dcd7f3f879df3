//! Sweeps: run a fault space, judge every case, reduce the failures to bugs.
//!
//! Sources: 3MileBeach §5.3 (exhaustive strategies), §5.4.2 (root causes); the guided order is our own.

pub mod bugs;
pub mod cause;
pub mod guided;
pub mod interference;
pub mod judge;
pub mod minimal;
pub mod oracle;
pub mod pattern;
pub mod runner;
pub mod watch;

pub use oracle::Oracle;
pub use runner::{Progress, SpaceRun, Sweeper};
pub use watch::{Attached, Sent, Stage, Watch};
