//! Sees the connections of this host, and says whose they are.
//!
//! A [`Collector`] tells which process connected to what and who listens where; several kinds exist because hosts allow
//! different things, and each flow says by which it was seen. What a collector cannot know (services, executables,
//! address translation) is added by what stands above it.

pub mod choose;
pub mod collector;
pub mod conntrack;
pub mod ebpf;
pub mod identity;
pub mod memory;
pub mod namespaces;
mod netlink;
pub mod polling;

pub use collector::{Collector, Listening, Owner, Sighting, Sightings};
