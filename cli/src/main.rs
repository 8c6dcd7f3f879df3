//! The faultloom command.
fn main() {}
