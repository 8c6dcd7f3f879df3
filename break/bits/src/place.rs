//! The directories in which runs of the program work and write.

use crate::contain::Contained;
use crate::fork::Slot;
use crate::outputs::{self, Collected};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The descriptor to which the replay shim writes its records.
pub const RECORDS: i32 = 3;

/// One run's directory: what it wrote, and where it worked.
#[derive(Clone, Debug)]
pub struct Room {
    /// What is compared: standard output, or the shim's records.
    pub main: PathBuf,
    /// Standard output of a program whose records are compared.
    pub stdout: PathBuf,
    pub stderr: PathBuf,
    pub work: PathBuf,
}

impl Room {
    /// With empty files and the given ones in its working directory. What a failed request left there is gone.
    pub fn create(contained: &Contained, name: &str, files: &[PathBuf]) -> io::Result<Room> {
        let _ = fs::remove_dir_all(contained.scratch.join(name));
        let home = contained.directory(name)?;
        let work = contained.directory(&format!("{name}/work"))?;
        let [main, stdout, stderr] = ["main", "stdout", "stderr"].map(|name| home.join(name));
        let room = Room { main, stdout, stderr, work };
        for path in [&room.main, &room.stdout, &room.stderr] {
            fs::write(path, "")?;
            contained.give(path)?;
        }
        for file in files {
            let name = file.file_name().ok_or_else(|| io::Error::other("a file without a name"))?;
            copy(contained, file, &room.work.join(name))?;
        }
        Ok(room)
    }

    pub fn collected(&self, bytes: u64) -> io::Result<Collected> {
        Collected::of(&self.main, &self.work, bytes)
    }

    pub fn stderr(&self) -> Vec<u8> {
        outputs::stderr(&self.stderr)
    }

    /// What a fork of another room's process writes to instead. `there` is where that process stands, `like` its room's directory.
    pub fn slot(&self, replay: bool, there: &Path, like: &Path) -> Slot {
        let main = if replay { RECORDS } else { libc::STDOUT_FILENO };
        let mut fresh = vec![(main, self.main.clone()), (libc::STDERR_FILENO, self.stderr.clone())];
        fresh.sort_by_key(|(number, _)| *number);
        let stands = there.strip_prefix(like).ok().map(|below| self.work.join(below).components().collect());
        Slot { work: self.work.clone(), stands, fresh }
    }

    /// As it was made, with a copy of another's working directory.
    pub fn reset(&self, contained: &Contained, like: &Path) -> io::Result<()> {
        empty(&self.work)?;
        copy_all(contained, like, &self.work)
    }

    pub fn remove(&self) {
        if let Some(home) = self.main.parent() {
            let _ = fs::remove_dir_all(home);
        }
    }
}

fn empty(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

/// Directories and regular files; whatever else a program makes there is not copied.
fn copy_all(contained: &Contained, from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            fs::create_dir(&target)?;
            contained.give(&target)?;
            copy_all(contained, &entry.path(), &target)?;
        } else if kind.is_file() {
            copy(contained, &entry.path(), &target)?;
        }
    }
    Ok(())
}

fn copy(contained: &Contained, from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    let mode = fs::metadata(to)?.permissions().mode();
    fs::set_permissions(to, fs::Permissions::from_mode(mode | 0o600))?;
    contained.give(to)
}
