//! What one wrong bit does to a program: flips it in a running process, at a chosen instruction, and sees what comes of it.
//!
//! The program is unmodified and runs under ptrace. It is stepped to the point once; there it is forked, and the fork is
//! disturbed while the golden process goes on to the next point. After SEI §7, which did this with Pin.

pub mod access;
pub mod advance;
mod bytes;
mod children;
mod class;
pub mod code;
pub mod contain;
mod cores;
pub mod defuse;
mod descriptors;
pub mod engine;
pub mod executable;
pub mod exhaust;
mod fault;
pub mod flow;
mod fork;
mod gate;
pub mod golden;
mod hold;
mod inject;
pub mod inspect;
pub mod instruction;
mod job;
pub mod live;
pub mod mappings;
pub mod memcached_input;
pub mod modules;
mod native;
pub mod output_records;
mod outputs;
mod place;
pub mod plan;
pub mod profile;
pub mod protocol;
pub mod random;
mod recreate;
mod refusal;
mod said;
pub mod shim;
mod sites;
pub mod stream;
pub mod strike;
mod supervise;
mod swap;
mod symbols;
pub mod threads;
pub mod trace_input;
pub mod tracee;
mod turns;
mod variables;
mod waiting;
mod watch;
pub mod xstate;
