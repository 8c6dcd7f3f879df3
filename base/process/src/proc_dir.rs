//! Reads `/proc/PID`.
//!
//! A process is read through its opened directory, so that all data belongs to one process: once it has ended, reads
//! fail, even if its pid was reused.

use crate::ProcessId;
use rustix::fs::{CWD, Dir, Mode, OFlags, openat, readlinkat};
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Files are cut at this size. Only arguments and the environment can be longer.
const FILE_BYTES_MAX: u64 = 16 * 1024;
const OPEN_DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// All visible processes. With `hidepid` these are only our own.
pub fn pids() -> impl Iterator<Item = u32> {
    std::fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// All visible processes, in no particular order. One that ends meanwhile may be left out.
pub fn processes() -> impl Iterator<Item = Stat> {
    pids().filter_map(|pid| ProcDir::open(pid).ok()?.stat().ok())
}

/// The number in a link target such as `socket:[123]` or `net:[123]`. `opening` is the part before the number.
pub fn link_inode(target: &[u8], opening: &[u8]) -> Option<u64> {
    std::str::from_utf8(target.strip_prefix(opening)?.strip_suffix(b"]")?).ok()?.parse().ok()
}

/// Fields of `/proc/PID/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    pub id: ProcessId,
    pub parent: u32,
    /// Process group.
    pub group: u32,
    /// The kernel's short name: at most 15 bytes. Invalid UTF-8 is replaced.
    pub comm: String,
    /// It has ended and its parent has not waited for it yet. False while other threads of the process run.
    pub is_zombie: bool,
    /// It was forked and has not executed a program since.
    pub is_forked: bool,
    pub is_kernel_thread: bool,
    /// Processor time in ticks of 10 ms, with that of children it has waited for.
    pub cpu_ticks: u64,
}

/// The opened directory of a process in `/proc`.
pub struct ProcDir {
    pid: u32,
    dir: OwnedFd,
}

impl ProcDir {
    pub fn open(pid: u32) -> io::Result<ProcDir> {
        let dir = openat(CWD, format!("/proc/{pid}"), OPEN_DIRECTORY, Mode::empty())?;
        Ok(ProcDir { pid, dir })
    }

