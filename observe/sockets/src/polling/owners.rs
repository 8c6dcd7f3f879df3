//! Whose a socket is, by looking through `/proc/PID/fd`.
//!
//! Model: somebody wants the owners of some inodes; processes are looked through until every inode is found, new ones
//! first, then those with few open files. Those with many are looked through only for what was wanted before and is still
//! there, and so seldom that it takes at most a thirtieth of the time: sockets of short-lived processes are gone by then,
//! and would otherwise cost a look at everything at each poll. One process that cannot be read, or ends meanwhile, is
//! passed over and counted; nothing stops the search. Everything of one process is read through its opened folder, which
//! stands for this process even if the pid is given to another one.
//!
//! A process that was just forked holds all that its parent held, until it runs another program. So it is an owner only
//! if nobody else is found.
//!
//! Needs CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH for processes of other users.

use super::quick::QuickMap;
use crate::Owner;
use crate::identity::procfs::{self, ProcessFolder};
use rustix::fs::{Mode, OFlags, RawDir, openat, readlinkat_raw};
use rustix::io::Errno;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A process with more open files is looked through seldom.
const MANY_FILES: u32 = 256;
/// The time between two looks through everything, in costs of the last one.
const THOROUGH_SHARE: u32 = 30;

/// As long as this a process may need to run another program.
const YOUNG_TICKS: u64 = 100;

/// Inodes whose owners are wanted, and what was found.
#[derive(Default)]
pub struct Wanted {
    inodes: QuickMap<u32, Option<Found>>,
    missing: usize,
    owners: Vec<Arc<Owner>>,
    /// Something was wanted before and not found.
    again: bool,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    owner: u32,
    /// Somebody else would be the better owner.
    doubtful: bool,
}

impl Wanted {
    /// `again`: it was looked for before.
    pub fn add(&mut self, inode: u32, again: bool) {
        self.again |= again && inode != 0;
        if inode != 0 && self.inodes.insert(inode, None).is_none() {
            self.missing += 1;
        }
    }

    pub fn owner(&self, inode: u32) -> Option<&Arc<Owner>> {
        self.inodes.get(&inode).copied().flatten().map(|found| &self.owners[found.owner as usize])
    }

    /// Who was not looked at yet may be the better owner.
    fn forget_doubtful(&mut self) {
        self.inodes
            .values_mut()
            .filter(|found| found.is_some_and(|found| found.doubtful))
            .for_each(|found| *found = None);
    }

    /// Empty again, with its memory kept unless that is much.
    pub fn clear(&mut self) {
        const WORTH_KEEPING: usize = 4096;
        if self.inodes.capacity() > WORTH_KEEPING {
            self.inodes = QuickMap::default();
        }
        self.inodes.clear();
        self.owners.clear();
        self.missing = 0;
        self.again = false;
    }
}

/// How a search went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// What was not found is nowhere, as far as processes can be read.
    pub complete: bool,
    /// Processes that could not be read.
    pub unreadable: u64,
}

/// Looks through processes; remembers how many files each had open.
pub struct Owners {
    files: QuickMap<u32, u32>,
    /// When everything was last looked through, and how long that took.
    thorough: Option<(Instant, Duration)>,
    entries: Vec<MaybeUninit<u8>>,
}

impl Default for Owners {
    fn default() -> Owners {
        Owners { files: QuickMap::default(), thorough: None, entries: vec![MaybeUninit::uninit(); 32 * 1024] }
    }
}

impl Owners {
    /// Finds as many as can be found.
    pub fn find(&mut self, wanted: &mut Wanted) -> Search {
        let mut search = Search { complete: true, unreadable: 0 };
        if wanted.missing == 0 {
            return search;
        }
        let started = Instant::now();
        let thorough = self.thorough.is_none_or(|(when, cost)| wanted.again && when.elapsed() >= cost * THOROUGH_SHARE);
        let mut processes: Vec<(u32, Reverse<u32>)> =
            procfs::pids().map(|pid| (self.files.get(&pid).copied().unwrap_or(0), Reverse(pid))).collect();
        processes.sort_unstable();
        let living: HashSet<u32> = processes.iter().map(|(_, Reverse(pid))| *pid).collect();
        self.files.retain(|pid, _| living.contains(pid));
        for (files, Reverse(pid)) in processes {
            if wanted.missing == 0 {
                break;
            }
            if files > MANY_FILES && !thorough {
                search.complete = false;
                wanted.forget_doubtful();
                break;
            }
            if self.look_at(pid, wanted).is_err() {
                search.unreadable += 1;
            }
        }
        if thorough {
            self.thorough = Some((Instant::now(), started.elapsed()));
        }
        search
    }

    /// Fails if the process may not be read; that it has ended is no failure.
    fn look_at(&mut self, pid: u32, wanted: &mut Wanted) -> Result<(), Unreadable> {
        let Ok(process) = ProcessFolder::open(pid) else { return Ok(()) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = match openat(process.folder(), "fd", flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::ACCESS | Errno::PERM) => return Err(Unreadable),
            Err(_) => return Ok(()),
        };
        let mut owner: Option<Found> = None;
        let mut files = 0;
        let mut entries = RawDir::new(&folder, &mut self.entries);
        // an error ends the folder: the process has ended
        while let Some(Ok(entry)) = entries.next() {
            files += 1;
            let mut target = [MaybeUninit::uninit(); 40];
            let target = match readlinkat_raw(&folder, entry.file_name(), &mut target) {
                Ok((target, _)) => target,
                // the folder may be open to us and what is in it not; `.` and `..` are no links
                Err(Errno::ACCESS | Errno::PERM) => return Err(Unreadable),
                Err(_) => continue,
            };
            let Some(inode) = procfs::bracketed(target, b"socket:[") else { continue };
            let unsure = |slot: &&mut Option<Found>| slot.is_none_or(|found| found.doubtful);
            let Some(slot) = wanted.inodes.get_mut(&(inode as u32)).filter(unsure) else { continue };
            let found = match owner {
                Some(found) => found,
                None => {
                    let Ok(stat) = process.stat() else { return Ok(()) };
                    let doubtful = stat.forked && now_ticks() < stat.instance.start_ticks + YOUNG_TICKS;
                    let found = Found { owner: wanted.owners.len() as u32, doubtful };
                    let (instance, comm) = (stat.instance, stat.comm);
                    let known = Owner { instance, comm, cgroup: None, executable: None, arguments: None };
                    wanted.owners.push(Arc::new(known));
                    *owner.insert(found)
                }
            };
            // of several doubtful ones the first is kept
            if found.doubtful {
                slot.get_or_insert(found);
                continue;
            }
            *slot = Some(found);
            wanted.missing -= 1;
            if wanted.missing == 0 {
                break;
            }
        }
        // the look may have ended early
        let known = self.files.entry(pid).or_default();
        *known = files.max(*known);
        Ok(())
    }
}

/// Since the boot, as starts of processes are told.
fn now_ticks() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec.unsigned_abs() * 100 + now.tv_nsec.unsigned_abs() / 10_000_000
}

struct Unreadable;
