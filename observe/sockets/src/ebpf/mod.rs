//! Connections counted in the kernel, every one of them (Transtracer §3.2 polls instead, and says what polling misses).
//!
//! One tracing program sees each change of a TCP socket's state and adds to a table in the kernel; nothing is sent per
//! connection. [`EbpfCollector`] reads and empties the table at each interval, or earlier when it is half full. A pass
//! over the open files of all processes finds what is older than the agent, who holds accepted connections, and the
//! bytes of long ones. `bpf/sockets.bpf.c` says which change tells what.
//!
//! Needs CAP_BPF and CAP_PERFMON, a kernel of 5.12 or newer with BTF, and the host's pid namespace. Nothing stays in the
//! kernel when the collector is dropped or its process killed.

mod collector;
mod entry;
mod kernel;
mod layout;
mod ledger;
mod others;
mod probe;
mod programs;

pub use collector::{EbpfCollector, Options};
pub use kernel::ProgramStatistics;
pub use probe::{Requirement, probe};
