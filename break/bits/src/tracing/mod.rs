//! The golden process under ptrace: run by blocks of instructions, translated or stepped, its threads in turns,
//! forked at any point.

pub mod blocks;
mod clone_threads;
pub mod code;
pub mod code_cache;
pub mod descriptors;
pub mod fork;
pub mod golden;
mod scheduler;
pub mod step;
pub mod syscall_policy;
mod thread_calls;
pub mod threads;
pub mod translation;
