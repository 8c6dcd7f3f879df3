//! What happens in the store while the workbench is open: runs that begin, end or are deleted, and how far unfinished
//! runs are. Other processes write them, so their files are read.

use crate::{Context, kind};
use model::{Failure, Run, RunId};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

/// A change since the last poll.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Change {
    /// The list of runs is another one.
    Runs,
    Progress(RunProgress),
}

/// How far an unfinished run is.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunProgress {
    pub run: String,
    /// Completed cases or flips.
    pub done: u64,
    /// Failing cases, or undetected flips.
    pub failed: u64,
}

/// Bytes that one poll reads from a file; the next poll reads on.
const READ_MAX: u64 = 16 << 20;

#[derive(Default)]
pub struct Watch {
    runs: Vec<(RunId, Option<i64>)>,
    tails: HashMap<RunId, Tail>,
    has_polled: bool,
}

impl Watch {
    /// Reads the list of runs. The first poll reports no change of the list.
    pub async fn poll_runs(&mut self, context: &Context) -> Result<Option<Change>, Failure> {
        let store = context.store().await?;
        let runs = store.list(super::RUNS_MAX).await?;
        let now: Vec<(RunId, Option<i64>)> = runs.iter().map(|run| (run.id, run.end_ms)).collect();
        let has_changed = self.has_polled && now != self.runs;
        self.has_polled = true;
        self.runs = now;
        self.tails.retain(|id, _| runs.iter().any(|run| run.id == *id && run.end_ms.is_none()));
        for run in runs.iter().filter(|run| run.end_ms.is_none()) {
            if !self.tails.contains_key(&run.id)
                && let Some(mut tail) = Tail::of(run, |name| store.dir(run.id).file(name))
            {
                // what is there already is no progress: the run may have been killed long ago
                while tail.advance().is_some() {}
                self.tails.insert(run.id, tail);
            }
        }
        Ok(has_changed.then_some(Change::Runs))
    }

    /// The progress of unfinished runs that advanced since the last poll.
    pub fn poll_progress(&mut self) -> Vec<Change> {
        self.tails.values_mut().filter_map(Tail::advance).map(Change::Progress).collect()
    }
}

/// The end of a file that grows.
struct Tail {
    path: PathBuf,
    failed: &'static str,
    read: u64,
    progress: RunProgress,
}

impl Tail {
    fn of(run: &Run, file: impl Fn(&str) -> PathBuf) -> Option<Tail> {
        let of_kind = kind::find(&run.kind)?.progress_file()?;
        let progress = RunProgress { run: run.id.to_string(), done: 0, failed: 0 };
        Some(Tail { path: file(of_kind.name), failed: of_kind.failed, read: 0, progress })
    }

    /// Counts the lines that were completed since the last call. None if there are none.
    fn advance(&mut self) -> Option<RunProgress> {
        let mut file = File::open(&self.path).ok()?;
        let length = file.metadata().ok()?.len();
        if length < self.read {
            // a resumed sweep has truncated the file
            (self.read, self.progress.done, self.progress.failed) = (0, 0, 0);
        }
        if length == self.read {
            return None;
        }
        file.seek(SeekFrom::Start(self.read)).ok()?;
        let mut bytes = Vec::new();
        file.take(READ_MAX).read_to_end(&mut bytes).ok()?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n')? + 1;
        self.read += whole as u64;
        for line in String::from_utf8_lossy(&bytes[..whole]).lines() {
            self.progress.done += 1;
            self.progress.failed += u64::from(line.contains(self.failed));
        }
        Some(self.progress.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn only_whole_lines_are_counted_once() {
        let path = std::env::temp_dir().join(format!("faultloom-tail-{}", std::process::id()));
        let mut file = File::create(&path).unwrap();
        let progress = RunProgress { run: "r".into(), done: 0, failed: 0 };
        let mut tail = Tail { path: path.clone(), failed: "fail", read: 0, progress };
        assert_eq!(tail.advance(), None);
        file.write_all(b"{\"verdict\":\"pass\"}\n{\"verdict\":\"fail\"}\n{\"ver").unwrap();
        let seen = tail.advance().unwrap();
        assert_eq!((seen.done, seen.failed), (2, 1));
        assert_eq!(tail.advance(), None, "the third line is not complete");
        file.write_all(b"dict\":\"fail\"}\n").unwrap();
        let seen = tail.advance().unwrap();
        assert_eq!((seen.done, seen.failed), (3, 2));
        file.set_len(0).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(b"{\"verdict\":\"pass\"}\n").unwrap();
        let seen = tail.advance().unwrap();
        assert_eq!((seen.done, seen.failed), (1, 0), "the file was cut");
        std::fs::remove_file(path).unwrap();
    }
}
