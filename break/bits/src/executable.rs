//! An executable file as its ELF headers describe it. Only what decides how, and whether, it can be studied.
//!
//! ```text
//! file header (64 bytes)      16 type  18 machine  24 entry  32 segments at  40 sections at
//!                             54 segment size  56 segments  58 section size  60 sections
//! segment header (56 bytes)    0 type   4 flags    8 offset  32 bytes in file
//! section header (64 bytes)    4 type
//! ```

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// What the headers of an x86-64 executable say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The dynamic linker that loads it. None: it is static.
    pub linker: Option<PathBuf>,
    /// It may be loaded anywhere. Without randomisation that is always the same place.
    pub position_independent: bool,
    /// It has no table of its functions but the exported ones.
    pub stripped: bool,
    /// Some of its code may be written to while it runs.
    pub writable_code: bool,
}

/// Why a file is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Other {
    /// `#!`, with the interpreter and what follows it.
    Script(String),
    NotElf,
    /// Of another machine, by its number, or of 32 bits.
    Foreign(u16),
    /// An object file, a library, a core: nothing begins there.
    NoProgram,
    /// The headers contradict themselves or the file's length.
    Damaged,
}

/// More of a script's first line, or of a linker's path, the kernel does not read.
const LINE: usize = 256;
const PATH: u64 = 4096;

impl Facts {
    pub fn read(file: &File) -> io::Result<Result<Facts, Other>> {
        let mut begin = [0; LINE];
        let length = read_some(file, &mut begin)?;
        let begin = &begin[..length];
        if let Some(line) = begin.strip_prefix(b"#!") {
            let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
            return Ok(Err(Other::Script(String::from_utf8_lossy(line).trim().to_owned())));
        }
        if !begin.starts_with(b"\x7fELF") {
            return Ok(Err(Other::NotElf));
        }
        match Facts::of(file, begin) {
            // what is beyond the end, and beyond where any file could end
            Err(e) if [io::ErrorKind::UnexpectedEof, io::ErrorKind::InvalidInput].contains(&e.kind()) => {
                Ok(Err(Other::Damaged))
            }
            other => other,
        }
    }

    fn of(file: &File, header: &[u8]) -> io::Result<Result<Facts, Other>> {
        const CLASS_64: u8 = 2;
        let machine = u16_at(header, 18)?;
        if header.get(4) != Some(&CLASS_64) || machine != libc::EM_X86_64 {
            return Ok(Err(Other::Foreign(machine)));
        }
        let kind = u16_at(header, 16)?;
        if ![libc::ET_EXEC, libc::ET_DYN].contains(&kind) || u64_at(header, 24)? == 0 {
            return Ok(Err(Other::NoProgram));
        }
        let segments = table::<56>(file, header, 32, 54, 56)?;
        let sections = table::<64>(file, header, 40, 58, 60)?;
        let mut facts =
            Facts { linker: None, position_independent: kind == libc::ET_DYN, stripped: true, writable_code: false };
        for segment in &segments {
            match u32_at(segment, 0)? {
                libc::PT_INTERP => facts.linker = Some(linker(file, segment)?),
                libc::PT_LOAD => facts.writable_code |= u32_at(segment, 4)? & WRITE_EXECUTE == WRITE_EXECUTE,
                _ => (),
            }
        }
        for section in &sections {
            facts.stripped &= u32_at(section, 4)? != SYMBOLS;
        }
        Ok(Ok(facts))
    }
}

const WRITE_EXECUTE: u32 = libc::PF_W | libc::PF_X;
/// `SHT_SYMTAB`
const SYMBOLS: u32 = 2;

