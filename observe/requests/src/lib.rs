//! Records requests: sends one with a signed envelope, takes the history from its reply, returns the tree.
//!
//! This is 3MileBeach's thick client (§5.1.3). It needs no collector, because the reply carries the causal history.

mod bridge;
mod connection;
pub mod credentials;
pub mod grpc;
pub mod http1;
mod numbered;
pub mod recording;
pub mod reflection;
pub mod request;

pub use credentials::Credentials;
pub use recording::{Checked, Reply, Sender, StateReply};
pub use request::{RequestSpec, Transport};
