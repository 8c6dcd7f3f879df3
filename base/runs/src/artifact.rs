//! The folder of a run: files that appear as a whole by rename, and files of records that are only appended to.

use crate::private;
use model::Failure;
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// A run's folder. While it is locked, no other process works on this run.
pub struct RunDir {
    path: PathBuf,
    lock: Option<File>,
}

fn failed(what: &str, path: &Path, e: &std::io::Error) -> Failure {
    let failure = Failure::environment(format!("{} cannot be {what}: {e}", path.display()));
    if e.kind() == std::io::ErrorKind::StorageFull {
        failure.next("the disk is full: free some space; what was written before is safe")
    } else {
        failure
    }
}

impl RunDir {
    pub(crate) fn create(path: &Path) -> Result<RunDir, Failure> {
        private::create_directory(path).map_err(|e| failed("created", path, &e))?;
        let dir = RunDir::existing(path).lock()?;
        // another process may have removed the folder as an orphan before it was locked
        if !dir.file("lock").exists() {
            return Err(
                Failure::environment(format!("{} was removed by another process", path.display())).next("try again")
            );
        }
        Ok(dir)
    }

    pub(crate) fn existing(path: &Path) -> RunDir {
        RunDir { path: path.to_owned(), lock: None }
    }

    /// Environment failure if another process has locked the run.
    pub fn lock(mut self) -> Result<RunDir, Failure> {
        let path = self.path.join("lock");
        let file = private::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|e| failed("opened", &path, &e))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            Failure::environment(format!("another process is working on the run in {}", self.path.display()))
                .next("wait for it, or stop it with Ctrl-C")
        })?;
        self.lock = Some(file);
        Ok(self)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a whole artifact; it appears by rename.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, Failure> {
        let path = self.file(name);
        let partial = self.file(&format!(".{name}.partial"));
        let create = || private::options().create(true).truncate(true).write(true).open(&partial);
        let written = create().and_then(|mut f| f.write_all(bytes).and_then(|()| f.sync_data()));
        written.map_err(|e| failed("written", &partial, &e))?;
        std::fs::rename(&partial, &path).map_err(|e| failed("published", &path, &e))?;
        Ok(path)
    }

    pub fn write_json(&self, name: &str, value: &impl Serialize) -> Result<PathBuf, Failure> {
        let bytes = serde_json::to_vec(value).map_err(|e| Failure::new(model::Family::Bug, format!("{name}: {e}")))?;
        self.write(name, &bytes)
    }

    pub fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<T, Failure> {
        let path = self.file(name);
        let bytes = std::fs::read(&path).map_err(|e| failed("read", &path, &e))?;
        serde_json::from_slice(&bytes).map_err(|e| Failure::environment(format!("{} is damaged: {e}", path.display())))
    }

    /// Opens a file of records for appending. A line that a crash cut off is dropped first.
    pub fn append_file(&self, name: &str) -> Result<AppendFile, Failure> {
        let path = self.file(name);
        let whole = match std::fs::read(&path) {
            Ok(bytes) => bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1),
            Err(_) => 0,
        };
        let file = private::options().create(true).append(true).open(&path).map_err(|e| failed("opened", &path, &e))?;
        file.set_len(whole as u64).map_err(|e| failed("repaired", &path, &e))?;
        Ok(AppendFile { file, path })
    }

    /// The records of an append file, in order. A record cut off by a crash is left out.
    pub fn records<T: DeserializeOwned>(&self, name: &str) -> Result<Vec<T>, Failure> {
        let mut records = Vec::new();
        self.each_record(name, |record| records.push(record))?;
        Ok(records)
    }

    /// The first records of an append file: those within `bytes_max`, at least one. Also returns how many follow.
    pub fn first_records<T: DeserializeOwned>(&self, name: &str, bytes_max: u64) -> Result<(Vec<T>, u64), Failure> {
        let (mut records, mut bytes, mut left_out) = (Vec::new(), 0, 0);
        self.each_line(name, |line, number| {
            bytes += line.len() as u64;
            if bytes > bytes_max && !records.is_empty() {
                left_out += 1;
                return Ok(());
            }
            records.push(self.record(name, line, number)?);
            Ok(())
        })?;
        Ok((records, left_out))
    }

    fn record<T: DeserializeOwned>(&self, name: &str, line: &str, number: u64) -> Result<T, Failure> {
        serde_json::from_str(line)
            .map_err(|e| Failure::environment(format!("{}, record {number}: {e}", self.file(name).display())))
    }

    /// As [`RunDir::records`], one by one, for files that may not fit into memory.
    pub fn each_record<T: DeserializeOwned>(&self, name: &str, mut take: impl FnMut(T)) -> Result<(), Failure> {
        self.each_line(name, |line, number| self.record(name, line, number).map(&mut take))
    }

    /// Whole lines with their numbers from 1.
    fn each_line(&self, name: &str, mut take: impl FnMut(&str, u64) -> Result<(), Failure>) -> Result<(), Failure> {
        let path = self.file(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(failed("read", &path, &e)),
        };
        let mut lines = BufReader::new(file);
        let mut line = String::new();
        for number in 1.. {
            line.clear();
            let n = lines.read_line(&mut line).map_err(|e| failed("read", &path, &e))?;
            if n == 0 || !line.ends_with('\n') {
                break;
            }
            take(&line, number)?;
        }
        Ok(())
    }
}