/// The headers of a table, `SIZE` bytes each; its place, their size and their number are at these offsets of the file's header.
fn table<const SIZE: usize>(
    file: &File,
    header: &[u8],
    place: usize,
    size: usize,
    number: usize,
) -> io::Result<Vec<[u8; SIZE]>> {
    let (place, size, number) = (u64_at(header, place)?, u16_at(header, size)?, u16_at(header, number)?);
    if number > 0 && usize::from(size) != SIZE {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut all = vec![0; SIZE * usize::from(number)];
    file.read_exact_at(&mut all, place)?;
    Ok(all.as_chunks().0.to_vec())
}

fn linker(file: &File, segment: &[u8]) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let (offset, length) = (u64_at(segment, 8)?, u64_at(segment, 32)?.min(PATH));
    let mut path = vec![0; length as usize];
    file.read_exact_at(&mut path, offset)?;
    path.retain(|&byte| byte != 0);
    Ok(std::ffi::OsString::from_vec(path).into())
}

fn read_some(file: &File, into: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < into.len() {
        match file.read_at(&mut into[length..], length as u64)? {
            0 => break,
            n => length += n,
        }
    }
    Ok(length)
}

fn bytes_at<const N: usize>(bytes: &[u8], offset: usize) -> io::Result<[u8; N]> {
    let part = bytes.get(offset..).and_then(|rest| rest.first_chunk());
    part.copied().ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn u16_at(bytes: &[u8], offset: usize) -> io::Result<u16> {
    Ok(u16::from_le_bytes(bytes_at(bytes, offset)?))
}

fn u32_at(bytes: &[u8], offset: usize) -> io::Result<u32> {
    Ok(u32::from_le_bytes(bytes_at(bytes, offset)?))
}

fn u64_at(bytes: &[u8], offset: usize) -> io::Result<u64> {
    Ok(u64::from_le_bytes(bytes_at(bytes, offset)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn read(bytes: &[u8]) -> Result<Facts, Other> {
        static FILES: AtomicU32 = AtomicU32::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("executable-{}-{number}", std::process::id()));
        std::fs::write(&path, bytes).expect("a file can be written");
        let facts = Facts::read(&File::open(&path).expect("it is there")).expect("it can be read");
        std::fs::remove_file(&path).expect("it can be removed");
        facts
    }

    #[test]
    fn this_test_is_a_dynamic_program_with_symbols() {
        let own = File::open("/proc/self/exe").expect("a process has an executable");
        let facts = Facts::read(&own).expect("it can be read").expect("it is a program");
        assert!(facts.linker.as_deref().is_some_and(std::path::Path::exists), "{facts:?}");
        assert!(facts.position_independent && !facts.stripped && !facts.writable_code, "{facts:?}");
    }

    /// A file that ends anywhere is told as what it is, and never read beyond its end.
    #[test]
    fn files_that_end_early_are_damaged() {
        let whole = std::fs::read("/proc/self/exe").expect("a process has an executable");
        for length in [4, 5, 17, 20, 30, 40, 63, 64, 100, 300, 4000] {
            let told = read(&whole[..length]).expect_err("a part is no program");
            // of fewer bytes not even the machine is known
            assert!(matches!(told, Other::Damaged), "{length}: {told:?}");
        }
    }

    proptest::proptest! {
        /// Whatever stands in the header: an answer, and no more memory than 65,535 headers take.
        #[test]
        fn any_header_gets_an_answer(header in proptest::collection::vec(proptest::num::u8::ANY, 58)) {
            let mut file = b"\x7fELF\x02\x01".to_vec();
            file.extend(header);
            let _ = read(&file);
            file[16] &= 3;
            file[17..20].copy_from_slice(&[0, 62, 0]);
            let _ = read(&file);
        }
    }

    #[test]
    fn scripts_and_texts_are_no_executables() {
        assert_eq!(read(b"#! /usr/bin/env python3\nprint()\n"), Err(Other::Script("/usr/bin/env python3".into())));
        assert_eq!(read(b"hello\n"), Err(Other::NotElf));
        assert_eq!(read(b""), Err(Other::NotElf));
    }

    #[test]
    fn other_machines_are_named() {
        let mut arm = vec![0; 64];
        arm[..6].copy_from_slice(b"\x7fELF\x02\x01");
        arm[18] = 183;
        assert_eq!(read(&arm), Err(Other::Foreign(183)));
    }
}
