//! Runs on disk: metadata in SQLite, bulk data in segment files.
