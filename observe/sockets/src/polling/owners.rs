//! Whose a socket is, by looking through `/proc/PID/fd`.
//!
//! Model: somebody wants the owners of some inodes; processes are looked through, those first that owned something
//! lately, until every inode is found. One process that cannot be read, or ends meanwhile, is passed over and counted;
//! nothing stops the search. Everything of one process is read through its opened folder, which stands for this
//! process even if the pid is given to another one.
//!
//! Needs CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH for processes of other users.

use super::quick::QuickMap;
use crate::Owner;
use crate::identity::procfs::{self, ProcessFolder};
use rustix::fs::{Mode, OFlags, RawDir, openat, readlinkat_raw};
use rustix::io::Errno;
use std::collections::HashSet;
use std::mem::MaybeUninit;

/// So many processes are remembered as worth looking at first.
const MOST_RECENT: usize = 256;

/// Inodes whose owners are wanted, and what was found.
#[derive(Default)]
pub struct Wanted {
    inodes: QuickMap<u32, Option<u32>>,
    missing: usize,
    owners: Vec<Owner>,
}

impl Wanted {
    pub fn add(&mut self, inode: u32) {
        if inode != 0 && self.inodes.insert(inode, None).is_none() {
            self.missing += 1;
        }
    }

    pub fn owner(&self, inode: u32) -> Option<&Owner> {
        self.inodes.get(&inode).copied().flatten().map(|at| &self.owners[at as usize])
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
    }
}

/// Looks through processes; remembers who owned something.
pub struct Owners {
    /// The latest first.
    recent: Vec<u32>,
    entries: Vec<MaybeUninit<u8>>,
}

impl Default for Owners {
    fn default() -> Owners {
        Owners { recent: Vec::new(), entries: vec![MaybeUninit::uninit(); 32 * 1024] }
    }
}

impl Owners {
    /// Finds as many as can be found; returns how many processes could not be read.
    pub fn find(&mut self, wanted: &mut Wanted) -> u64 {
        if wanted.missing == 0 {
            return 0;
        }
        let mut unreadable = 0;
        let mut looked_at = HashSet::new();
        // others are listed only if the recent ones were not enough
        let recent = std::mem::take(&mut self.recent);
        let mut others = Others::default();
        let mut next = recent.iter().copied();
        let mut hits = Vec::new();
        while wanted.missing > 0 {
            let Some(pid) = next.next().or_else(|| others.next()) else { break };
            if !looked_at.insert(pid) {
                continue;
            }
            match self.look_at(pid, wanted) {
                Look::Found => hits.push(pid),
                Look::Nothing => {}
                Look::Unreadable => unreadable += 1,
            }
        }
        let hit: HashSet<u32> = hits.iter().copied().collect();
        self.recent = hits;
        self.recent.extend(recent.into_iter().filter(|pid| !hit.contains(pid)));
        self.recent.truncate(MOST_RECENT);
        unreadable
    }

    fn look_at(&mut self, pid: u32, wanted: &mut Wanted) -> Look {
        let Ok(process) = ProcessFolder::open(pid) else { return Look::Nothing };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = match openat(process.folder(), "fd", flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::ACCESS | Errno::PERM) => return Look::Unreadable,
            Err(_) => return Look::Nothing,
        };
        let mut owner = None;
        let mut entries = RawDir::new(&folder, &mut self.entries);
        // an error ends the folder: the process has ended
        while let Some(Ok(entry)) = entries.next() {
            let mut target = [MaybeUninit::uninit(); 40];
            let target = match readlinkat_raw(&folder, entry.file_name(), &mut target) {
                Ok((target, _)) => target,
                // the folder may be open to us and what is in it not; `.` and `..` are no links
                Err(Errno::ACCESS | Errno::PERM) => return Look::Unreadable,
                Err(_) => continue,
            };
            let Some(inode) = procfs::bracketed(target, b"socket:[") else { continue };
            let Some(slot) = wanted.inodes.get_mut(&(inode as u32)).filter(|slot| slot.is_none()) else { continue };
            if owner.is_none() {
                let Ok(stat) = process.stat() else { return Look::Nothing };
                owner = Some(wanted.owners.len() as u32);
                wanted.owners.push(Owner {
                    instance: stat.instance,
                    comm: stat.comm,
                    cgroup: None,
                    executable: None,
                    arguments: None,
                });
            }
            *slot = owner;
            wanted.missing -= 1;
            if wanted.missing == 0 {
                break;
            }
        }
        if owner.is_some() { Look::Found } else { Look::Nothing }
    }
}

enum Look {
    Found,
    Nothing,
    Unreadable,
}

/// All processes, the newest pid first: those are the likeliest to have opened something new.
#[derive(Default)]
struct Others(Option<Vec<u32>>);

impl Others {
    fn next(&mut self) -> Option<u32> {
        self.0
            .get_or_insert_with(|| {
                let mut pids: Vec<u32> = procfs::pids().collect();
                pids.sort_unstable();
                pids
            })
            .pop()
    }
}
