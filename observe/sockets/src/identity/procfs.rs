//! What `/proc` tells about one process.
//!
//! A process is read through its opened folder, so that everything read belongs to one process: once it has ended, reads
//! fail, also when its pid has been given to another one.

use flows::Instance;
use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Nothing of `/proc/PID` that is read here is longer on purpose; arguments may be, and are cut.
const MOST_BYTES: u64 = 16 * 1024;

/// Processes that may be seen. With `hidepid` these are our own.
pub fn pids() -> impl Iterator<Item = u32> {
    std::fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The number in what links to things without a path read like: `socket:[123]`, `net:[123]`.
pub fn bracketed(target: &[u8], opening: &[u8]) -> Option<u64> {
    std::str::from_utf8(target.strip_prefix(opening)?.strip_suffix(b"]")?).ok()?.parse().ok()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    pub instance: Instance,
    pub parent: u32,
    pub comm: String,
    /// It has ended and waits for its parent to ask how.
    pub zombie: bool,
    /// It runs the program of the process that made it.
    pub forked: bool,
}

/// A process's folder in `/proc`.
pub struct ProcessFolder {
    pid: u32,
    folder: OwnedFd,
}

impl ProcessFolder {
    pub fn open(pid: u32) -> io::Result<ProcessFolder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(CWD, format!("/proc/{pid}"), flags, Mode::empty())?;
        Ok(ProcessFolder { pid, folder })
    }

    pub fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    pub fn stat(&self) -> io::Result<Stat> {
        parse_stat(self.pid, &self.read("stat")?).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// At most 16 KiB of a file.
    pub fn read(&self, file: &str) -> io::Result<Vec<u8>> {
        let file = openat(&self.folder, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut bytes = Vec::new();
        std::fs::File::from(file).take(MOST_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    pub fn link(&self, name: &str) -> io::Result<PathBuf> {
        let target = readlinkat(&self.folder, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// Inode number of its network namespace.
    pub fn netns(&self) -> Option<u64> {
        bracketed(self.link("ns/net").ok()?.as_os_str().as_encoded_bytes(), b"net:[")
    }
}

/// `PID (comm) state parent … start …`: the name may hold anything, parentheses, spaces and newlines included.
fn parse_stat(pid: u32, text: &[u8]) -> Option<Stat> {
    const PARENT: usize = 1;
    const FLAGS: usize = 6;
    const START: usize = 19;
    // PF_FORKNOEXEC of the kernel
    const FORKED: u64 = 0x40;
    let opening = text.iter().position(|byte| *byte == b'(')?;
    let closing = text.iter().rposition(|byte| *byte == b')')?;
    let comm = String::from_utf8_lossy(text.get(opening + 1..closing)?).into_owned();
    let fields: Vec<&str> = std::str::from_utf8(&text[closing + 1..]).ok()?.split_ascii_whitespace().collect();
    let start_ticks = fields.get(START)?.parse().ok()?;
    let parent = fields.get(PARENT)?.parse().ok()?;
    let zombie = matches!(fields[0], "Z" | "X");
    let forked = fields.get(FLAGS)?.parse::<u64>().ok()? & FORKED != 0;
    Some(Stat { instance: Instance { pid, start_ticks }, parent, comm, zombie, forked })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn this_process_reads_itself() {
        let process = ProcessFolder::open(std::process::id()).unwrap();
        let stat = process.stat().unwrap();
        assert_eq!(stat.instance.pid, std::process::id());
        assert_eq!(stat.parent, std::os::unix::process::parent_id());
        assert!(stat.instance.start_ticks > 0 && !stat.zombie);
        assert!(process.netns().is_some());
        assert!(pids().any(|pid| pid == std::process::id()));
    }

    #[test]
    fn names_may_look_like_the_fields_around_them() {
        let text = b"7 (a) S 1 (\n b) R 3 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 4711 0 0\n";
        let stat = parse_stat(7, text).unwrap();
        assert_eq!((stat.comm.as_str(), stat.parent, stat.instance.start_ticks), ("a) S 1 (\n b", 3, 4711));
    }

    #[test]
    fn brackets_are_required() {
        assert_eq!(bracketed(b"socket:[42]", b"socket:["), Some(42));
        assert_eq!(bracketed(b"socket:[42", b"socket:["), None);
        assert_eq!(bracketed(b"pipe:[42]", b"socket:["), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_stat(1, &text);
            let _ = bracketed(&text, b"net:[");
        }
    }
}
