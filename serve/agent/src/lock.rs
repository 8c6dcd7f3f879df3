//! One agent per host: two would count every connection twice, in the kernel's time and in the fleet's store.
//!
//! The lock is an abstract Unix socket: it needs no folder that everybody may write to, works between users and for a
//! service with a read-only file system, and the kernel gives it back however the process ends. Nothing is ever accepted
//! on it. Its name holds for a network namespace; agents belong into the host's.

use model::Failure;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

/// Held until the value is dropped or the process ends.
pub struct HostLock {
    _socket: UnixListener,
}

/// The name that agents of a host agree on.
pub const NAME: &str = "faultloom-agent";

impl HostLock {
    pub fn take(name: &str) -> Result<HostLock, Failure> {
        let failed = |e: std::io::Error| {
            Failure::environment(format!("the lock '{name}' of this host's agent cannot be taken"))
                .why(e.to_string())
                .next("choose another name with --lock NAME; agents of one host must agree on it")
        };
        let address = SocketAddr::from_abstract_name(name).map_err(failed)?;
        match UnixListener::bind_addr(&address) {
            Ok(socket) => Ok(HostLock { _socket: socket }),
            Err(e) if e.kind() == ErrorKind::AddrInUse => Err(taken(&address)),
            Err(e) => Err(failed(e)),
        }
    }
}

fn taken(address: &SocketAddr) -> Failure {
    let holder = UnixStream::connect_addr(address).ok().and_then(|s| rustix::net::sockopt::socket_peercred(s).ok());
    let holder = match holder {
        Some(holder) => format!("process {} is one", holder.pid.as_raw_nonzero()),
        None => "another process is one".to_owned(),
    };
    Failure::environment("this host has an agent already")
        .why(holder)
        .next("ask that one (`faultloom map`), or stop it first")
}

#[cfg(test)]
mod tests {
    use super::HostLock;

    #[test]
    fn the_second_agent_is_refused_and_told_who_is_there() {
        let name = format!("faultloom-lock-test-{}", std::process::id());
        let first = HostLock::take(&name).unwrap();
        let refused = HostLock::take(&name).err().unwrap();
        assert_eq!(refused.exit().code(), 3);
        assert!(refused.to_string().contains(&format!("process {} is one", std::process::id())), "{refused}");
        drop(first);
        drop(HostLock::take(&name).unwrap());
    }
}