/// An append-only file of JSON lines.
pub struct AppendFile {
    file: File,
    path: PathBuf,
}

impl AppendFile {
    /// Appends records with one write; on an error nothing of an earlier append is lost.
    pub fn append<T: Serialize>(&mut self, records: &[T]) -> Result<(), Failure> {
        let mut bytes = Vec::with_capacity(records.len() * 96);
        for record in records {
            serde_json::to_writer(&mut bytes, record).map_err(|e| Failure::new(model::Family::Bug, e.to_string()))?;
            bytes.push(b'\n');
        }
        self.file.write_all(&bytes).map_err(|e| failed("written", &self.path, &e))
    }

    /// Waits until everything appended is on the disk.
    pub fn sync(&self) -> Result<(), Failure> {
        self.file.sync_data().map_err(|e| failed("written", &self.path, &e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_cut_off_by_a_crash_is_dropped_and_written_again() {
        let path = std::env::temp_dir().join(format!("faultloom-append-{}", std::process::id()));
        let dir = RunDir::create(&path).unwrap();
        dir.append_file("cases").unwrap().append(&[1u32, 2]).unwrap();
        File::options().append(true).open(dir.file("cases")).unwrap().write_all(b"3").unwrap();
        assert_eq!(dir.records::<u32>("cases").unwrap(), [1, 2]);
        dir.append_file("cases").unwrap().append(&[4u32]).unwrap();
        assert_eq!(dir.records::<u32>("cases").unwrap(), [1, 2, 4]);
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn the_first_records_are_at_least_one_and_the_others_are_counted() {
        let path = std::env::temp_dir().join(format!("faultloom-first-{}", std::process::id()));
        let dir = RunDir::create(&path).unwrap();
        dir.append_file("n").unwrap().append(&[100_000u32, 1, 2, 3]).unwrap();
        assert_eq!(dir.first_records::<u32>("n", 1).unwrap(), (vec![100_000], 3));
        assert_eq!(dir.first_records::<u32>("n", 11).unwrap(), (vec![100_000, 1, 2], 1));
        assert_eq!(dir.first_records::<u32>("n", 99).unwrap(), (vec![100_000, 1, 2, 3], 0));
        assert_eq!(dir.first_records::<u32>("absent", 99).unwrap(), (vec![], 0));
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_run_can_be_locked_once() {
        let path = std::env::temp_dir().join(format!("faultloom-lock-{}", std::process::id()));
        let first = RunDir::create(&path).unwrap();
        let failure = RunDir::existing(&path).lock().err().unwrap();
        assert!(failure.to_string().contains("another process"), "{failure}");
        drop(first);
        RunDir::existing(&path).lock().unwrap();
        std::fs::remove_dir_all(path).unwrap();
    }
}
