//! The flow database: stores the agents' windows and returns them by interval (Transtracer §3.2).
//!
//! ```text
//! agent ── Window ──▶ FlowDb::record ──▶ SQLite of its host, or the fleet's PostgreSQL ──▶ FlowDb::slice ──▶ map
//!             └─────▶ Spool, while the database is down, full or slow ──▶ FlowDb::record
//! ```
//!
//! A window is stored once, however often it is recorded; its agent and sequence number identify it. Counts are added
//! up per minute, and later per hour ([`Retention`]). Keys contain no ephemeral ports and, for short-lived processes,
//! no pids, so the size of the database follows the number of dependencies and not of connections. The paper stores
//! active and passive nodes in separate tables; here they are views of flows and listeners, which hold more data.

mod aggregate;
mod batch;
mod connection;
mod enum_text;
mod flow_db;
mod reads;
mod record;
mod retention;
mod schema;
mod sequences;
mod slice;
pub mod spool;
mod statement;
mod writes;

pub use flow_db::{FlowDb, HostSummary};
pub use retention::Retention;
pub use spool::Spool;

/// Counts are stored in buckets of a minute, by the start of their window.
pub const MINUTE_MS: i64 = 60_000;
/// Older counts are stored in buckets of an hour.
pub const HOUR_MS: i64 = 3_600_000;
