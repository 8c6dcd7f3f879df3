//! Campaigns of bit flips: planned, run by an engine, judged, counted, logged, resumed.
//!
//! The engine injects flips and reports the effect of each ([`bit_flips::engine_messages`], [`EngineClient`]). This
//! crate computes the results: the outcome of each flip ([`judge`]), the log that survives an interruption ([`log`]),
//! and the tables of SEI §7.1 with their intervals ([`tables`], [`statistics`]). All results are computed from the log.

pub mod engine_client;
pub mod exhaustive;
pub mod external;
pub mod judge;
pub mod live;
mod local_run;
pub mod log;
pub mod reference;
pub mod repeat;
mod replay_client;
pub mod run;
pub mod spec;
pub mod statistics;
pub mod tables;
pub mod tracer_client;
mod variant_run;
pub mod verdict;

#[cfg(test)]
mod live_tests;
#[cfg(test)]
mod tests;

pub use engine_client::EngineClient;
pub use judge::{Judge, Rules};
pub use log::Log;
pub use repeat::Repeat;
pub use spec::{External, Live, Spec, VariantSpec};
pub use tables::Tables;
pub use variant_run::{Completion, Progress, VariantRun};
