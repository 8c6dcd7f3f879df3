//! The output of a run as its clients receive it.

use crate::engine_messages::{Program, WriteOrder};
use model::flip::{Output, Stream};
use model::replay::OutputRecords;
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// How much of standard error is collected: enough for the message of an abort.
const STDERR_MAX: u64 = 16 << 10;
/// How many files of a working directory count as output.
const FILES_MAX: usize = 256;

/// The output files of a run: standard output or the shim's records, and the files it created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectedOutput {
    pub main: Vec<u8>,
    pub files: Vec<(String, Vec<u8>)>,
}

impl CollectedOutput {
    /// Reads at most `bytes` of each file, which is the limit of what a run can write.
    pub fn read(main: &Path, work: &Path, bytes: u64) -> io::Result<CollectedOutput> {
        Ok(CollectedOutput { main: bounded(main, bytes)?, files: files(work, bytes)? })
    }

    /// The streams: one per connection, or standard output and files.
    pub fn output(&self, program: &Program) -> Output {
        if program.replay.is_some() {
            return OutputRecords::parse(&self.main).output();
        }
        let stdout = Stream { name: "stdout".to_owned(), bytes: self.main.clone() };
        let files = self.files.iter().map(|(name, bytes)| Stream { name: name.clone(), bytes: bytes.clone() });
        Output { streams: std::iter::once(stdout).chain(files).collect() }
    }

    /// The order in which it was written. `before`: the length of the main file at the time of the flip.
    pub fn write_order(&self, program: &Program, before: usize) -> WriteOrder {
        let before = before.min(self.main.len());
        if program.replay.is_some() {
            let pieces = OutputRecords::parse(&self.main).order();
            let before = OutputRecords::parse(&self.main[..before]).bytes();
            return WriteOrder { connections: true, pieces, before };
        }
        WriteOrder { connections: false, pieces: vec![(0, self.main.len() as u64)], before: before as u64 }
    }
}

pub fn stderr(path: &Path) -> Vec<u8> {
    bounded(path, STDERR_MAX).unwrap_or_default()
}

fn bounded(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    // a program may have replaced it by a link or a pipe, which must not be followed or waited for
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let mut bytes = Vec::new();
    match file {
        Ok(file) if file.metadata()?.is_file() => {
            file.take(max).read_to_end(&mut bytes)?;
        }
        Ok(_) => {}
        Err(error) if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENOENT | libc::ENXIO)) => {}
        Err(error) => return Err(error),
    }
    Ok(bytes)
}

/// Regular files below a directory, with their relative paths.
fn files(work: &Path, max: u64) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    let mut folders = vec![work.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && found.len() < FILES_MAX {
                let name = entry.path().strip_prefix(work).map_err(io::Error::other)?.to_string_lossy().into_owned();
                found.push((name, bounded(&entry.path(), max)?));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Describes the first difference of two outputs of a program that is not repeatable.
pub fn difference(one: &Output, other: &Output) -> Option<String> {
    let names = |output: &Output| output.streams.iter().map(|stream| stream.name.clone()).collect::<Vec<_>>();
    if names(one) != names(other) {
        return Some(format!("one run wrote to {}, the other to {}", names(one).join(", "), names(other).join(", ")));
    }
    one.streams.iter().zip(&other.streams).find_map(|(one, other)| {
        let at = one.bytes.iter().zip(&other.bytes).position(|(a, b)| a != b);
        let at =
            at.or_else(|| (one.bytes.len() != other.bytes.len()).then(|| one.bytes.len().min(other.bytes.len())))?;
        let around = |bytes: &[u8]| {
            let from = at.saturating_sub(16);
            let to = (at + 16).min(bytes.len());
            String::from_utf8_lossy(&bytes[from.min(to)..to]).escape_debug().to_string()
        };
        Some(format!(
            "{} differs from byte {at} on: \"{}\" and \"{}\"",
            one.name,
            around(&one.bytes),
            around(&other.bytes)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(text: &str) -> Output {
        Output { streams: vec![Stream { name: "stdout".into(), bytes: text.as_bytes().to_vec() }] }
    }

    #[test]
    fn the_first_differing_byte_is_named() {
        assert_eq!(difference(&output("same"), &output("same")), None);
        let text = difference(&output("time 17"), &output("time 18")).unwrap();
        assert!(text.contains("stdout differs from byte 6") && text.contains("time 18"), "{text}");
        let text = difference(&output("ab"), &output("abc")).unwrap();
        assert!(text.contains("byte 2"), "{text}");
    }
}
