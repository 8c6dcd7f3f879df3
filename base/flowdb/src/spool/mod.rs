//! Queue of windows on disk for the time while the database is unavailable or slow: a directory of append-only files,
//! each deleted when all its windows are recorded.
//!
//! - An appended window survives the end of the process at once, and a power failure after a second.
//! - An incomplete record is ignored.
//! - Windows are returned in order. After a restart, windows of a file that was not deleted are returned again; the
//!   database skips windows that it already has.
//! - Above the size limit the oldest file is deleted. Its services, listeners and losses are carried over to the next
//!   window that is appended. The caller counts the deleted windows, see [`Spool::dropped`].

mod carryover;
mod record;
mod rejected;
mod spool_file;
mod varint;

use carryover::Carryover;
use flows::Window;
use model::Failure;
pub use rejected::REFUSED;
use spool_file::{Appender, Scanner, SpoolFile};
use std::collections::VecDeque;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Enough for one hour of an agent with 1,000 services and 5,000 flows that change every second.
pub const DEFAULT_LIMIT_BYTES: u64 = 256 << 20;
/// Number of files into which the limit is divided; one file is dropped at a time.
const FILES: u64 = 16;
/// Maximum number of distinct parts per file, which bounds memory.
const PARTS_MAX: usize = 50_000;
/// Maximum number of flows to read ahead; at least one window is read.
const READ_AHEAD_FLOWS: usize = 20_000;
/// Maximum size of the file that an empty spool keeps.
const IDLE_BYTES: u64 = 4 << 20;
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

pub struct Spool {
    directory: PathBuf,
    limit_bytes: u64,
    /// Complete files, oldest first, without the one that is appended to.
    files: VecDeque<SpoolFile>,
    appender: Option<Appender>,
    scanner: Option<Scanner>,
    /// Windows that were read and not removed yet, with their numbers.
    read_ahead: VecDeque<(u64, Window)>,
    /// Number of the oldest window that was not read yet.
    unread: u64,
    /// Number of the next window to be appended.
    next: u64,
    dropped: u64,
    carryover: Carryover,
    synced: Instant,
}

impl Spool {
    /// Opens a directory and creates it if necessary. Only one spool may use it at a time.
    ///
    /// # Errors
    /// The directory cannot be created, read or written.
    pub fn open(directory: &Path, limit_bytes: u64) -> Result<Spool, Failure> {
        Spool::open_at(directory, limit_bytes).map_err(|e| unusable(directory, "opened", &e))
    }

