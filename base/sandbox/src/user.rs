//! The user a program runs as: a dedicated unprivileged UID, so that per-user limits are its own and signals reach no
//! other process.
//!
//! The limit on processes counts all processes of a user on the host: with a well-known user such as `nobody`, a
//! program could not start where other processes run as `nobody`.

use crate::unavailable;
use model::Failure;
use std::io;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    /// No other user is available: it is the caller's own, without capabilities. Programs can then change scratch
    /// itself, and read what the caller can.
    pub own: bool,
}

const NAMESPACES: i32 =
    libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;

/// Moves this process, and what it starts, into new namespaces. As root, picks an unused user for the programs;
/// otherwise creates a user namespace in which the caller is the only user, where processes are counted from zero.
pub(super) fn separate() -> Result<User, Failure> {
    let (uid, gid) = ids();
    let spare = if uid == 0 { spare() } else { None };
    if let Some(user) = spare
        && unshare(NAMESPACES).is_ok()
    {
        return Ok(user);
    }
    unshare(NAMESPACES | libc::CLONE_NEWUSER).map_err(|e| unavailable("new namespaces", &e))?;
    for (file, text) in
        [("setgroups", "deny".to_owned()), ("uid_map", format!("{uid} {uid} 1")), ("gid_map", format!("{gid} {gid} 1"))]
    {
        let path = format!("/proc/self/{file}");
        std::fs::write(&path, text).map_err(|e| unavailable(&format!("writing {path}"), &e))?;
    }
    Ok(User { uid, gid, own: true })
}

/// How to allow unprivileged user namespaces on this host.
pub(super) fn advice() -> String {
    let switches = [
        ("user.max_user_namespaces", "0", "10000"),
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ];
    let off = |&&(name, off, _): &&(&str, &str, &str)| {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        std::fs::read_to_string(path).is_ok_and(|value| value.trim() == off)
    };
    match switches.iter().find(off) {
        Some((name, _, on)) => format!(" or allow user namespaces (sysctl -w {name}={on})"),
        None => " or where user namespaces are allowed (in a container: --privileged)".into(),
    }
}

/// UIDs that systemd's list leaves unassigned. The supervisor's process id is added, so that concurrent sandboxes use
/// different users.
const FIRST: u64 = 1_900_000_000;
const PIDS: u64 = 1 << 22;

fn spare() -> Option<User> {
    let map = std::fs::read_to_string("/proc/self/uid_map").ok()?;
    let used = used();
    let id = candidates(&map, std::process::id().into()).into_iter().find(|id| !used.contains(id))?;
    Some(User { uid: id, gid: id, own: false })
}

/// Reads the kernel's table of mapped ids: `inside outside count` per line.
fn candidates(map: &str, pid: u64) -> Vec<u32> {
    let mapped = |id: u64| {
        map.lines().any(|line| {
            let mut numbers = line.split_whitespace().filter_map(|n| n.parse::<u64>().ok());
            let (Some(first), Some(_), Some(count)) = (numbers.next(), numbers.next(), numbers.next()) else {
                return false;
            };
            (first..first + count).contains(&id)
        })
    };
    let high = (0..4).map(|n| FIRST + n * PIDS + pid);
    // in a container with 65,536 ids: above the last that packages and systemd assign
    let low = (0..16).map(|n| 65_520 + (pid + n) % 14);
    high.chain(low).filter(|&id| mapped(id)).map(|id| id as u32).collect()
}

/// Users of all running processes.
fn used() -> Vec<u32> {
    use std::os::unix::fs::MetadataExt;
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    processes.flatten().filter_map(|entry| entry.metadata().ok()).map(|process| process.uid()).collect()
}

fn ids() -> (u32, u32) {
    // SAFETY: cannot fail, touches no memory.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

fn unshare(flags: i32) -> io::Result<()> {
    // SAFETY: no memory is involved; affects this process only.
    match unsafe { libc::unshare(flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_sandboxes_use_different_users() {
        let host = "         0          0 4294967295";
        assert_eq!(candidates(host, 7)[0], 1_900_000_007);
        assert_eq!(candidates(host, 8)[0], 1_900_000_008);
    }

    #[test]
    fn only_mapped_ids_are_used_and_never_nobody() {
        let container = "         0     100000      65536";
        let ids = candidates(container, 12_345);
        assert!(!ids.is_empty() && ids.iter().all(|id| (65_520..65_534).contains(id)), "{ids:?}");
        assert_eq!(candidates("         0       1000          1", 5), Vec::<u32>::new());
    }
}
