//! The program under study: whether it can be studied, what is mapped in it, and the names of its code.

pub mod executable;
pub mod inspect;
pub mod mappings;
pub mod modules;
mod symbols;
