//! The host's daemon: looks at its connections once per interval, keeps what it saw in windows of time, hands them on to
//! the fleet's store.
//!
//! ```text
//! collector + identity ──look──▶ window ──▶ keeper ──▶ this host's store (SQLite)
//!                                   └─────▶ spool ───▶ the fleet's store (PostgreSQL), by a task of its own
//! ```
//!
//! What may fail here must not stop it: a store that cannot be written, a database that is away, a process that cannot be
//! read are told once, counted, and tried again. It never listens on a network; its counters are a file ([`metrics`]).

pub mod clock;
pub mod daemon;
pub mod fleet;
pub mod keeper;
pub mod lock;
pub mod metrics;
pub mod observer;
pub mod rights;
pub mod shelf;
pub mod trouble;
pub mod unit;

pub use daemon::{Audience, Daemon, Settings, Store};
pub use fleet::{Fleet, Queue, Remote};
pub use keeper::Shelf;
pub use lock::HostLock;
pub use observer::Observer;

#[cfg(test)]
mod tests;
