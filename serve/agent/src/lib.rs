//! The host's daemon: collects the connections of the host once per interval, stores them as windows of time, and
//! forwards the windows to the fleet's store.
//!
//! ```text
//! collector + identity ──collect──▶ window ──▶ LocalWriter ──▶ this host's store (SQLite)
//!                                      └─────▶ FleetWriter ──▶ spool ──▶ the fleet's store (PostgreSQL)
//! ```
//!
//! Failures must not stop the daemon. A store that cannot be written, a database that is unavailable and a process that
//! cannot be read are reported once, counted, and retried. The daemon never listens on a network; its counters are a
//! file ([`metrics`]).

mod backoff;
pub mod capabilities;
mod clock;
mod daemon;
pub mod daemon_set;
mod fleet_writer;
mod local_writer;
pub mod lock;
pub mod metrics;
mod retry_queue;
mod socket_observer;
pub mod stores;
pub mod systemd_unit;

pub use daemon::{Daemon, Observer, Reporter, Settings};
pub use fleet_writer::FleetWriter;
pub use lock::HostLock;
pub use socket_observer::SocketObserver;

#[cfg(test)]
mod tests;
