//! Paths of cgroups by id, which is the inode number of their directory in the cgroup2 file system.
//!
//! Needed for processes that have ended or are not readable. An unknown id causes a walk over the directories, at most
//! once per interval.

use std::collections::HashMap;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PATHS_MAX: usize = 65_536;
/// Minimum interval between walks. A walk takes about 1 ms per 100 directories.
const WALK_INTERVAL: Duration = Duration::from_millis(500);
const DEPTH_MAX: usize = 32;

pub struct CgroupIndex {
    mount: Option<PathBuf>,
    paths: HashMap<u64, String>,
    last_walk: Option<Instant>,
}

impl CgroupIndex {
    /// Uses the file system mounted on this host. Without one (cgroup version 1 only) every lookup returns none.
    pub fn of_this_host() -> CgroupIndex {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        CgroupIndex::at(mounts.lines().find_map(mount_point))
    }

    fn at(mount: Option<PathBuf>) -> CgroupIndex {
        CgroupIndex { mount, paths: HashMap::new(), last_walk: None }
    }

    /// The path as in `/proc/PID/cgroup`, starting with `/`.
    pub fn path(&mut self, id: u64) -> Option<String> {
        if !self.paths.contains_key(&id) && self.last_walk.is_none_or(|when| when.elapsed() >= WALK_INTERVAL) {
            self.walk();
        }
        self.paths.get(&id).cloned()
    }

    /// Paths of removed cgroups are kept while there is room: their last processes may be reported later.
    fn walk(&mut self) {
        self.last_walk = Some(Instant::now());
        let Some(mount) = self.mount.clone() else { return };
        let mut found = HashMap::new();
        walk(&mount, "", DEPTH_MAX, &mut found);
        if self.paths.len() + found.len() > PATHS_MAX {
            self.paths.clear();
        }
        self.paths.extend(found);
    }
}

fn walk(directory: &Path, path: &str, depth: usize, found: &mut HashMap<u64, String>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if depth == 0 || found.len() >= PATHS_MAX {
            return;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let path = format!("{path}/{}", entry.file_name().to_string_lossy());
            walk(&entry.path(), &path, depth - 1, found);
            found.insert(entry.ino(), path);
        }
    }
}

/// The mount point in a line of `mountinfo`, if it is the root of a cgroup2 file system.
fn mount_point(line: &str) -> Option<PathBuf> {
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split(' ').skip(3);
    let root = fields.next()?;
    (after.starts_with("cgroup2 ") && root == "/").then_some(())?;
    fields.next().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_mount_is_found() {
        let line = "31 24 0:27 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate";
        assert_eq!(mount_point(line), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(mount_point("32 24 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"), None);
    }

    #[test]
    fn directories_are_found_by_inode() {
        let root = std::env::temp_dir().join(format!("faultloom-cgroups-{}", std::process::id()));
        let inner = root.join("system.slice/nginx.service");
        std::fs::create_dir_all(&inner).unwrap();
        let id = std::fs::metadata(&inner).unwrap().ino();
        let mut cgroups = CgroupIndex::at(Some(root.clone()));
        assert_eq!(cgroups.path(id).as_deref(), Some("/system.slice/nginx.service"));
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(
            cgroups.path(id).as_deref(),
            Some("/system.slice/nginx.service"),
            "the path of a removed cgroup is kept"
        );
        assert_eq!(cgroups.path(u64::MAX), None);
        assert_eq!(CgroupIndex::at(None).path(id), None);
    }
}
