//! Request faults: what a fault matches in a recorded request, and the spaces of faults that follow from one.
//!
//! Pure: a trace in, faults out. Sources: 3MileBeach §3.2 (temporal discretisation), §5.3.1 (the three strategies).

pub mod resolve;
pub mod space;

pub use resolve::{check, resolve};
pub use space::{SpaceKind, sites};
