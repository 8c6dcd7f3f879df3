//! Recording one request: send it with a signed envelope, take the history from its reply, return the tree.
//!
//! This is 3MileBeach's thick client (§5.1.3). It needs no collector: the reply itself carries the causal history.

mod bridge;
pub mod credentials;
pub mod grpc;
pub mod http1;
mod numbered;
pub mod recording;
pub mod reflection;
pub mod request;

pub use credentials::Credentials;
pub use recording::{Reply, Sender};
pub use request::{Body, RequestSpec, Transport};
