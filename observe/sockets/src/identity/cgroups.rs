//! Paths of cgroups by their number, which is the inode of their folder in the cgroup2 file system.
//!
//! Needed for processes that have ended, or may not be read. The folders are walked when a number is asked for that is not
//! known, and for one that is nowhere less and less often: its cgroup has ended too.

use std::collections::HashMap;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const MOST_PATHS: usize = 65_536;
/// A walk takes about a millisecond per hundred folders; it is done at most this often.
const WALK_EVERY: Duration = Duration::from_millis(500);
const DEEPEST: usize = 32;

pub struct Cgroups {
    mount: Option<PathBuf>,
    paths: HashMap<u64, String>,
    walked: Option<Instant>,
}

impl Cgroups {
    /// Of the file system mounted on this host. Where there is none (cgroup version 1 only), nothing is ever known.
    pub fn of_this_host() -> Cgroups {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Cgroups::below(mounts.lines().find_map(mount_point))
    }

    fn below(mount: Option<PathBuf>) -> Cgroups {
        Cgroups { mount, paths: HashMap::new(), walked: None }
    }

    /// As it stands in `/proc/PID/cgroup`, beginning with `/`.
    pub fn path(&mut self, id: u64) -> Option<String> {
        if !self.paths.contains_key(&id) && self.walked.is_none_or(|when| when.elapsed() >= WALK_EVERY) {
            self.walk();
        }
        self.paths.get(&id).cloned()
    }

    /// Paths of cgroups that have ended are kept while there is room: their last processes may be told of later.
    fn walk(&mut self) {
        self.walked = Some(Instant::now());
        let Some(mount) = self.mount.clone() else { return };
        let mut found = HashMap::new();
        walk(&mount, "", DEEPEST, &mut found);
        if self.paths.len() + found.len() > MOST_PATHS {
            self.paths.clear();
        }
        self.paths.extend(found);
    }
}

fn walk(folder: &Path, path: &str, deeper: usize, found: &mut HashMap<u64, String>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if deeper == 0 || found.len() >= MOST_PATHS {
            return;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let path = format!("{path}/{}", entry.file_name().to_string_lossy());
            walk(&entry.path(), &path, deeper - 1, found);
            found.insert(entry.ino(), path);
        }
    }
}

/// The mount point in a line of `mountinfo`, if a cgroup2 file system is mounted there as a whole.
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
    fn the_mount_is_looked_up() {
        let line = "31 24 0:27 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate";
        assert_eq!(mount_point(line), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(mount_point("32 24 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"), None);
    }

    #[test]
    fn folders_are_known_by_their_number() {
        let root = std::env::temp_dir().join(format!("faultloom-cgroups-{}", std::process::id()));
        let inner = root.join("system.slice/nginx.service");
        std::fs::create_dir_all(&inner).unwrap();
        let id = std::fs::metadata(&inner).unwrap().ino();
        let mut cgroups = Cgroups::below(Some(root.clone()));
        assert_eq!(cgroups.path(id).as_deref(), Some("/system.slice/nginx.service"));
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(cgroups.path(id).as_deref(), Some("/system.slice/nginx.service"), "it has ended, its name is known");
        assert_eq!(cgroups.path(u64::MAX), None);
        assert_eq!(Cgroups::below(None).path(id), None);
    }
}
