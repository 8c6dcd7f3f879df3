//! Which process depends on which: what many hosts saw of their sockets, as one graph.
//!
//! ```text
//! Slice ──ties──▶ who is tied to whom ──atlas──▶ Graph ──hops──▶ what is asked for ──▶ table, JSON, DOT, Mermaid, SVG
//!                 (flows paired by link)          by process,     around X, N hops
//!                                                 service, host
//! ```
//!
//! Direction follows from listening, not from bytes: who connects depends on who accepts (Transtracer §3.1). The paper joins its active
//! and passive nodes by address and port when it is asked; here each flow names both ends' addresses, so a flow seen on one host finds the
//! other's by equality, and namespaces that use the same private addresses stay apart. See decision 0019.
//!
//! Pure: no clock, no network, no disk. The same slice gives the same graph, in whatever order its hosts and flows come.

mod atlas;
mod beside;
mod change;
mod dot;
mod focus;
mod hops;
mod mermaid;
mod names;
mod places;
mod remarks;
mod ties;
mod union;

pub use atlas::Map;
pub use beside::{Asked, Compared, beside};
pub use change::{Change, changes};
pub use dot::dot;
pub use focus::NotFound;
pub use hops::{Direction, around};
pub use mermaid::mermaid;
pub use union::union;

use serde::{Deserialize, Serialize};

/// What a node stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    Process,
    #[default]
    Service,
    Host,
}
