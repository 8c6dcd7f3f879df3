//! A cgroup of a test, removed on drop.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

pub struct Cgroup {
    /// Outermost first.
    folders: Vec<PathBuf>,
}

impl Cgroup {
    /// Creates a path in the cgroup2 file system; none if that is missing or not writable.
    pub fn make(parts: &[&str]) -> Option<Cgroup> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        let mut path = PathBuf::from(mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?);
        let mut cgroup = Cgroup { folders: Vec::new() };
        for part in parts {
            path.push(part);
            std::fs::create_dir(&path).ok()?;
            cgroup.folders.push(path.clone());
        }
        Some(cgroup)
    }

    fn innermost(&self) -> &PathBuf {
        self.folders.last().expect("it has a folder")
    }

    pub fn take(&self, pid: u32) -> bool {
        std::fs::write(self.innermost().join("cgroup.procs"), pid.to_string()).is_ok()
    }

    pub fn id(&self) -> u64 {
        std::fs::metadata(self.innermost()).expect("it exists").ino()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for folder in self.folders.iter().rev() {
            // a process that is just ending may still be in it
            for _ in 0..200 {
                if std::fs::remove_dir(folder).is_ok() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    }
}
