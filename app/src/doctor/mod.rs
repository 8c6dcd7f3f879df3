//! Checks of this machine and of a target.

pub mod diagnosis;
pub mod machine;
pub mod target;