    pub fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    pub fn stat(&self) -> io::Result<Stat> {
        parse_stat(self.pid, &self.read("stat")?).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// State of one of its threads as in `/proc/PID/task/TID/stat`, such as `S` for an interruptible sleep.
    pub fn thread_state(&self, thread: u32) -> io::Result<char> {
        let text = self.read(&format!("task/{thread}/stat"))?;
        let state = split_stat(&text).and_then(|(_, fields)| fields.first()?.chars().next());
        state.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// States of all its threads, without those that have been released.
    pub fn thread_states(&self) -> io::Result<Vec<char>> {
        let threads = Dir::new(self.subdirectory("task")?)?;
        let states = threads.filter_map(|thread| {
            let thread = thread.ok()?.file_name().to_str().ok()?.parse().ok()?;
            self.thread_state(thread).ok()
        });
        Ok(states.collect())
    }

    /// Reads at most 16 KiB of a file.
    pub fn read(&self, file: &str) -> io::Result<Vec<u8>> {
        let file = openat(&self.dir, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut bytes = Vec::new();
        std::fs::File::from(file).take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    pub fn link(&self, name: &str) -> io::Result<PathBuf> {
        let target = readlinkat(&self.dir, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// Targets of all readable links in a subdirectory, such as `fd`. Empty if it is not readable.
    pub fn link_targets(&self, subdirectory: &str) -> Vec<OsString> {
        let Ok(dir) = self.subdirectory(subdirectory) else { return Vec::new() };
        let Ok(entries) = Dir::read_from(&dir) else { return Vec::new() };
        entries
            .flatten()
            .filter_map(|entry| readlinkat(&dir, entry.file_name(), Vec::new()).ok())
            .map(|target| OsString::from_vec(target.into_bytes()))
            .collect()
    }

    fn subdirectory(&self, name: &str) -> io::Result<OwnedFd> {
        Ok(openat(&self.dir, name, OPEN_DIRECTORY, Mode::empty())?)
    }

    /// Inode number of its network namespace.
    pub fn netns(&self) -> Option<u64> {
        link_inode(self.link("ns/net").ok()?.as_os_str().as_encoded_bytes(), b"net:[")
    }
}

/// The name and the fields after it, of `PID (comm) state parent group … flags … threads … start …`. The name may
/// contain any character, including parentheses, spaces and newlines. Written out here, because the parser of procfs
/// 0.18 panics on unexpected text, and the agent must not.
fn split_stat(text: &[u8]) -> Option<(&[u8], Vec<&str>)> {
    let opening = text.iter().position(|byte| *byte == b'(')?;
    let closing = text.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(&text[closing + 1..]).ok()?.split_ascii_whitespace().collect();
    Some((text.get(opening + 1..closing)?, fields))
}

fn parse_stat(pid: u32, text: &[u8]) -> Option<Stat> {
    // positions after the name
    const STATE: usize = 0;
    const PARENT: usize = 1;
    const GROUP: usize = 2;
    const FLAGS: usize = 6;
    const CPU: std::ops::RangeInclusive<usize> = 11..=14;
    const THREADS: usize = 17;
    const START: usize = 19;
    // PF_FORKNOEXEC and PF_KTHREAD of the kernel
    const FORKED: u64 = 0x40;
    const KERNEL_THREAD: u64 = 0x0020_0000;
    let (comm, fields) = split_stat(text)?;
    let number = |position: usize| fields.get(position)?.parse::<u64>().ok();
    let flags = number(FLAGS)?;
    Some(Stat {
        id: ProcessId { pid, start_ticks: number(START)? },
        parent: u32::try_from(number(PARENT)?).ok()?,
        group: u32::try_from(number(GROUP)?).ok()?,
        comm: String::from_utf8_lossy(comm).into_owned(),
        // a process whose first thread has ended has the state of a zombie while its other threads run
        is_zombie: matches!(*fields.get(STATE)?, "Z" | "X" | "x") && number(THREADS)? <= 1,
        is_forked: flags & FORKED != 0,
        is_kernel_thread: flags & KERNEL_THREAD != 0,
        cpu_ticks: CPU.filter_map(number).fold(0, u64::saturating_add),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A line of `/proc/PID/stat` with this name, state and number of threads.
    fn line(comm: &str, state: char, threads: u32) -> String {
        let rest = "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0";
        format!("7 ({comm}) {state} 3 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 {threads} 0 4711 9 9 {rest}\n")
    }

    #[test]
    fn the_current_process_is_read() {
        let process = ProcDir::open(std::process::id()).unwrap();
        let stat = process.stat().unwrap();
        assert_eq!(stat.id.pid, std::process::id());
        assert_eq!(stat.parent, std::os::unix::process::parent_id());
        assert!(stat.id.start_ticks > 0 && !stat.is_zombie && !stat.is_kernel_thread);
        assert!(process.netns().is_some());
        assert!(pids().any(|pid| pid == std::process::id()));
        assert!(process.link_targets("fd").len() >= 3);
        assert!(processes().any(|other| other.id == stat.id));
    }

    #[test]
    fn threads_are_read_one_by_one() {
        let process = ProcDir::open(std::process::id()).unwrap();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (started, start) = std::sync::mpsc::channel();
        let sleeping = std::thread::spawn(move || {
            started.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            let _ = ended.recv();
        });
        let thread = start.recv().unwrap();
        while process.thread_state(thread).unwrap() != 'S' {
            std::thread::yield_now();
        }
        assert!(process.thread_states().unwrap().len() >= 2);
        drop(end);
        sleeping.join().unwrap();
        // the kernel releases the thread after it was joined
        while process.thread_state(thread).is_ok() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_flags_of_kernel_threads_are_found() {
        let flags = |flags: &str| parse_stat(2, line("x", 'I', 1).replace("4194304", flags).as_bytes()).unwrap();
        assert!(flags("69238880").is_kernel_thread && !flags("4194304").is_kernel_thread);
    }

    #[test]
    fn names_may_contain_field_separators() {
        let stat = parse_stat(7, line("a) S 1 (\n b", 'R', 1).as_bytes()).unwrap();
        assert_eq!((stat.comm.as_str(), stat.parent, stat.group), ("a) S 1 (\n b", 3, 7));
        assert_eq!(stat.id, ProcessId { pid: 7, start_ticks: 4711 });
    }

    #[test]
    fn a_process_with_running_threads_is_no_zombie() {
        let is_zombie = |state, threads| parse_stat(7, line("x", state, threads).as_bytes()).unwrap().is_zombie;
        assert!(is_zombie('Z', 1) && !is_zombie('Z', 2) && !is_zombie('S', 1));
    }

    #[test]
    fn names_may_be_any_bytes() {
        let bytes = line("@", 'S', 1).replace('@', "\u{1}").into_bytes();
        let bytes: Vec<u8> = bytes.into_iter().map(|byte| if byte == 1 { 0xff } else { byte }).collect();
        assert_eq!(parse_stat(7, &bytes).unwrap().comm, "\u{FFFD}");
    }

    #[test]
    fn brackets_are_required() {
        assert_eq!(link_inode(b"socket:[42]", b"socket:["), Some(42));
        assert_eq!(link_inode(b"socket:[42", b"socket:["), None);
        assert_eq!(link_inode(b"pipe:[42]", b"socket:["), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_stat(1, &text);
            let _ = link_inode(&text, b"net:[");
        }
    }
}
