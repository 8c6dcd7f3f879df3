//! Tests of the use cases' interfaces, in one binary.

mod failures;
mod map;
mod old_store;
mod schemas;
mod toy_kind;
mod workbench;
