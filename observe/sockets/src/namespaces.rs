//! Network namespaces of this host: lists them, enters them and reads their addresses.
//!
//! A namespace exists while a process is in it or a mount holds it (`ip netns` creates such mounts). Entering affects
//! one thread, so it happens in a thread that then ends.
//!
//! Entering another namespace requires CAP_SYS_ADMIN. Without it only the agent's own namespace is visible.

use crate::netlink::{Attributes, Channel, DUMP, Request};
use flows::HostAddress;
use process::{ProcDir, link_inode, pids};
use rustix::net::Protocol;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file through which each namespace is entered, by inode number. Includes the current one.
pub fn all() -> BTreeMap<u64, PathBuf> {
    let mut found = BTreeMap::new();
    if let Ok(own) = own() {
        found.insert(own, PathBuf::from("/proc/thread-self/ns/net"));
    }
    for pid in pids() {
        if let Some(id) = ProcDir::open(pid).ok().and_then(|process| process.netns()) {
            found.entry(id).or_insert_with(|| PathBuf::from(format!("/proc/{pid}/ns/net")));
        }
    }
    if let Ok(mounts) = std::fs::read_to_string("/proc/self/mountinfo") {
        for (id, path) in mounts.lines().filter_map(mounted) {
            found.entry(id).or_insert(path);
        }
    }
    found
}

/// Inode number of the namespace of the current thread.
pub fn own() -> io::Result<u64> {
    Ok(std::fs::metadata("/proc/thread-self/ns/net")?.ino())
}

/// Runs `work` in the namespace with this inode number, entered through `path`.
///
/// # Errors
/// `path` now refers to another namespace, or entering it is not permitted.
pub fn within<T: Send>(id: u64, path: &Path, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    if own()? == id {
        return Ok(work());
    }
    let file = File::open(path)?;
    if file.metadata()?.ino() != id {
        return Err(io::Error::other(format!("{} refers to another network namespace", path.display())));
    }
    std::thread::scope(|scope| {
        let inside = scope.spawn(move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        });
        inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Addresses of every accessible namespace, without loopback and link-local addresses, which exist in every namespace.
pub fn addresses() -> Vec<HostAddress> {
    let mut addresses = Vec::new();
    for (netns, path) in all() {
        // skip namespaces that are inaccessible or have just ended
        if let Ok(Ok(found)) = within(netns, &path, addresses_here) {
            addresses.extend(found.into_iter().map(|ip| HostAddress { netns, ip }));
        }
    }
    addresses
}

fn addresses_here() -> io::Result<Vec<IpAddr>> {
    const ROUTE: Option<Protocol> = None; // protocol number 0
    const GET_ADDRESS: u16 = 22;
    const HEADER_BYTES: usize = 8;
    let mut found = Vec::new();
    let request = Request::new(GET_ADDRESS, DUMP).put(&[0; HEADER_BYTES]);
    Channel::open(ROUTE)?.request(request, |message| {
        let address = message.body.get(HEADER_BYTES..).and_then(address);
        found.extend(address.filter(|ip| !ip.is_loopback() && !is_link_local(*ip)));
    })?;
    Ok(found)
}

/// The address in the attributes of an `ifaddrmsg`. On a point-to-point link this is the local address, not the peer's.
fn address(attributes: &[u8]) -> Option<IpAddr> {
    const ADDRESS: u16 = 1;
    const LOCAL: u16 = 2;
    let value = Attributes(attributes).find_kind(LOCAL).or_else(|| Attributes(attributes).find_kind(ADDRESS))?;
    if let Ok(v4) = <[u8; 4]>::try_from(value) {
        return Some(v4.into());
    }
    <[u8; 16]>::try_from(value).ok().map(IpAddr::from)
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// Inode number and path of a line of `mountinfo`, if it holds a network namespace.
fn mounted(line: &str) -> Option<(u64, PathBuf)> {
    let mut fields = line.split(' ').skip(3);
    let id = link_inode(fields.next()?.as_bytes(), b"net:[")?;
    Some((id, PathBuf::from(unescaped(fields.next()?))))
}

/// `mountinfo` escapes blanks, newlines and backslashes as three octal digits.
fn unescaped(path: &str) -> String {
    let mut parts = path.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(char::from(byte));
                plain.push_str(&part[3..]);
            }
            None => plain.push_str(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn namespace_mounts_are_found() {
        let line = r"36 25 0:4 net:[4026532281] /run/netns/a\040b rw shared:1 - nsfs nsfs rw";
        assert_eq!(mounted(line), Some((4026532281, PathBuf::from("/run/netns/a b"))));
        assert_eq!(mounted("22 1 0:20 / /proc rw - proc proc rw"), None);
    }

    #[test]
    fn the_current_namespace_is_listed() {
        let own = own().unwrap();
        let all = all();
        assert!(all.contains_key(&own), "{own} is not in {all:?}");
        assert_eq!(within(own, &all[&own], || 7).unwrap(), 7);
    }

    #[test]
    fn a_path_to_another_namespace_is_rejected() {
        assert!(within(1, Path::new("/proc/self/ns/net"), || ()).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(line: String, bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = (mounted(&line), unescaped(&line), address(&bytes));
        }
    }
}
