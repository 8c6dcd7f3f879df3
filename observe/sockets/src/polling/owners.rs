//! Finds the processes that hold sockets, by reading `/proc/PID/fd`.
//!
//! A search has a set of inodes. It reads processes until every inode is found: new processes first, then those with
//! few open files. Processes with many open files are read only for inodes that an earlier search did not find, and so
//! rarely that this takes at most 1/30 of the time; sockets of short-lived processes are gone by then and would
//! otherwise cause a full search at each poll. A process that is unreadable or ends meanwhile is skipped and counted.
//! All data of a process is read through its opened directory, which refers to this process even if the pid is reused.
//!
//! A process that was just forked holds all files of its parent until it executes another program. It is therefore used
//! as owner only if there is no other.
//!
//! Requires CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH for processes of other users.

use super::hash::IdMap;
use crate::Owner;
use process::{ProcDir, link_inode, pids, ticks_since_boot};
use rustix::fs::{Mode, OFlags, RawDir, openat, readlinkat_raw};
use rustix::io::Errno;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Processes with more open files are searched rarely.
const MANY_FILES: u32 = 256;
/// Interval between full searches, as a multiple of the duration of the last one.
const FULL_SEARCH_INTERVAL: u32 = 30;

/// Time in which a forked process is expected to execute another program.
const YOUNG_TICKS: u64 = 100;

/// Inodes to search for, and the owners found.
#[derive(Default)]
pub struct OwnerSearch {
    inodes: IdMap<u32, Option<Found>>,
    missing: usize,
    owners: Vec<Arc<Owner>>,
    /// Contains an inode that an earlier search did not find.
    retry: bool,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    owner: u32,
    /// Use another process as owner if there is one.
    tentative: bool,
}

impl OwnerSearch {
    /// `retry`: an earlier search did not find it.
    pub fn add(&mut self, inode: u32, retry: bool) {
        self.retry |= retry && inode != 0;
        if inode != 0 && self.inodes.insert(inode, None).is_none() {
            self.missing += 1;
        }
    }

    pub fn owner(&self, inode: u32) -> Option<&Arc<Owner>> {
        self.inodes.get(&inode).copied().flatten().map(|found| &self.owners[found.owner as usize])
    }

    /// Removes tentative owners, because processes not read yet may be better ones.
    fn clear_tentative(&mut self) {
        self.inodes
            .values_mut()
            .filter(|found| found.is_some_and(|found| found.tentative))
            .for_each(|found| *found = None);
    }

    /// Clears the search and keeps its memory unless it is large.
    pub fn clear(&mut self) {
        const WORTH_KEEPING: usize = 4096;
        if self.inodes.capacity() > WORTH_KEEPING {
            self.inodes = IdMap::default();
        }
        self.inodes.clear();
        self.owners.clear();
        self.missing = 0;
        self.retry = false;
    }
}

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchResult {
    /// All readable processes were searched.
    pub complete: bool,
    /// Number of unreadable processes.
    pub unreadable: u64,
}

/// Searches processes and remembers how many open files each had.
pub struct Owners {
    files: IdMap<u32, u32>,
    /// Time and duration of the last full search.
    full: Option<(Instant, Duration)>,
    entries: Vec<MaybeUninit<u8>>,
}

impl Default for Owners {
    fn default() -> Owners {
        Owners { files: IdMap::default(), full: None, entries: vec![MaybeUninit::uninit(); 32 * 1024] }
    }
}

impl Owners {
    /// The next search reads all processes, whatever it costs.
    pub fn search_all_next(&mut self) {
        self.full = None;
    }

    /// Finds the owners of as many inodes as possible.
    pub fn find(&mut self, search: &mut OwnerSearch) -> SearchResult {
        let mut result = SearchResult { complete: true, unreadable: 0 };
        if search.missing == 0 {
            return result;
        }
        let started = Instant::now();
        let full = self.full.is_none_or(|(when, cost)| search.retry && when.elapsed() >= cost * FULL_SEARCH_INTERVAL);
        let mut processes: Vec<(u32, Reverse<u32>)> =
            pids().map(|pid| (self.files.get(&pid).copied().unwrap_or(0), Reverse(pid))).collect();
        processes.sort_unstable();
        let alive: HashSet<u32> = processes.iter().map(|(_, Reverse(pid))| *pid).collect();
        self.files.retain(|pid, _| alive.contains(pid));
        for (files, Reverse(pid)) in processes {
            if search.missing == 0 {
                break;
            }
            if files > MANY_FILES && !full {
                result.complete = false;
                search.clear_tentative();
                break;
            }
            if self.search_process(pid, search).is_err() {
                result.unreadable += 1;
            }
        }
        if full {
            self.full = Some((Instant::now(), started.elapsed()));
        }
        result
    }

    /// Fails if the process is not readable, but not if it has ended.
    fn search_process(&mut self, pid: u32, search: &mut OwnerSearch) -> Result<(), Unreadable> {
        let Ok(process) = ProcDir::open(pid) else { return Ok(()) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = match openat(process.dir(), "fd", flags, Mode::empty()) {
            Ok(directory) => directory,
            Err(Errno::ACCESS | Errno::PERM) => return Err(Unreadable),
            Err(_) => return Ok(()),
        };
        let mut owner: Option<Found> = None;
        let mut files = 0;
        let mut entries = RawDir::new(&directory, &mut self.entries);
        // an error means that the process has ended
        while let Some(Ok(entry)) = entries.next() {
            files += 1;
            let mut target = [MaybeUninit::uninit(); 40];
            let target = match readlinkat_raw(&directory, entry.file_name(), &mut target) {
                Ok((target, _)) => target,
                // the directory may be readable and its links not; `.` and `..` are not links
                Err(Errno::ACCESS | Errno::PERM) => return Err(Unreadable),
                Err(_) => continue,
            };
            let Some(inode) = link_inode(target, b"socket:[") else { continue };
            let is_open = |slot: &&mut Option<Found>| slot.is_none_or(|found| found.tentative);
            let Some(slot) = search.inodes.get_mut(&(inode as u32)).filter(is_open) else { continue };
            let found = match owner {
                Some(found) => found,
                None => {
                    let Ok(stat) = process.stat() else { return Ok(()) };
                    let tentative = stat.is_forked && ticks_since_boot() < stat.id.start_ticks + YOUNG_TICKS;
                    let found = Found { owner: search.owners.len() as u32, tentative };
                    let (process_id, comm) = (stat.id, stat.comm);
                    let described =
                        Owner { process: process_id, comm, cgroup: None, executable: None, arguments: None };
                    search.owners.push(Arc::new(described));
                    *owner.insert(found)
                }
            };
            // keep the first of several tentative owners
            if found.tentative {
                slot.get_or_insert(found);
                continue;
            }
            *slot = Some(found);
            search.missing -= 1;
            if search.missing == 0 {
                break;
            }
        }
        // the loop may have ended early
        let count = self.files.entry(pid).or_default();
        *count = files.max(*count);
        Ok(())
    }
}

struct Unreadable;
