//! What people read in a terminal: 100 columns, no colour needed to understand it.

pub mod bugs;
pub mod numbers;
pub mod progress;
pub mod tree;
