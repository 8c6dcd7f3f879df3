//! The connection management database: what agents saw, kept for whoever asks what depends on what (Transtracer §3.2).
//!
//! ```text
//! agent ── Window ──▶ FlowDb::record ──▶ SQLite of its host, or the fleet's PostgreSQL ──▶ FlowDb::slice ── Slice ──▶ map
//!             └─────▶ Spool, while the database is down, full or slow ──▶ FlowDb::record
//! ```
//!
//! A window is kept once, however often it is recorded: its agent and sequence number tell. Counts are added up in minutes, and
//! after a while in hours ([`Retention`]). Keys hold neither ephemeral ports nor, for short-lived processes, pids, so the
//! database grows with what depends on what and not with the number of connections. The paper keeps active and passive nodes in
//! tables of their own; here they are views of flows and listeners, which know more.

mod batch;
mod connection;
mod flow_db;
mod gathered;
mod names;
mod reads;
mod record;
mod retention;
mod schema;
mod sequences;
mod slice;
pub mod spool;
mod statement;
mod writes;

pub use flow_db::{FlowDb, KnownHost};
pub use retention::Retention;
pub use spool::Spool;

/// Counts are kept in buckets of a minute, by the begin of their window.
pub const MINUTE_MS: i64 = 60_000;
/// Older ones in buckets of an hour.
pub const HOUR_MS: i64 = 3_600_000;
