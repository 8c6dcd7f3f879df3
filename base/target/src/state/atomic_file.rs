//! Small files that other processes read while they are replaced: written to a temporary file, then renamed.
//!
//! Readable by their owner only. Not synced to disk: they describe processes, which do not survive a power cut.

use crate::health::describe_io_error;
use model::Failure;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Options for a file that only its owner can read if it is created, whatever the umask is: logs and status files name
/// services and calls, and the folder may be inside one that others can read.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Creates a folder that only its owner can use, and missing ones above it.
pub(crate) fn create_folder(path: &Path) -> Result<(), Failure> {
    DirBuilder::new().mode(0o700).recursive(true).create(path).map_err(|error| cannot_write(path, &error))
}

/// Replaces `path`. On failure the old file is unchanged and no temporary file remains.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let temporary = temporary(path, std::process::id());
    let written = private()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&temporary)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&temporary, path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&temporary);
        cannot_write(path, &error)
    })
}

/// What is written by the process `pid` before it becomes `path`. Remains if that process is killed.
pub(crate) fn temporary(path: &Path, pid: u32) -> PathBuf {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{pid}.new"));
    temporary.into()
}

/// The failure of writing one of our files, such as a full disk or a missing permission.
pub(crate) fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    use std::io::ErrorKind;
    let folder = path.parent().unwrap_or(path).display();
    let failure = Failure::environment(format!("cannot write {}", path.display()));
    match error.kind() {
        ErrorKind::StorageFull => failure.why("the disk is full").next(format!("free some space below {folder}")),
        ErrorKind::QuotaExceeded => {
            failure.why("your disk quota is used up").next(format!("free some space below {folder}"))
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => failure
            .why(describe_io_error(error))
            .next(format!("make {folder} writable for you, or choose another folder")),
        _ => failure.why(describe_io_error(error)).next(format!("check the folder {folder}")),
    }
}
