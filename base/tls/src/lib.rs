//! TLS as a client, for requests and health checks: which servers are trusted, what is presented to them, and errors
//! that name the problem and the next step.
//!
//! TLS 1.2 and 1.3. The system's certificates are trusted unless a file with others is named. Nothing is accepted
//! without a check unless [`TlsSettings::insecure`] is set.

mod problem;
mod quic;
mod settings;
mod stream;
mod verifier;

pub use problem::TlsProblem;
pub use quic::answers_quic;
pub use settings::TlsSettings;
pub use stream::{Evidence, HttpVersion, Stream, connect, speaks_tls};
