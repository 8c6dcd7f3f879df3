//! Flips single bits in a running program, at a chosen instruction, and observes the effect.
//!
//! The program is unmodified and runs under ptrace. The engine steps one golden process to each point, forks it there
//! and flips a bit in the fork, while the golden process continues to the next point. After SEI §7, which used Pin.
//!
//! The folders follow the path of a flip, and each uses only those before it:
//!
//! | folder | contents |
//! |---|---|
//! | [`engine_messages`] | what the tool and the engine send each other |
//! | [`program`] | the program under study: its ELF file, mappings, modules and symbols |
//! | [`processor`] | what an instruction reads and writes, where it goes next, and what a wrong address raises |
//! | [`tracing`] | the golden process: stepped by blocks, its threads in turns, forked at a point |
//! | [`inject`] | applies one fault to a stopped process |
//! | [`plan`] | which instructions may be hit, and which flips are drawn |
//! | [`engine`] | profiles the program, injects the planned flips, supervises the forks |
//! | [`live`] | one flip in a process that runs already |

pub mod engine;
pub mod engine_messages;
pub mod inject;
pub mod live;
pub mod plan;
pub mod processor;
pub mod program;
pub mod tracing;
