//! What a run left for its clients to see.

use crate::output_records::Records;
use crate::protocol::{Output, Program, Stream, Written};
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Kept of standard error: enough for an abort's message.
const STDERR_MAX: u64 = 16 << 10;
/// Files of a working directory that count as output.
const FILES_MAX: usize = 256;

/// As read from the files of a run: standard output or the shim's records, and the files it made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    pub main: Vec<u8>,
    pub files: Vec<(String, Vec<u8>)>,
}

impl Collected {
    /// At most `bytes` of each file: a run cannot write more.
    pub fn of(main: &Path, work: &Path, bytes: u64) -> io::Result<Collected> {
        Ok(Collected { main: bounded(main, bytes)?, files: files(work, bytes)? })
    }

    /// Per connection, or standard output and files.
    pub fn output(&self, program: &Program) -> Output {
        if program.replay.is_some() {
            return Records::read(&self.main).output();
        }
        let stdout = Stream { name: "stdout".to_owned(), bytes: self.main.clone() };
        let files = self.files.iter().map(|(name, bytes)| Stream { name: name.clone(), bytes: bytes.clone() });
        Output { streams: std::iter::once(stdout).chain(files).collect() }
    }

    /// In which order that was written. `before`: how long the main file was when the flip was made.
    pub fn written(&self, program: &Program, before: usize) -> Written {
        let before = before.min(self.main.len());
        if program.replay.is_some() {
            let pieces = Records::read(&self.main).order();
            let before = Records::read(&self.main[..before]).bytes();
            return Written { connections: true, pieces, before };
        }
        Written { connections: false, pieces: vec![(0, self.main.len() as u64)], before: before as u64 }
    }
}

pub fn stderr(path: &Path) -> Vec<u8> {
    bounded(path, STDERR_MAX).unwrap_or_default()
}

fn bounded(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // a program may have put a link or a pipe in its place: neither is followed or waited for
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let mut bytes = Vec::new();
    match file {
        Ok(file) if file.metadata()?.is_file() => {
            file.take(most).read_to_end(&mut bytes)?;
        }
        Ok(_) => {}
        Err(error) if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENOENT | libc::ENXIO)) => {}
        Err(error) => return Err(error),
    }
    Ok(bytes)
}

/// Regular files below a directory, by their names in it.
fn files(work: &Path, most: u64) -> io::Result<Vec<(String, Vec<u8>)>> {
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
                found.push((name, bounded(&entry.path(), most)?));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The first difference of two outputs in words, for a golden run that does not repeat itself.
pub fn difference(one: &Output, other: &Output) -> Option<String> {
    let names = |output: &Output| output.streams.iter().map(|stream| stream.name.clone()).collect::<Vec<_>>();
    if names(one) != names(other) {
        return Some(format!("once it wrote to {}, once to {}", names(one).join(", "), names(other).join(", ")));
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
        let told = difference(&output("time 17"), &output("time 18")).unwrap();
        assert!(told.contains("stdout differs from byte 6") && told.contains("time 18"), "{told}");
        let told = difference(&output("ab"), &output("abc")).unwrap();
        assert!(told.contains("byte 2"), "{told}");
    }
}
