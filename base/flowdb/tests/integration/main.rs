//! Integration tests of the database, on SQLite and, with the feature `postgres`, on PostgreSQL.

mod contract;
mod guide;
mod old_store;
mod opening;
#[cfg(feature = "postgres")]
mod plans;
mod spool;
mod support;
#[cfg(feature = "postgres")]
mod tls;
