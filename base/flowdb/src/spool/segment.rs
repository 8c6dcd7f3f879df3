//! Files of a spool. Each is read and written from its begin to its end, and is deleted as a whole.
//!
//! ```text
//! <folder>/0000000000000001.spool     the name is the number of its first record; numbers count all windows of this folder
//! <folder>/0000000000000296.spool
//! file: "faultloom spool 1\n" | records
//! ```

use super::record::{self, Reader, Writer};
use flows::Window;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const MAGIC: &[u8] = b"faultloom spool 1\n";
const EXTENSION: &str = "spool";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Number of its first record.
    pub first: u64,
    pub bytes: u64,
}

impl Segment {
    pub fn path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{:016}.{EXTENSION}", self.first))
    }

    /// Segments of a folder, the oldest first.
    pub fn list(folder: &Path) -> Result<Vec<Segment>, Error> {
        let mut segments = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == EXTENSION) {
                let Some(first) = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok()) else { continue };
                segments.push(Segment { first, bytes: entry.metadata()?.len() });
            }
        }
        segments.sort_by_key(|segment| segment.first);
        Ok(segments)
    }
}

/// A segment that is being written.
pub struct Appender {
    file: File,
    writer: Writer,
    pub segment: Segment,
}

impl Appender {
    pub fn create(folder: &Path, first: u64) -> Result<Appender, Error> {
        let mut segment = Segment { first, bytes: 0 };
        let path = segment.path(folder);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(MAGIC)?;
        segment.bytes = MAGIC.len() as u64;
        Ok(Appender { file, writer: Writer::default(), segment })
    }

    pub fn parts(&self) -> usize {
        self.writer.parts()
    }

    /// Appends a window. After an error nothing may be appended any more: the record may be there in part, and what it would have
    /// brought is missing to later ones.
    pub fn append(&mut self, window: &Window) -> Result<(), Error> {
        let record = self.writer.record(window);
        if let Err(error) = self.file.write_all(&record) {
            // leaves room for others; if it fails, the torn record is found by its checksum
            let _ = self.file.set_len(self.segment.bytes);
            return Err(error);
        }
        self.segment.bytes += record.len() as u64;
        Ok(())
    }

    pub fn sync(&self) -> Result<(), Error> {
        self.file.sync_data()
    }
}

/// A segment that is being read, perhaps while it is written.
pub struct Scanner {
    pub first: u64,
    file: File,
    reader: Reader,
    /// What was read of it and not yet understood.
    buffer: Vec<u8>,
    at: usize,
    /// Number of the next record.
    pub next: u64,
    begun: bool,
}

/// Of a file, at once.
const CHUNK: u64 = 1 << 20;

impl Scanner {
    pub fn open(folder: &Path, first: u64) -> Result<Scanner, Error> {
        let file = File::open(Segment { first, bytes: 0 }.path(folder))?;
        Ok(Scanner { first, file, reader: Reader::default(), buffer: Vec::new(), at: 0, next: first, begun: false })
    }

    /// The next window, or none if there is no other whole one yet.
    pub fn window(&mut self) -> Result<Option<Window>, Error> {
        loop {
            let mut rest = &self.buffer[self.at..];
            if !self.begun && rest.len() >= MAGIC.len() {
                if !rest.starts_with(MAGIC) {
                    return Err(ErrorKind::InvalidData.into());
                }
                (self.begun, self.at) = (true, MAGIC.len());
                continue;
            }
            if self.begun
                && let Some(payload) = record::payload(&mut rest)
            {
                let window = self.reader.window(payload).map_err(|_| Error::from(ErrorKind::InvalidData))?;
                self.at = self.buffer.len() - rest.len();
                self.next += 1;
                return Ok(Some(window));
            }
            if !self.read_more()? {
                return Ok(None);
            }
        }
    }

    fn read_more(&mut self) -> Result<bool, Error> {
        self.buffer.drain(..self.at);
        self.at = 0;
        Ok((&self.file).take(CHUNK).read_to_end(&mut self.buffer)? > 0)
    }
}

/// How many whole records a segment has.
pub fn count(folder: &Path, first: u64) -> Result<u64, Error> {
    let mut bytes = Vec::new();
    let mut file = File::open(Segment { first, bytes: 0 }.path(folder))?;
    file.seek(SeekFrom::Start(MAGIC.len() as u64))?;
    file.read_to_end(&mut bytes)?;
    let mut rest = &bytes[..];
    Ok(std::iter::from_fn(|| record::payload(&mut rest)).count() as u64)
}
