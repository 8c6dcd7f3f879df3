//! Ensures that only one agent runs per host: two would double the cost in the kernel and count every connection twice
//! in the fleet's store.
//!
//! The lock is an abstract Unix socket. It needs no world-writable directory, works across users and with a read-only
//! file system, and the kernel releases it however the process ends. It never accepts a connection. Its name is valid
//! within a network namespace; agents run in that of the host.
//!
//! Any user can take such a name, but must not keep a privileged agent from running. A privileged agent therefore
//! respects only holders that could be one: root, its own user, or a process with capabilities of an agent. If another
//! process holds the name, it takes the next of [`NAMES`] names; it respects the holders of all of them.

use model::Failure;
use process::ProcDir;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};
use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, capabilities};
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// Held until the value is dropped or the process ends.
pub struct HostLock {
    /// None if processes that are not agents hold all names.
    _socket: Option<UnixListener>,
}

/// Default name of the lock; all agents of a host must use the same.
pub const NAME: &str = "faultloom-agent";
/// Number of names that an agent tries.
const NAMES: u32 = 64;

/// Capabilities of an agent that ordinary users do not have.
const PRIVILEGES: CapabilitySet =
    CapabilitySet::BPF.union(CapabilitySet::PERFMON).union(CapabilitySet::SYS_ADMIN).union(CapabilitySet::SYS_PTRACE);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    pid: u32,
    uid: u32,
}

impl HostLock {
    pub fn take(name: &str) -> Result<HostLock, Failure> {
        let failed = |e: std::io::Error| {
            Failure::environment(format!("cannot take the lock '{name}' of this host's agent"))
                .why(e.to_string())
                .next("choose another name with --lock NAME; all agents of a host must use the same name")
        };
        let is_privileged =
            geteuid().is_root() || capabilities(None).is_ok_and(|own| own.effective.intersects(PRIVILEGES));
        let names = (0..NAMES).map(|n| if n == 0 { name.to_owned() } else { format!("{name}.{n}") });
        let mut taken = None;
        for (n, name) in names.enumerate() {
            if taken.is_none() {
                let address = SocketAddr::from_abstract_name(&name).map_err(failed)?;
                match UnixListener::bind_addr(&address) {
                    Ok(socket) => {
                        taken = Some(socket);
                        // a holder of a later name took it while this one was not free
                        if is_privileged {
                            continue;
                        }
                        break;
                    }
                    Err(e) if e.kind() != ErrorKind::AddrInUse => return Err(failed(e)),
                    Err(_) => {}
                }
            }
            match holder_of(&name).map_err(|e| failed(e.into()))? {
                // nobody holds a later name, or a process holds this one without listening
                None if taken.is_some() || is_privileged => {}
                Some(holder) if is_privileged && !holder.is_agent() => {
                    tracing::warn!(pid = holder.pid, uid = holder.uid, "a process that is not an agent holds lock {n}");
                }
                holder => return Err(already_running(holder)),
            }
        }
        if taken.is_none() {
            tracing::warn!("processes that are not agents hold all locks; another agent would not be noticed");
        }
        Ok(HostLock { _socket: taken })
    }
}

impl Holder {
    /// Whether it could be an agent beside which this one must not run.
    fn is_agent(self) -> bool {
        self.uid == 0 || self.uid == geteuid().as_raw() || self.has_privileges()
    }

    /// In the user namespace of this process: any user has all capabilities in one of its own.
    fn has_privileges(self) -> bool {
        let Ok(process) = ProcDir::open(self.pid) else { return false };
        let own = ProcDir::open(std::process::id()).and_then(|own| own.link("ns/user"));
        if !matches!((process.link("ns/user"), own), (Ok(theirs), Ok(own)) if theirs == own) {
            return false;
        }
        let Ok(status) = process.read("status") else { return false };
        let text = String::from_utf8_lossy(&status).into_owned();
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        // the process may have become another user's since it took the name
        let effective_uid = field("Uid:").and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok());
        let capabilities = field("CapEff:").and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
        effective_uid == Some(self.uid) && capabilities.is_some_and(|bits| bits & PRIVILEGES.bits() != 0)
    }
}

