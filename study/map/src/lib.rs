//! Builds the dependency graph of many hosts from the flows that they observed.
//!
//! ```text
//! Slice ──pairing──▶ dependencies ──graph──▶ Graph ──query, neighborhood──▶ part of it ──▶ table, JSON, DOT, Mermaid
//!                    (flows paired by link)  by process, service or host
//! ```
//!
//! The direction of a dependency follows from listening, not from bytes: the connecting side depends on the accepting
//! side (Transtracer §3.1). The paper joins its active and passive nodes by address and port at query time. Here each
//! flow contains the addresses of both ends, so a flow matches that of the other host by equality, and namespaces with
//! equal private addresses stay separate. See decision 0019.
//!
//! Pure: no clock, no network, no disk. The same slice results in the same graph, in any order of its hosts and flows.

mod address_index;
mod change;
mod compare;
mod dot;
mod graph;
mod merge;
mod mermaid;
mod names;
mod neighborhood;
mod pairing;
mod query;
mod warnings;

pub use change::{Change, changes};
pub use compare::{Compared, RecordedCalls, compare};
pub use dot::dot;
pub use graph::Map;
pub use merge::merge;
pub use mermaid::mermaid;
pub use neighborhood::{Direction, neighborhood};
pub use query::NotFound;

use serde::{Deserialize, Serialize};

/// What a node represents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    Process,
    #[default]
    Service,
    Host,
}
