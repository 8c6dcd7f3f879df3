//! What this machine and a target can and cannot do.

pub mod diagnosis;
pub mod machine;
pub mod target;
