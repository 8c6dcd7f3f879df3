//! Integration tests of the map, on hand-made and random slices.

mod compare;
mod pairing;
mod properties;
mod query;
mod support;
