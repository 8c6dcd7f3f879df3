//! What the golden process has open. Forks share offsets and everything that is not a file; so files are opened again, and
//! what cannot be opened again is refused before a campaign begins.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// How the kernel tells a file that has lost its name.
const DELETED: &str = " (deleted)";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    pub number: i32,
    pub path: PathBuf,
    /// Below the golden process' working directory: the fork has its own copy.
    pub in_work: Option<PathBuf>,
    pub offset: u64,
    pub flags: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Descriptors {
    files: Vec<Descriptor>,
    /// Pipes, sockets, files without a name and the like, in the kernel's words.
    pub shared: Vec<String>,
}

impl Descriptors {
    /// Those of a stopped process. `fresh` ones begin anew in every fork and are left out.
    pub fn of(pid: i32, work: &Path, fresh: &[i32]) -> io::Result<Descriptors> {
        let mut found = Descriptors::default();
        for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
            let entry = entry?;
            let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if fresh.contains(&number) {
                continue;
            }
            let path = fs::read_link(entry.path())?;
            // opening by the name would find nothing, or something else
            let nameless = !path.is_absolute() || (path.to_string_lossy().ends_with(DELETED) && !path.exists());
            if nameless {
                found.shared.push(format!("{number}: {}", path.display()));
            } else if !device(&path) {
                found.files.push(file(pid, number, path, work)?);
            }
        }
        found.files.sort_by_key(|file| file.number);
        found.shared.sort();
        Ok(found)
    }

    pub fn reopened(&self) -> impl Iterator<Item = &Descriptor> {
        self.files.iter()
    }
}

/// `/dev/null` and its like have no state to share.
fn device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.file_type().is_char_device())
}

fn file(pid: i32, number: i32, path: PathBuf, work: &Path) -> io::Result<Descriptor> {
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}"))?;
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let offset = field("pos:").and_then(|text| text.parse().ok());
    let flags = field("flags:").and_then(|text| i32::from_str_radix(text, 8).ok());
    match (offset, flags) {
        (Some(offset), Some(flags)) => {
            let in_work = path.strip_prefix(work).ok().map(Path::to_path_buf);
            Ok(Descriptor { number, path, in_work, offset, flags })
        }
        _ => Err(io::Error::other(format!("/proc/{pid}/fdinfo/{number} has no position or flags"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};
    use std::process::{Command, Stdio};

    /// Of a process of its own, which does nothing meanwhile: other tests of this one open and close files all the time.
    #[test]
    fn files_are_told_with_their_offsets_and_pipes_by_name() {
        let mut file = fs::File::open("/proc/self/exe").unwrap();
        file.read_exact(&mut [0; 10]).unwrap();
        assert_eq!(file.stream_position().unwrap(), 10);
        let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file).spawn().unwrap();
        // once it has answered it has loaded its libraries and opens nothing any more
        let mut stdin = cat.stdin.take().unwrap();
        stdin.write_all(b"x").unwrap();
        cat.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let pid = cat.id() as i32;
        let found = Descriptors::of(pid, Path::new("/nowhere"), &[]).unwrap();
        let without = Descriptors::of(pid, Path::new("/nowhere"), &[2]).unwrap();
        drop(stdin);
        assert!(cat.wait().unwrap().success());
        let ours = found.reopened().find(|d| d.number == 2).unwrap();
        assert_eq!((ours.offset, ours.in_work.clone()), (10, None));
        assert!(found.shared.iter().any(|text| text.starts_with("0: pipe:")), "{:?}", found.shared);
        assert!(without.reopened().all(|d| d.number != 2));
    }
}
