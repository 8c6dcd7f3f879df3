//! Observes the connections and listeners of this host and the processes that own them.
//!
//! A [`Collector`] returns connections and listeners with their processes. Hosts permit different methods, so there are
//! several collectors, and each flow records its source. [`identity`] adds services, executables and address
//! translation.

pub mod backend;
pub mod collector;
pub mod conntrack;
pub mod ebpf;
pub mod identity;
pub mod memory;
pub mod namespaces;
mod netlink;
pub mod polling;

pub use collector::{CollectedSockets, Collector, ObservedListener, Owner, SocketObservation};
