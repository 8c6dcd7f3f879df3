//! TCP listeners of the current network namespace.

use crate::proc_dir::{ProcDir, link_inode, pids};
use procfs::net::TcpState;
use std::net::SocketAddr;

/// A listening TCP socket, from `/proc/net/tcp` and `/proc/net/tcp6`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpListener {
    pub address: SocketAddr,
    pub inode: u64,
}

impl TcpListener {
    /// The process that holds the socket, as far as this user can see it; the one with the lowest pid.
    pub fn holder(&self) -> Option<u32> {
        let mut all: Vec<u32> = pids().collect();
        all.sort_unstable();
        all.into_iter().find(|pid| sockets_of(*pid).any(|inode| inode == self.inode))
    }
}

/// Unreadable tables are treated as empty.
pub fn tcp_listeners() -> Vec<TcpListener> {
    let tables = [procfs::net::tcp(), procfs::net::tcp6()];
    let entries = tables.into_iter().flat_map(Result::unwrap_or_default);
    entries
        .filter(|entry| entry.state == TcpState::Listen)
        .map(|entry| TcpListener { address: entry.local_address, inode: entry.inode })
        .collect()
}

/// Inodes of the sockets that a process holds.
fn sockets_of(pid: u32) -> impl Iterator<Item = u64> {
    // through the opened directory, so that all links belong to one process
    let names = ProcDir::open(pid).ok().map(|process| process.link_targets("fd")).unwrap_or_default();
    names.into_iter().filter_map(|target| link_inode(target.as_os_str().as_encoded_bytes(), b"socket:["))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_listener_is_found() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let listener = tcp_listeners().into_iter().find(|listener| listener.address == address).unwrap();
        assert_eq!(listener.holder(), Some(std::process::id()));
        drop(socket);
        assert!(tcp_listeners().iter().all(|listener| listener.address != address));
    }
}
