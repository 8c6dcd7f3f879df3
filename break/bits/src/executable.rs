//! An executable file as its ELF headers describe it. Only what decides how, and whether, it can be studied.

use object::LittleEndian;
use object::elf::{self, FileHeader64, PF_W, PF_X, PT_LOAD, SHT_SYMTAB};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
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
    /// The headers contradict themselves or the file's length, or cannot be read.
    Damaged,
}

/// More of a script's first line the kernel does not read.
const LINE: usize = 256;

impl Facts {
    pub fn read(file: &File) -> io::Result<Result<Facts, Other>> {
        let mut begin = [0; LINE];
        let length = read_some(file, &mut begin)?;
        Ok(Facts::of(file, &begin[..length]))
    }

    fn of(file: &File, begin: &[u8]) -> Result<Facts, Other> {
        if let Some(line) = begin.strip_prefix(b"#!") {
            let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
            return Err(Other::Script(String::from_utf8_lossy(line).trim().to_owned()));
        }
        // class, and machine: of others the rest means something else
        match *begin {
            [0x7f, b'E', b'L', b'F', class, ..] if begin.len() > MACHINE + 1 => {
                let machine = u16::from_le_bytes([begin[MACHINE], begin[MACHINE + 1]]);
                if class != elf::ELFCLASS64 || machine != elf::EM_X86_64 {
                    return Err(Other::Foreign(machine));
                }
            }
            [0x7f, b'E', b'L', b'F', ..] => return Err(Other::Damaged),
            _ => return Err(Other::NotElf),
        }
        Facts::of_headers(file).map_err(|_| Other::Damaged)?.ok_or(Other::NoProgram)
    }

    /// None: nothing begins there.
    fn of_headers(file: &File) -> Result<Option<Facts>, object::Error> {
        let data = &ReadCache::new(file);
        let header = FileHeader64::<LittleEndian>::parse(data)?;
        let kind = header.e_type(LittleEndian);
        if ![elf::ET_EXEC, elf::ET_DYN].contains(&kind) || header.e_entry(LittleEndian) == 0 {
            return Ok(None);
        }
        let mut facts =
            Facts { linker: None, position_independent: kind == elf::ET_DYN, stripped: true, writable_code: false };
        for segment in header.program_headers(LittleEndian, data)? {
            if let Some(linker) = segment.interpreter(LittleEndian, data)? {
                facts.linker = Some(std::ffi::OsStr::from_bytes(linker).into());
            }
            let open = segment.p_flags(LittleEndian) & (PF_W | PF_X) == PF_W | PF_X;
            facts.writable_code |= segment.p_type(LittleEndian) == PT_LOAD && open;
        }
        for section in header.section_headers(LittleEndian, data)? {
            facts.stripped &= section.sh_type(LittleEndian) != SHT_SYMTAB;
        }
        Ok(Some(facts))
    }
}

/// Where every ELF header says for which machine it is.
const MACHINE: usize = 18;

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
        /// Whatever stands in the header: an answer, without reading more than there is.
        #[test]
        fn any_header_gets_an_answer(header in proptest::collection::vec(proptest::num::u8::ANY, 57)) {
            let mut file = b"\x7fELF\x02\x01\x01".to_vec();
            file.extend(header);
            let _ = read(&file);
            file[16] &= 3;
            file[17..24].copy_from_slice(&[0, 62, 0, 1, 0, 0, 0]);
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
