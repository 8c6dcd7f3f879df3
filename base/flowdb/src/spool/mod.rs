//! Where windows wait while the database is down, full or slow: a folder of files that only grow, deleted as a whole when what they hold
//! was recorded.
//!
//! - What was appended survives the end of this process at once, and a loss of power after a second.
//! - A record that was not written whole is left out, as if it had never been appended.
//! - Windows come back in their order, and again after a restart if their file was not deleted: the database knows which it has.
//! - At the bound the oldest file goes. What its windows told of services, listeners and earlier losses goes over to the next window
//!   that is appended; that they are lost is for whoever appends to tell, see [`Spool::dropped`].

mod aside;
mod bytes;
mod legacy;
mod record;
mod segment;

pub use aside::REFUSED;
use flows::Window;
use legacy::Legacy;
use model::Failure;
use segment::{Appender, Scanner, Segment};
use std::collections::VecDeque;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// An hour of an agent with a thousand services and five thousand flows, which change every second.
pub const DEFAULT_LIMIT_BYTES: u64 = 256 << 20;
/// A limit is divided into so many files: that is how much is dropped at once.
const SEGMENTS: u64 = 16;
/// So many parts of windows are known of a file, which bounds memory.
const MOST_PARTS: usize = 50_000;
/// So many flows are read ahead, or one window.
const AHEAD_FLOWS: usize = 20_000;
/// An empty spool may keep a file of so many bytes.
const IDLE_BYTES: u64 = 4 << 20;
const SYNC_PAUSE: Duration = Duration::from_secs(1);

pub struct Spool {
    folder: PathBuf,
    limit_bytes: u64,
    /// Complete ones, the oldest first; the one that is appended to is not among them.
    segments: VecDeque<Segment>,
    appender: Option<Appender>,
    scanner: Option<Scanner>,
    /// Windows that were read and not yet taken, with the number of each.
    ahead: VecDeque<(u64, Window)>,
    /// Number of the oldest window that was not read yet, and of the next that will be appended.
    unread: u64,
    next: u64,
    dropped: u64,
    legacy: Legacy,
    synced: Instant,
}

impl Spool {
    /// Opens a folder, made if there is none. One spool at a time may have it.
    ///
    /// # Errors
    /// The folder cannot be made, read or written.
    pub fn open(folder: &Path, limit_bytes: u64) -> Result<Spool, Failure> {
        Spool::open_at(folder, limit_bytes).map_err(|e| broken(folder, "opened", &e))
    }

