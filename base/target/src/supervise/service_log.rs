//! A service's log: one file, appended over restarts, and the last lines of the latest start for messages.

use crate::state::atomic_file::{self, cannot_write};
use model::Failure;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The number of lines in messages.
const TAIL_LINES: usize = 10;
const TAIL_BYTES: u64 = 16 * 1024;
const LINE_CHARS: usize = 200;

/// The part of a log file that belongs to one start of the service.
#[derive(Clone, Debug)]
pub(crate) struct ServiceLog {
    pub path: PathBuf,
    begin: u64,
}

impl ServiceLog {
    /// Opens for appending. Returns the log and two handles, for standard output and standard error.
    pub fn open(path: PathBuf) -> Result<(ServiceLog, File, File), Failure> {
        let file = atomic_file::private().append(true).create(true).open(&path);
        let file = file.map_err(|error| cannot_write(&path, &error))?;
        let second = file.try_clone().map_err(|error| cannot_write(&path, &error))?;
        let begin = file.metadata().map_or(0, |data| data.len());
        Ok((ServiceLog { path, begin }, file, second))
    }

    /// The last lines of this start, at most 10, each at most 200 characters.
    pub fn tail(&self) -> Vec<String> {
        read_tail(&self.path, self.begin).unwrap_or_default()
    }

    /// The same as text for a message: the path, then the lines.
    pub fn tail_text(&self) -> String {
        let tail = self.tail();
        match tail.is_empty() {
            true => format!("it wrote nothing to its log {}", self.path.display()),
            false => format!("its log ends ({}):\n  {}", self.path.display(), tail.join("\n  ")),
        }
    }
}

fn read_tail(path: &Path, begin: u64) -> std::io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let from = begin.max(length.saturating_sub(TAIL_BYTES));
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let printable = |c: &char| !c.is_control() || *c == '\t';
    let shorten = |line: &&str| line.chars().filter(printable).take(LINE_CHARS).collect();
    Ok(lines[lines.len().saturating_sub(TAIL_LINES)..].iter().map(shorten).collect())
}
