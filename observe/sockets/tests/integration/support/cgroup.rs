//! A cgroup of a test, removed on drop.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

pub struct Cgroup {
    /// Outermost first.
    directories: Vec<PathBuf>,
}

impl Cgroup {
    /// Creates a path in the cgroup2 file system; none if that is missing or not writable.
    pub fn create(parts: &[&str]) -> Option<Cgroup> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        let mut path = PathBuf::from(mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?);
        let mut cgroup = Cgroup { directories: Vec::new() };
        for part in parts {
            path.push(part);
            std::fs::create_dir(&path).ok()?;
            cgroup.directories.push(path.clone());
        }
        Some(cgroup)
    }

    fn innermost(&self) -> &PathBuf {
        self.directories.last().expect("it has a directory")
    }

    pub fn move_process(&self, pid: u32) -> bool {
        std::fs::write(self.innermost().join("cgroup.procs"), pid.to_string()).is_ok()
    }

    pub fn id(&self) -> u64 {
        std::fs::metadata(self.innermost()).expect("it exists").ino()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for directory in self.directories.iter().rev() {
            // a process that is just ending may still be in it
            for _ in 0..200 {
                if std::fs::remove_dir(directory).is_ok() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    }
}
