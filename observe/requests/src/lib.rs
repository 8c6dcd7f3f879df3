//! Records requests: sends one with a signed envelope, takes the history from its reply, returns the tree.
//!
//! This is 3MileBeach's thick client (§5.1.3). It needs no collector, because the reply carries the causal history.

mod bridge;
mod connection;
mod cookies;
pub mod credentials;
mod foreign;
pub mod grpc;
pub mod http_call;
pub mod login;
mod numbered;
pub mod recording;
mod redirect;
pub mod reflection;
pub mod request;

pub use credentials::Credentials;
pub use login::Login;
pub use recording::{Checked, Reply, Sender, StateReply};
pub use redirect::Redirect;
pub use request::{RequestSpec, Transport};
