//! Processes of this host: identity, `/proc` readers and signals.
//!
//! A pid is reused after its process ended. [`ProcessId`] therefore includes the start time, and [`ProcDir`] reads a
//! process through its opened directory. The `procfs` crate parses the socket tables. Its readers of single processes
//! are not used: they do not share an opened directory, and the parser of `stat` panics on unexpected text.

mod id;
mod listeners;
mod proc_dir;

pub use id::{ProcessId, boot_id, ticks_since_boot};
pub use listeners::{TcpListener, tcp_listeners};
pub use proc_dir::{ProcDir, Stat, link_inode, pids, processes};
