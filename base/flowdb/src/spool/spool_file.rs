//! Files of a spool. Each is written and read sequentially and deleted as a whole.
//!
//! ```text
//! <directory>/0000000000000001.spool     number of the first record, counted over all windows
//! <directory>/0000000000000296.spool
//! file: "faultloom spool 2\n" | records     also read: version 1
//! ```

use super::record::{self, Reader, Version, Writer};
use flows::Window;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const MAGIC: &[u8] = b"faultloom spool 2\n";
const MAGIC_1: &[u8] = b"faultloom spool 1\n";
const EXTENSION: &str = "spool";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolFile {
    /// Number of its first record.
    pub first: u64,
    pub bytes: u64,
}

impl SpoolFile {
    pub fn path(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{:016}.{EXTENSION}", self.first))
    }

    /// Files of a directory, oldest first.
    pub fn list(directory: &Path) -> Result<Vec<SpoolFile>, Error> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == EXTENSION) {
                let Some(first) = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok()) else { continue };
                files.push(SpoolFile { first, bytes: entry.metadata()?.len() });
            }
        }
        files.sort_by_key(|file| file.first);
        Ok(files)
    }
}

/// Writes a file.
pub struct Appender {
    file: File,
    writer: Writer,
    pub spool_file: SpoolFile,
}

impl Appender {
    pub fn create(directory: &Path, first: u64) -> Result<Appender, Error> {
        let mut spool_file = SpoolFile { first, bytes: 0 };
        let path = spool_file.path(directory);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(MAGIC)?;
        spool_file.bytes = MAGIC.len() as u64;
        Ok(Appender { file, writer: Writer::default(), spool_file })
    }

    pub fn parts(&self) -> usize {
        self.writer.parts()
    }

    /// Appends a window. After an error nothing more may be appended, because the record may be incomplete and later
    /// ones could refer to its parts.
    pub fn append(&mut self, window: &Window) -> Result<(), Error> {
        let record = self.writer.record(window);
        if let Err(error) = self.file.write_all(&record) {
            // frees the space; if that fails, the checksum detects the incomplete record
            let _ = self.file.set_len(self.spool_file.bytes);
            return Err(error);
        }
        self.spool_file.bytes += record.len() as u64;
        Ok(())
    }

    pub fn sync(&self) -> Result<(), Error> {
        self.file.sync_data()
    }
}

/// Reads a file, possibly while it is written.
pub struct Scanner {
    pub first: u64,
    file: File,
    reader: Reader,
    /// Bytes that were read and not parsed yet.
    buffer: Vec<u8>,
    at: usize,
    /// Number of the next record.
    pub next: u64,
    magic_checked: bool,
}

/// Number of bytes to read at once.
const CHUNK: u64 = 1 << 20;

impl Scanner {
    pub fn open(directory: &Path, first: u64) -> Result<Scanner, Error> {
        let file = File::open(SpoolFile { first, bytes: 0 }.path(directory))?;
        Ok(Scanner {
            first,
            file,
            reader: Reader::default(),
            buffer: Vec::new(),
            at: 0,
            next: first,
            magic_checked: false,
        })
    }

    /// The next window, or none if there is no further complete one yet.
    pub fn window(&mut self) -> Result<Option<Window>, Error> {
        loop {
            let mut rest = &self.buffer[self.at..];
            if !self.magic_checked && rest.len() >= MAGIC.len() {
                let version = match &rest[..MAGIC.len()] {
                    MAGIC => Version::Two,
                    MAGIC_1 => Version::One,
                    _ => return Err(ErrorKind::InvalidData.into()),
                };
                self.reader = Reader::new(version);
                (self.magic_checked, self.at) = (true, MAGIC.len());
                continue;
            }
            if self.magic_checked
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

/// Number of complete records of a file.
pub fn count(directory: &Path, first: u64) -> Result<u64, Error> {
    let mut bytes = Vec::new();
    let mut file = File::open(SpoolFile { first, bytes: 0 }.path(directory))?;
    file.seek(SeekFrom::Start(MAGIC.len() as u64))?;
    file.read_to_end(&mut bytes)?;
    let mut rest = &bytes[..];
    Ok(std::iter::from_fn(|| record::payload(&mut rest)).count() as u64)
}