/// The process that listens at an abstract name; none if there is none. Does not wait, even if others filled its queue.
fn holder_of(name: &str) -> Result<Option<Holder>, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?) {
        Ok(()) => {
            let holder = sockopt::socket_peercred(&socket)?;
            let pid = holder.pid.as_raw_nonzero().get();
            Ok(Some(Holder { pid: u32::try_from(pid).unwrap_or(0), uid: holder.uid.as_raw() }))
        }
        Err(_) => Ok(None),
    }
}

fn already_running(holder: Option<Holder>) -> Failure {
    let holder = match holder {
        Some(holder) => format!("it is process {} of user {}", holder.pid, holder.uid),
        None => "its process is unknown".to_owned(),
    };
    Failure::environment("an agent is already running on this host")
        .why(holder)
        .next("query it with `faultloom map`, or stop it first")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};
    use std::sync::{Mutex, PoisonError};

    /// A process that one test starts holds the sockets of the other until it executes its program.
    static SERIAL: Mutex<()> = Mutex::new(());

    /// Prints past the capture of output that a test cannot run, so that it is counted.
    fn skipped(why: &str) {
        let test = std::thread::current();
        let _ = writeln!(std::io::stdout(), "skipped: {}: {why}", test.name().unwrap_or("?"));
    }

    #[test]
    fn a_second_agent_is_rejected_with_the_pid_of_the_first() {
        let _serial = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("faultloom-lock-test-{}", std::process::id());
        let first = HostLock::take(&name).unwrap();
        let refused = HostLock::take(&name).err().unwrap();
        assert_eq!(refused.exit().code(), 3);
        assert!(refused.to_string().contains(&format!("it is process {}", std::process::id())), "{refused}");
        drop(first);
        drop(HostLock::take(&name).unwrap());
    }

    /// Any local user could keep the agent of root from running.
    #[test]
    fn an_unprivileged_holder_does_not_block_a_privileged_agent() {
        let _serial = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
        const HOLD: &str = "
import socket, sys
s = socket.socket(socket.AF_UNIX); s.bind('\\0' + sys.argv[1]); s.listen(1); print('held', flush=True); input()";
        if !geteuid().is_root() {
            skipped("only root can start a process of another user");
            return;
        }
        let name = format!("faultloom-lock-foreign-{}", std::process::id());
        let mut holder = Command::new("python3")
            .args(["-c", HOLD, &name])
            .current_dir("/")
            .uid(65534)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        let first = HostLock::take(&name).unwrap();
        assert!(HostLock::take(&name).err().unwrap().to_string().contains("already running"));
        holder.kill().unwrap();
        holder.wait().unwrap();
        let refused = HostLock::take(&name).err().unwrap();
        assert!(refused.to_string().contains("already running"), "the first name is free now: {refused}");
        drop(first);
        drop(HostLock::take(&name).unwrap());
    }

    /// In a user namespace of its own, any user has every capability.
    #[test]
    fn capabilities_in_another_user_namespace_do_not_count() {
        let _serial = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "cat"]);
        let mut other = match command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() {
            Ok(other) => other,
            Err(e) => {
                skipped(&format!("unshare: {e}"));
                return;
            }
        };
        // its answer shows that it has entered the namespace
        let mut line = String::new();
        let answered = other.stdin.as_ref().is_some_and(|mut stdin| stdin.write_all(b"ready\n").is_ok())
            && BufReader::new(other.stdout.take().unwrap()).read_line(&mut line).is_ok();
        let holder = Holder { pid: other.id(), uid: geteuid().as_raw() };
        let counts = holder.has_privileges();
        drop(other.stdin.take());
        let entered = other.wait().unwrap().success();
        if !answered || line != "ready\n" || !entered {
            skipped("no user namespace can be created here");
            return;
        }
        assert!(!counts);
        assert_eq!(Holder { pid: std::process::id(), ..holder }.has_privileges(), geteuid().is_root());
    }
}
