//! The open descriptors of the golden process. A fork shares file offsets and everything that is not a file, so files
//! are reopened in it, and a program with descriptors that cannot be reopened is refused before a campaign begins.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// How the kernel marks a file that has no name anymore.
const DELETED: &str = " (deleted)";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    pub number: i32,
    pub path: PathBuf,
    /// Its path below the golden process's working directory, of which the fork has a copy.
    pub in_work: Option<PathBuf>,
    pub offset: u64,
    pub flags: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Descriptors {
    files: Vec<Descriptor>,
    /// Pipes, sockets, files without a name and the like, as the kernel prints them.
    pub shared: Vec<String>,
}

impl Descriptors {
    /// Reads those of a stopped process, except `fresh` ones, which every fork replaces.
    pub fn of(pid: i32, work: &Path, fresh: &[i32]) -> io::Result<Descriptors> {
        let mut found = Descriptors::default();
        for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
            let entry = entry?;
            let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if fresh.contains(&number) {
                continue;
            }
            let path = fs::read_link(entry.path())?;
            // the name would open nothing, or something else
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

/// Character devices such as `/dev/null` have no state to share.
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

    /// Reads an idle child: other tests open and close files of this process all the time.
    #[test]
    fn files_have_offsets_and_pipes_are_listed() {
        let mut file = fs::File::open("/proc/self/exe").unwrap();
        file.read_exact(&mut [0; 10]).unwrap();
        assert_eq!(file.stream_position().unwrap(), 10);
        let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file).spawn().unwrap();
        // once it has answered, it has loaded its libraries and opens nothing more
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
