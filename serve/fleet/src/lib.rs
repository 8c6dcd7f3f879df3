//! Hosts without a common database: each serves its own data to clients with its token.
//!
//! ```text
//! agent (privileged, never listens) ──▶ SQLite ──▶ server (unprivileged) ◀── HTTP/1.1 over TLS 1.3 ── client
//!                                                    └── GET /metrics on loopback
//! ```
//!
//! `GET /v2/slice` with a bearer token returns a slice as JSON, or an error status with the reason as text. There is no
//! certificate authority and no discovery: the client has a list of hosts with the fingerprint and the token of each,
//! and contacts no other host. Peers of older versions are served and queried by protocol 1.
//!
//! Bytes, time and connections are bounded. A peer that is slow, silent or invalid costs one connection for some
//! seconds.

mod allow_list;
mod client;
mod http;
mod identity;
mod metrics;
mod protocol_1;
mod server;
mod token;
mod waiting_room;

pub use allow_list::{AllowList, Allowed};
pub use client::{Answers, request_all};
pub use identity::{Fingerprint, Identity};
pub use metrics::serve_metrics;
pub use server::{Limits, Server, Slices};
pub use token::Token;
