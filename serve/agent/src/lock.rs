//! Ensures that only one agent runs per host: two would double the cost in the kernel and count every connection twice
//! in the fleet's store.
//!
//! The lock is an abstract Unix socket. It needs no world-writable directory, works across users and with a read-only
//! file system, and the kernel releases it however the process ends. It never accepts a connection. Its name is valid
//! within a network namespace; agents run in that of the host.

use model::Failure;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

/// Held until the value is dropped or the process ends.
pub struct HostLock {
    _socket: UnixListener,
}

/// Default name of the lock; all agents of a host must use the same.
pub const NAME: &str = "faultloom-agent";

impl HostLock {
    pub fn take(name: &str) -> Result<HostLock, Failure> {
        let failed = |e: std::io::Error| {
            Failure::environment(format!("cannot take the lock '{name}' of this host's agent"))
                .why(e.to_string())
                .next("choose another name with --lock NAME; all agents of a host must use the same name")
        };
        let address = SocketAddr::from_abstract_name(name).map_err(failed)?;
        match UnixListener::bind_addr(&address) {
            Ok(socket) => Ok(HostLock { _socket: socket }),
            Err(e) if e.kind() == ErrorKind::AddrInUse => Err(already_running(&address)),
            Err(e) => Err(failed(e)),
        }
    }
}

fn already_running(address: &SocketAddr) -> Failure {
    let holder = UnixStream::connect_addr(address).ok().and_then(|s| rustix::net::sockopt::socket_peercred(s).ok());
    let holder = match holder {
        Some(holder) => format!("it is process {}", holder.pid.as_raw_nonzero()),
        None => "its process is unknown".to_owned(),
    };
    Failure::environment("an agent is already running on this host")
        .why(holder)
        .next("query it with `faultloom map`, or stop it first")
}

#[cfg(test)]
mod tests {
    use super::HostLock;

    #[test]
    fn a_second_agent_is_rejected_with_the_pid_of_the_first() {
        let name = format!("faultloom-lock-test-{}", std::process::id());
        let first = HostLock::take(&name).unwrap();
        let refused = HostLock::take(&name).err().unwrap();
        assert_eq!(refused.exit().code(), 3);
        assert!(refused.to_string().contains(&format!("it is process {}", std::process::id())), "{refused}");
        drop(first);
        drop(HostLock::take(&name).unwrap());
    }
}
