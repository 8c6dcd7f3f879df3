//! One directory per kind of run. Each registers itself (see [`crate::kind`]); nothing else lists them.

pub mod flip;
pub mod map;
pub mod recording;
pub mod sweep;
