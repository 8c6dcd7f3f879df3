//! The directory of one run of the program: its working directory and its outputs.

use crate::engine::outputs::{self, CollectedOutput};
use crate::engine_messages::Program;
use crate::tracing::fork::ForkFiles;
use sandbox::Sandbox;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The directory of every run that is not a fork: one at a time, so that all have the same path.
pub const ALONE: &str = "golden";

/// The directory of a fork. Its name is as long as the other, because programs process the path of their directory.
pub fn of_fork(index: usize) -> String {
    format!("fork-{index}")
}

#[derive(Clone, Debug)]
pub struct RunDir {
    /// The output that is compared: standard output, or the shim's records.
    pub main: PathBuf,
    /// Standard output of a program whose records are compared.
    pub stdout: PathBuf,
    pub stderr: PathBuf,
    pub work: PathBuf,
}

impl RunDir {
    /// Creates it with empty outputs and a copy of `files` in the working directory. Replaces what a failed request
    /// left there.
    pub fn create(sandbox: &Sandbox, name: &str, files: &[PathBuf]) -> io::Result<RunDir> {
        let _ = fs::remove_dir_all(sandbox.scratch.join(name));
        let home = sandbox.create_dir(name)?;
        let work = sandbox.create_dir(&format!("{name}/work"))?;
        let [main, stdout, stderr] = ["main", "stdout", "stderr"].map(|name| home.join(name));
        let run_dir = RunDir { main, stdout, stderr, work };
        for path in [&run_dir.main, &run_dir.stdout, &run_dir.stderr] {
            fs::write(path, "")?;
            sandbox.give(path)?;
        }
        for file in files {
            let name = file.file_name().ok_or_else(|| io::Error::other("a file has no name"))?;
            copy(sandbox, file, &run_dir.work.join(name))?;
        }
        Ok(run_dir)
    }

    pub fn collect(&self, bytes: u64) -> io::Result<CollectedOutput> {
        CollectedOutput::read(&self.main, &self.work, bytes)
    }

    pub fn stderr(&self) -> Vec<u8> {
        outputs::stderr(&self.stderr)
    }

    /// The files of a fork that runs here. `current_dir` and `work` are the directories of the process that is forked.
    pub fn fork_files(&self, program: &Program, current_dir: &Path, work: &Path) -> ForkFiles {
        let mut fresh =
            vec![(program.output_descriptor(), self.main.clone()), (libc::STDERR_FILENO, self.stderr.clone())];
        fresh.sort_by_key(|(number, _)| *number);
        let below = current_dir.strip_prefix(work).ok();
        let current_dir = below.map(|below| self.work.join(below).components().collect());
        ForkFiles { work: self.work.clone(), current_dir, fresh }
    }

    /// Replaces the content of its working directory with a copy of another one.
    pub fn reset(&self, sandbox: &Sandbox, work: &Path) -> io::Result<()> {
        empty(&self.work)?;
        copy_all(sandbox, work, &self.work)
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

/// Copies directories and regular files; other files that a program creates are skipped.
fn copy_all(sandbox: &Sandbox, from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            fs::create_dir(&target)?;
            sandbox.give(&target)?;
            copy_all(sandbox, &entry.path(), &target)?;
        } else if kind.is_file() {
            copy(sandbox, &entry.path(), &target)?;
        }
    }
    Ok(())
}

/// The times of a copy are the same in every run: programs such as gzip write them to their output.
fn copy(sandbox: &Sandbox, from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    let mode = fs::metadata(to)?.permissions().mode();
    fs::set_permissions(to, fs::Permissions::from_mode(mode | 0o600))?;
    sandbox::set_start_time(to)?;
    sandbox.give(to)
}
