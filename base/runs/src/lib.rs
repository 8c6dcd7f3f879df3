//! Runs on disk: metadata in an embedded SQLite, everything else in files of the run's own folder.
//!
//! ```text
//! <home>/store.db                     runs: one row each
//! <home>/store.db.before-vN           copy made before a migration to version N
//! <home>/runs/<id>/                   artifacts: trace.json, sweep.json, cases.jsonl, report.html …
//! <home>/runs/<id>/lock               held (flock) by the process that is working on the run
//! ```
//!
//! A finished artifact appears by rename, so a reader sees a whole one or none. Two tools may use one store at the same
//! time: SQLite serializes the rows, the lock keeps two of them from one run.

pub mod artifact;
pub mod runs;
mod schema;

pub use artifact::{AppendFile, RunDir};
pub use runs::{Store, make_home};
