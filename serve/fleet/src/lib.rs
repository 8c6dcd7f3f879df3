//! Hosts without a common database: each answers what it saw, to whoever has its token.
//!
//! ```text
//! collector (privileged, no socket of its own) ──▶ SQLite ──reads──▶ server (unprivileged) ◀── TLS 1.3 ── client
//!                                                                      └── GET /metrics on loopback
//! ```
//!
//! One question per connection: a frame with token and range, a frame with the slice or the reason why not. A frame is a length of four
//! bytes, big-endian, and so many bytes of JSON. There is no HTTP here, no certificate authority and no discovery: the client has a list
//! of hosts, each with the fingerprint of its key and its token, and asks nobody else.
//!
//! Everything is bounded: bytes, time, connections. A peer that is slow, silent or talks nonsense costs one connection for seconds.

mod allow_list;
mod client;
mod frame;
mod identity;
mod metrics;
mod server;
mod token;

pub use allow_list::{AllowList, Allowed};
pub use client::{Answers, ask_all};
pub use identity::{Fingerprint, Identity};
pub use metrics::serve_metrics;
pub use server::{Limits, Server, Slices};
pub use token::Token;
