//! Applies one fault to a process that is stopped before an instruction.
//!
//! [`apply`] dispatches to the files for values, addresses and arbitrary states; all of them return the types of
//! [`fault`].

mod address_fault;
mod apply;
mod arbitrary_state;
pub mod fault;
mod value_fault;

pub use apply::apply;
pub use fault::{AppliedFault, Fault, NextAction, PendingFault};
