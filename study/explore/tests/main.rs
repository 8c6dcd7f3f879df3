//! Sweeps against a small instrumented service in this process.

mod guided;
mod resume;
mod service;
