//! Counts every TCP connection in the kernel. Transtracer §3.2 polls instead and describes what polling misses.
//!
//! A tracing program runs on each state change of a TCP socket and adds to a table in the kernel; no event is sent per
//! connection. [`EbpfCollector`] reads and empties the table at each interval, or earlier if it is half full. A scan of
//! the open files of all processes finds connections that are older than the agent, the processes that hold accepted
//! connections, and the byte counts of long-lived connections. `bpf/sockets.bpf.c` lists the state changes.
//!
//! Requires CAP_BPF and CAP_PERFMON, Linux 5.12 or newer with BTF, and the host's PID namespace. The kernel unloads the
//! programs when the collector is dropped or its process ends.

mod availability;
mod collector;
mod entry;
mod flow_table;
mod kernel;
mod layout;
mod non_tcp;
mod programs;

pub use availability::{Requirement, requirements};
pub use collector::{EbpfCollector, Options};
pub use kernel::ProgramStatistics;