    fn open_at(directory: &Path, limit_bytes: u64) -> Result<Spool, Error> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let mut files: VecDeque<SpoolFile> = SpoolFile::list(directory)?.into();
        let mut next = 1;
        if let Some(last) = files.back() {
            next = last.first + spool_file::count(directory, last.first)?;
            if next == last.first {
                std::fs::remove_file(last.path(directory))?;
                files.pop_back();
            }
        }
        let unread = files.front().map_or(next, |first| first.first);
        Ok(Spool {
            directory: directory.to_owned(),
            limit_bytes,
            files,
            appender: None,
            scanner: None,
            read_ahead: VecDeque::new(),
            unread,
            next,
            dropped: 0,
            carryover: Carryover::default(),
            synced: Instant::now(),
        })
    }

    /// Appends a window.
    ///
    /// # Errors
    /// The disk is full or fails. The window is lost: the caller counts it and the lost windows that it recorded. Its
    /// other data is carried over to the next window.
    pub fn append(&mut self, window: &Window) -> Result<(), Failure> {
        let extended = self.carryover.extend(window);
        match self.write(extended.as_ref().unwrap_or(window)) {
            Ok(()) => {
                self.next += 1;
                self.carryover = Carryover::default();
                self.enforce_limit().map_err(|e| unusable(&self.directory, "truncated", &e))
            }
            Err(e) => {
                // later records may refer to parts of this one, so they go into another file
                self.close_appender();
                self.carryover.add_without_lost_windows(window);
                Err(unusable(&self.directory, "written", &e))
            }
        }
    }

    fn write(&mut self, window: &Window) -> Result<(), Error> {
        let file_limit = self.limit_bytes / FILES;
        if self.appender.as_ref().is_some_and(|a| a.spool_file.bytes >= file_limit || a.parts() >= PARTS_MAX) {
            self.sync()?;
            self.close_appender();
        }
        let mut appender = match self.appender.take() {
            Some(appender) => appender,
            None => Appender::create(&self.directory, self.next)?,
        };
        let appended = appender.append(window);
        self.appender = Some(appender);
        appended?;
        if self.synced.elapsed() >= SYNC_INTERVAL {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.synced = Instant::now();
        self.appender.as_ref().map_or(Ok(()), Appender::sync)
    }

    fn close_appender(&mut self) {
        let Some(appender) = self.appender.take() else { return };
        if appender.spool_file.first < self.next {
            self.files.push_back(appender.spool_file);
        } else {
            // it contains no complete record
            let _ = std::fs::remove_file(appender.spool_file.path(&self.directory));
        }
    }

    /// Drops the oldest files until the rest is within the limit.
    fn enforce_limit(&mut self) -> Result<(), Error> {
        while self.bytes() > self.limit_bytes
            && let Some(oldest) = self.files.pop_front()
        {
            let end =
                self.files.front().or(self.appender.as_ref().map(|a| &a.spool_file)).map_or(self.next, |s| s.first);
            if self.unread < end {
                self.carry_over(&oldest);
                self.dropped += end - self.unread;
                self.unread = end;
                self.scanner = None;
            }
            std::fs::remove_file(oldest.path(&self.directory))?;
        }
        Ok(())
    }

    /// Reads the remaining windows of a file that is dropped, for data that later windows refer to.
    fn carry_over(&mut self, oldest: &SpoolFile) {
        let Ok(mut scanner) = Scanner::open(&self.directory, oldest.first) else { return };
        while let Ok(Some(window)) = scanner.window() {
            if scanner.next > self.unread {
                self.carryover.add(&window);
            }
        }
    }

    /// At most `max` of the oldest windows, the same until [`Spool::remove`] is called. Fewer if they are large.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn oldest(&mut self, max: usize) -> Result<Vec<Window>, Failure> {
        let read = self.fill_read_ahead(max);
        read.map_err(|e| unusable(&self.directory, "read", &e))?;
        Ok(self.read_ahead.iter().take(max).map(|(_, window)| window.clone()).collect())
    }

    fn fill_read_ahead(&mut self, max: usize) -> Result<(), Error> {
        let mut flows: usize = self.read_ahead.iter().map(|(_, window)| window.flows.len()).sum();
        while self.read_ahead.len() < max && flows < READ_AHEAD_FLOWS && self.unread < self.next {
            match self.read()? {
                Some(window) => {
                    flows += window.flows.len();
                    self.read_ahead.push_back((self.unread, window));
                    self.unread += 1;
                }
                // the rest of the file is damaged
                None => self.skip_to_next_file(),
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Option<Window>, Error> {
        let first = self.file_of(self.unread).first;
        if self.scanner.as_ref().is_none_or(|scanner| scanner.first != first) {
            self.scanner = Some(Scanner::open(&self.directory, first)?);
        }
        let Some(scanner) = &mut self.scanner else { return Ok(None) };
        loop {
            match scanner.window() {
                Ok(Some(_)) if scanner.next <= self.unread => {}
                Ok(window) => return Ok(window),
                Err(e) if e.kind() == ErrorKind::InvalidData => return Ok(None),
                Err(e) => return Err(e),
            }
        }
    }

    /// The file that contains a window.
    fn file_of(&self, number: u64) -> SpoolFile {
        let all = self.files.iter().chain(self.appender.as_ref().map(|a| &a.spool_file));
        let found = all.rev().find(|file| file.first <= number);
        found.cloned().unwrap_or(SpoolFile { first: number, bytes: 0 })
    }

    fn skip_to_next_file(&mut self) {
        let later = self.files.iter().chain(self.appender.as_ref().map(|a| &a.spool_file));
        let next = later.map(|file| file.first).find(|first| *first > self.unread).unwrap_or(self.next);
        self.dropped += next - self.unread;
        self.unread = next;
        self.scanner = None;
    }

    /// Removes the oldest `count` windows.
    ///
    /// # Errors
    /// A file cannot be deleted; its windows are returned again after a restart.
    pub fn remove(&mut self, count: usize) -> Result<(), Failure> {
        self.read_ahead.drain(..count.min(self.read_ahead.len()));
        let oldest = self.read_ahead.front().map_or(self.unread, |(number, _)| *number);
        // keep a small file, whose parts later windows can refer to; a large one would be sent again after a restart
        if oldest == self.next && self.appender.as_ref().is_some_and(|a| a.spool_file.bytes > IDLE_BYTES) {
            self.close_appender();
        }
        while let Some(file) = self.files.front() {
            let end =
                self.files.get(1).or(self.appender.as_ref().map(|a| &a.spool_file)).map_or(self.next, |s| s.first);
            if end > oldest {
                break;
            }
            std::fs::remove_file(file.path(&self.directory)).map_err(|e| unusable(&self.directory, "truncated", &e))?;
            self.files.pop_front();
        }
        Ok(())
    }

    /// Drops the oldest window, because the database rejects its content. Appends it to the file [`REFUSED`] if that
    /// has room. Its losses are carried over to the next window, but not its services and listeners, which may be the
    /// rejected part.
    ///
    /// # Errors
    /// A file cannot be written or deleted. The window is dropped anyway.
    pub fn reject_oldest(&mut self) -> Result<(), Failure> {
        let Some((_, window)) = self.read_ahead.front() else { return Ok(()) };
        let stored = rejected::append(&self.directory, window);
        self.carryover.add_losses(&window.losses);
        self.dropped += 1;
        let removed = self.remove(1);
        stored.map_err(|e| unusable(&self.directory.join(REFUSED), "written", &e)).and(removed)
    }

    /// Number of windows in the spool.
    pub fn waiting(&self) -> u64 {
        self.read_ahead.len() as u64 + self.next - self.unread
    }

    /// Number of windows dropped or damaged since the spool was opened.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    pub fn bytes(&self) -> u64 {
        let all = self.files.iter().chain(self.appender.as_ref().map(|a| &a.spool_file));
        all.map(|file| file.bytes).sum()
    }
}

impl Drop for Spool {
    /// Deletes the files of an empty spool.
    fn drop(&mut self) {
        if self.waiting() == 0 {
            self.close_appender();
            for file in &self.files {
                let _ = std::fs::remove_file(file.path(&self.directory));
            }
        }
    }
}

fn unusable(directory: &Path, operation: &str, error: &Error) -> Failure {
    let failure =
        Failure::environment(format!("the spool {} cannot be {operation}", directory.display())).why(error.to_string());
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => failure.next("free some space; lost windows are counted"),
        _ => failure.next("check its directory and disk; lost windows are counted"),
    }
}
