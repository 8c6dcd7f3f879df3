//! Request faults: the calls of a recorded request that a fault matches, and the fault spaces derived from a request.
//!
//! Pure functions from traces to faults. Sources: 3MileBeach §3.2 (temporal discretization), §5.3.1 (the three
//! strategies).

pub mod resolve;
pub mod space;

pub use resolve::{check, resolve};
pub use space::{SpaceKind, sites};
