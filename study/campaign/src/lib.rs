//! Campaigns of bit flips: planned, run by an engine, judged, counted, kept, resumed.

pub mod judge;
pub mod statistics;
