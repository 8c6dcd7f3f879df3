//! Campaigns of bit flips: planned, run by an engine, judged, counted, kept, resumed.
//!
//! An engine brings flips about and tells what came of each ([`bit_flips::protocol`]); here is what makes a result of that: the
//! outcome of each ([`judge`]), the log that survives an interruption ([`log`]), and the tables of SEI §7.1 with their intervals
//! ([`tables`], [`statistics`]). Everything that is shown follows from the log.

pub mod census;
mod client;
pub mod course;
pub mod engine;
pub mod external;
pub mod judge;
pub mod live;
pub mod log;
mod native;
pub mod run;
pub mod spec;
pub mod statistics;
pub mod tables;
pub mod verdict;

#[cfg(test)]
mod live_tests;
#[cfg(test)]
mod tests;

pub use course::{Course, Ended};
pub use engine::Engine;
pub use judge::{Judge, Rules};
pub use log::Log;
pub use run::Progress;
pub use spec::{External, Live, Spec, VariantSpec};
pub use tables::Tables;
