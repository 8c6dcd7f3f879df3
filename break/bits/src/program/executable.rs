//! The properties of an executable file that decide how, and whether, it can be studied.

use object::LittleEndian;
use object::elf::{self, FileHeader64, PF_W, PF_X, PT_LOAD, SHT_SYMTAB};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Properties of an x86-64 executable, from its ELF headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElfProperties {
    /// Its dynamic linker. None: it is statically linked.
    pub linker: Option<PathBuf>,
    /// It can be loaded at any address. Without address randomization that is always the same one.
    pub position_independent: bool,
    /// It has no symbol table except for exported functions.
    pub stripped: bool,
    /// Some of its code is writable at run time.
    pub writable_code: bool,
}

/// Why a file is not a program that can be studied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// `#!`, with the interpreter and what follows it.
    Script(String),
    NotElf,
    /// For another machine, by its ELF number, or a 32-bit program.
    Foreign(u16),
    /// An object file, a library or a core dump: it has no entry point.
    NoProgram,
    /// The headers are inconsistent, exceed the file, or cannot be read.
    Damaged,
}

/// The kernel reads no more of a script's first line.
const LINE: usize = 256;

impl ElfProperties {
    pub fn read(file: &File) -> io::Result<Result<ElfProperties, Unsupported>> {
        let mut begin = [0; LINE];
        let length = read_some(file, &mut begin)?;
        Ok(ElfProperties::of(file, &begin[..length]))
    }

    fn of(file: &File, begin: &[u8]) -> Result<ElfProperties, Unsupported> {
        if let Some(line) = begin.strip_prefix(b"#!") {
            let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
            return Err(Unsupported::Script(String::from_utf8_lossy(line).trim().to_owned()));
        }
        // check class and machine first: the rest has another layout for others
        match *begin {
            [0x7f, b'E', b'L', b'F', class, ..] if begin.len() > MACHINE + 1 => {
                let machine = u16::from_le_bytes([begin[MACHINE], begin[MACHINE + 1]]);
                if class != elf::ELFCLASS64 || machine != elf::EM_X86_64 {
                    return Err(Unsupported::Foreign(machine));
                }
            }
            [0x7f, b'E', b'L', b'F', ..] => return Err(Unsupported::Damaged),
            _ => return Err(Unsupported::NotElf),
        }
        ElfProperties::of_headers(file).map_err(|_| Unsupported::Damaged)?.ok_or(Unsupported::NoProgram)
    }

    /// None: there is no entry point.
    fn of_headers(file: &File) -> Result<Option<ElfProperties>, object::Error> {
        let data = &ReadCache::new(file);
        let header = FileHeader64::<LittleEndian>::parse(data)?;
        let kind = header.e_type(LittleEndian);
        if ![elf::ET_EXEC, elf::ET_DYN].contains(&kind) || header.e_entry(LittleEndian) == 0 {
            return Ok(None);
        }
        let mut properties = ElfProperties {
            linker: None,
            position_independent: kind == elf::ET_DYN,
            stripped: true,
            writable_code: false,
        };
        for segment in header.program_headers(LittleEndian, data)? {
            if let Some(linker) = segment.interpreter(LittleEndian, data)? {
                properties.linker = Some(std::ffi::OsStr::from_bytes(linker).into());
            }
            let open = segment.p_flags(LittleEndian) & (PF_W | PF_X) == PF_W | PF_X;
            properties.writable_code |= segment.p_type(LittleEndian) == PT_LOAD && open;
        }
        for section in header.section_headers(LittleEndian, data)? {
            properties.stripped &= section.sh_type(LittleEndian) != SHT_SYMTAB;
        }
        Ok(Some(properties))
    }
}

/// Offset of the machine number in every ELF header.
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

    fn read(bytes: &[u8]) -> Result<ElfProperties, Unsupported> {
        static FILES: AtomicU32 = AtomicU32::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("executable-{}-{number}", std::process::id()));
        std::fs::write(&path, bytes).expect("a file can be written");
        let properties = ElfProperties::read(&File::open(&path).expect("it is there")).expect("it can be read");
        std::fs::remove_file(&path).expect("it can be removed");
        properties
    }

    #[test]
    fn this_test_is_a_dynamic_program_with_symbols() {
        let own = File::open("/proc/self/exe").expect("a process has an executable");
        let properties = ElfProperties::read(&own).expect("it can be read").expect("it is a program");
        assert!(properties.linker.as_deref().is_some_and(std::path::Path::exists), "{properties:?}");
        assert!(properties.position_independent && !properties.stripped && !properties.writable_code, "{properties:?}");
    }

    /// A truncated file is recognized and never read beyond its end.
    #[test]
    fn files_that_end_early_are_damaged() {
        let whole = std::fs::read("/proc/self/exe").expect("a process has an executable");
        for length in [4, 5, 17, 20, 30, 40, 63, 64, 100, 300, 4000] {
            let reason = read(&whole[..length]).expect_err("a part is no program");
            // fewer bytes do not even include the machine number
            assert!(matches!(reason, Unsupported::Damaged), "{length}: {reason:?}");
        }
    }

    proptest::proptest! {
        /// Any header is classified without reading beyond the file.
        #[test]
        fn any_header_is_classified(header in proptest::collection::vec(proptest::num::u8::ANY, 57)) {
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
        assert_eq!(
            read(b"#! /usr/bin/env python3\nprint()\n"),
            Err(Unsupported::Script("/usr/bin/env python3".into()))
        );
        assert_eq!(read(b"hello\n"), Err(Unsupported::NotElf));
        assert_eq!(read(b""), Err(Unsupported::NotElf));
    }

    #[test]
    fn other_machines_are_named() {
        let mut arm = vec![0; 64];
        arm[..6].copy_from_slice(b"\x7fELF\x02\x01");
        arm[18] = 183;
        assert_eq!(read(&arm), Err(Unsupported::Foreign(183)));
    }
}