    fn open_at(folder: &Path, limit_bytes: u64) -> Result<Spool, Error> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut segments: VecDeque<Segment> = Segment::list(folder)?.into();
        let mut next = 1;
        if let Some(last) = segments.back() {
            next = last.first + segment::count(folder, last.first)?;
            if next == last.first {
                std::fs::remove_file(last.path(folder))?;
                segments.pop_back();
            }
        }
        let unread = segments.front().map_or(next, |first| first.first);
        Ok(Spool {
            folder: folder.to_owned(),
            limit_bytes,
            segments,
            appender: None,
            scanner: None,
            ahead: VecDeque::new(),
            unread,
            next,
            dropped: 0,
            legacy: Legacy::default(),
            synced: Instant::now(),
        })
    }

    /// Appends a window.
    ///
    /// # Errors
    /// The disk is full or broken. The window is then lost: whoever appends counts it, with the lost windows it told of; what else it told goes
    /// over to the next one.
    pub fn append(&mut self, window: &Window) -> Result<(), Failure> {
        let with_legacy = self.legacy.with(window);
        match self.write(with_legacy.as_ref().unwrap_or(window)) {
            Ok(()) => {
                self.next += 1;
                self.legacy = Legacy::default();
                self.keep_bound().map_err(|e| broken(&self.folder, "shortened", &e))
            }
            Err(e) => {
                // what the record would have brought is missing to later ones: they go into another file
                self.close_appender();
                self.legacy.add_untold(window);
                Err(broken(&self.folder, "written", &e))
            }
        }
    }

    fn write(&mut self, window: &Window) -> Result<(), Error> {
        let most = self.limit_bytes / SEGMENTS;
        if self.appender.as_ref().is_some_and(|a| a.segment.bytes >= most || a.parts() >= MOST_PARTS) {
            self.sync()?;
            self.close_appender();
        }
        let mut appender = match self.appender.take() {
            Some(appender) => appender,
            None => Appender::create(&self.folder, self.next)?,
        };
        let appended = appender.append(window);
        self.appender = Some(appender);
        appended?;
        if self.synced.elapsed() >= SYNC_PAUSE {
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
        if appender.segment.first < self.next {
            self.segments.push_back(appender.segment);
        } else {
            // nothing whole is in it
            let _ = std::fs::remove_file(appender.segment.path(&self.folder));
        }
    }

    /// Drops the oldest files until the rest keeps the limit.
    fn keep_bound(&mut self) -> Result<(), Error> {
        while self.bytes() > self.limit_bytes
            && let Some(oldest) = self.segments.pop_front()
        {
            let end =
                self.segments.front().or(self.appender.as_ref().map(|a| &a.segment)).map_or(self.next, |s| s.first);
            if self.unread < end {
                self.inherit(&oldest);
                self.dropped += end - self.unread;
                self.unread = end;
                self.scanner = None;
            }
            std::fs::remove_file(oldest.path(&self.folder))?;
        }
        Ok(())
    }

    /// Reads what was not read yet of a file that goes, for what later windows build on.
    fn inherit(&mut self, oldest: &Segment) {
        let Ok(mut scanner) = Scanner::open(&self.folder, oldest.first) else { return };
        while let Ok(Some(window)) = scanner.window() {
            if scanner.next > self.unread {
                self.legacy.add(&window);
            }
        }
    }

    /// At most `most` of the oldest windows, the same again until they are [`Spool::taken`]. Fewer than there are, if they are large.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn oldest(&mut self, most: usize) -> Result<Vec<Window>, Failure> {
        let read = self.read_ahead(most);
        read.map_err(|e| broken(&self.folder, "read", &e))?;
        Ok(self.ahead.iter().take(most).map(|(_, window)| window.clone()).collect())
    }

    fn read_ahead(&mut self, most: usize) -> Result<(), Error> {
        let mut flows: usize = self.ahead.iter().map(|(_, window)| window.flows.len()).sum();
        while self.ahead.len() < most && flows < AHEAD_FLOWS && self.unread < self.next {
            match self.read()? {
                Some(window) => {
                    flows += window.flows.len();
                    self.ahead.push_back((self.unread, window));
                    self.unread += 1;
                }
                // the rest of this file is damaged
                None => self.skip_to_next_file(),
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Option<Window>, Error> {
        let first = self.file_of(self.unread).first;
        if self.scanner.as_ref().is_none_or(|scanner| scanner.first != first) {
            self.scanner = Some(Scanner::open(&self.folder, first)?);
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

    /// The file that holds a window.
    fn file_of(&self, number: u64) -> Segment {
        let all = self.segments.iter().chain(self.appender.as_ref().map(|a| &a.segment));
        let holds = all.rev().find(|segment| segment.first <= number);
        holds.cloned().unwrap_or(Segment { first: number, bytes: 0 })
    }

    fn skip_to_next_file(&mut self) {
        let later = self.segments.iter().chain(self.appender.as_ref().map(|a| &a.segment));
        let next = later.map(|segment| segment.first).find(|first| *first > self.unread).unwrap_or(self.next);
        self.dropped += next - self.unread;
        self.unread = next;
        self.scanner = None;
    }

    /// The oldest `count` windows were recorded.
    ///
    /// # Errors
    /// A file cannot be deleted: its windows come again after a restart.
    pub fn taken(&mut self, count: usize) -> Result<(), Failure> {
        self.ahead.drain(..count.min(self.ahead.len()));
        let oldest = self.ahead.front().map_or(self.unread, |(number, _)| *number);
        // a file that is kept spares the next windows their parts; one that grew is sent again after a restart
        if oldest == self.next && self.appender.as_ref().is_some_and(|a| a.segment.bytes > IDLE_BYTES) {
            self.close_appender();
        }
        while let Some(segment) = self.segments.front() {
            let end =
                self.segments.get(1).or(self.appender.as_ref().map(|a| &a.segment)).map_or(self.next, |s| s.first);
            if end > oldest {
                break;
            }
            std::fs::remove_file(segment.path(&self.folder)).map_err(|e| broken(&self.folder, "shortened", &e))?;
            self.segments.pop_front();
        }
        Ok(())
    }

    /// The oldest window is refused for what it holds: it goes out of the way, into [`REFUSED`] if that has room, and counts as dropped.
    /// The next that is appended tells of its losses; not of its services and listeners, for which it could be refused, too.
    ///
    /// # Errors
    /// A file cannot be written or deleted. The window is out of the way all the same.
    pub fn set_aside(&mut self) -> Result<(), Failure> {
        let Some((_, window)) = self.ahead.front() else { return Ok(()) };
        let kept = aside::keep(&self.folder, window);
        self.legacy.add_losses(&window.losses);
        self.dropped += 1;
        let taken = self.taken(1);
        kept.map_err(|e| broken(&self.folder.join(REFUSED), "written", &e)).and(taken)
    }

    /// Windows that were not taken yet.
    pub fn waiting(&self) -> u64 {
        self.ahead.len() as u64 + self.next - self.unread
    }

    /// Windows that were dropped or damaged since the spool was opened.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    pub fn bytes(&self) -> u64 {
        let all = self.segments.iter().chain(self.appender.as_ref().map(|a| &a.segment));
        all.map(|segment| segment.bytes).sum()
    }
}

impl Drop for Spool {
    /// An empty spool leaves nothing behind.
    fn drop(&mut self) {
        if self.waiting() == 0 {
            self.close_appender();
            for segment in &self.segments {
                let _ = std::fs::remove_file(segment.path(&self.folder));
            }
        }
    }
}

fn broken(folder: &Path, done: &str, error: &Error) -> Failure {
    let failure =
        Failure::environment(format!("the spool {} cannot be {done}", folder.display())).why(error.to_string());
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => failure.next("free some space; lost windows are counted"),
        _ => failure.next("check its folder and disk; lost windows are counted"),
    }
}
