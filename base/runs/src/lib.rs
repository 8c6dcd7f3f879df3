//! Runs on disk: metadata in an embedded SQLite, everything else in files of the run's own folder.
//!
//! ```text
//! <home>/store.db                     runs: one row each
//! <home>/store.db.before-vN           copy made before a migration to version N
//! <home>/runs/<id>/                   artifacts: trace.json, sweep.json, cases.jsonl, report.html …
//! <home>/runs/<id>/lock               locked (flock) by the process that works on the run
//! ```
//!
//! Only the owner can read the store: files are 0600 and directories 0700.
//!
//! A finished artifact appears by rename, so a reader gets all of it or none. Several processes may use one store:
//! SQLite serializes the rows, and the lock prevents two of them from working on one run.

pub mod artifact;
mod orphans;
mod private;
pub mod runs;
mod schema;

pub use artifact::{AppendFile, RunDir};
pub use orphans::{Orphan, OrphanState};
pub use private::{create_directory, secure};
pub use runs::{Store, make_home};
