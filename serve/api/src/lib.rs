//! The workbench: a page on loopback, and the API that it uses.
//!
//! The reader is the user who has the address with its one-time token, which is printed to the terminal. The page
//! exchanges it for a session secret at once. A request is refused if its `Host` or `Origin` is not this server's own,
//! so no other page that the user has open can read anything, not even through a host name that resolves to loopback.

mod answer;
mod cache;
mod changes;
mod events;
mod guard;
mod openapi;
mod routes;
mod secrets;
mod server;

pub use openapi::document;
pub use server::{Options, serve};
