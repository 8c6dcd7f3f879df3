//! Tests of the use cases' interfaces, in one binary.

mod map;
mod old_store;
mod schemas;
mod toy_kind;
