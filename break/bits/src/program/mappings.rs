//! The memory mappings of a process, from `/proc/PID/maps`.

use std::io;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub readable: bool,
    pub writable: bool,
    pub executable: bool,
    /// Offset of its start in the file.
    pub offset: u64,
    /// Path of the file, or a name such as `[stack]`; empty for memory without one.
    pub name: String,
}

/// In ascending order of addresses, without overlap.
#[derive(Clone, Debug, Default)]
pub struct Mappings(pub Vec<Mapping>);

impl Mappings {
    pub fn of(pid: libc::pid_t) -> io::Result<Mappings> {
        Ok(Mappings::parse(&std::fs::read_to_string(format!("/proc/{pid}/maps"))?))
    }

    /// Skips lines that do not have the kernel's format.
    pub fn parse(text: &str) -> Mappings {
        Mappings(text.lines().filter_map(mapping).collect())
    }

    pub fn at(&self, address: u64) -> Option<&Mapping> {
        let following = self.0.partition_point(|mapping| mapping.start <= address);
        self.0[..following].last().filter(|mapping| address < mapping.end)
    }
}

/// `start-end rwxp offset device inode   name`.
fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let rights = fields.next()?.as_bytes();
    let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
    Some(Mapping {
        start: hexadecimal(start)?,
        end: hexadecimal(end)?,
        readable: rights.first() == Some(&b'r'),
        writable: rights.get(1) == Some(&b'w'),
        executable: rights.get(2) == Some(&b'x'),
        offset: hexadecimal(fields.next()?)?,
        name: fields.nth(2).unwrap_or_default().trim_start().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_find_their_mapping() {
        let text = "00400000-00401000 r--p 00000000 fe:00 12   /a file\n\
                    00401000-00403000 r-xp 00001000 fe:00 12                         /a file\n\
                    7ffc0000-7ffd0000 rw-p 00000000 00:00 0 \n";
        let mappings = Mappings::parse(text);
        let name = |address| mappings.at(address).map(|mapping| (mapping.name.as_str(), mapping.offset));
        assert_eq!(name(0x400fff), Some(("/a file", 0)));
        assert_eq!(name(0x401000), Some(("/a file", 0x1000)));
        assert_eq!(name(0x7ffc_0000), Some(("", 0)));
        assert_eq!((name(0x3fffff), name(0x403000), name(0x7ffd_0000)), (None, None, None));
        assert!(mappings.0[2].writable && !mappings.0[1].writable && mappings.0[1].executable);
    }

    #[test]
    fn this_process_has_mappings_in_order() {
        let mappings = Mappings::of(std::process::id() as libc::pid_t).unwrap();
        let here = &raw const mappings as u64;
        assert!(mappings.at(here).is_some_and(|mapping| mapping.writable));
        assert!(mappings.0.windows(2).all(|pair| pair[0].end <= pair[1].start));
    }
}
