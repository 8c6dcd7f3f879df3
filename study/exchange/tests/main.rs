//! Exports and imports of traces, in one test binary.

mod exports;
mod imports;
mod support;
