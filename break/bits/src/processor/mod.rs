//! The processor model: what an instruction reads and writes, where it goes next, and what a wrong address raises.

pub mod access_fault;
pub mod control_flow;
pub mod def_use;
pub mod instruction;
mod instruction_class;
pub mod memory_operand;
pub mod registers;
pub mod xstate;
