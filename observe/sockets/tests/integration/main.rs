//! Integration tests of the collectors with real sockets, each in its own network namespace.

mod ebpf_counting;
mod ebpf_kinds;
mod ebpf_limits;
mod ebpf_owners;
mod ebpf_unloading;
mod holders;
mod many_sockets;
mod polling;
mod program_names;
mod support;
