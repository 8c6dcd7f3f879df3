//! Small files that others read while we replace them: written whole beside their place, then renamed into it.
//!
//! Readable by their owner only. Not synced to disk: they describe processes, which no power cut survives.

use crate::health::in_words;
use model::Failure;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Replaces `path`. On failure the old file is still there and nothing is left beside it.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = std::path::PathBuf::from(beside);
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&beside)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&beside, path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&beside);
        cannot_write(path, &error)
    })
}

/// What the user reads when a file of ours cannot be written: a full disk, a missing permission.
pub(crate) fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    use std::io::ErrorKind;
    let folder = path.parent().unwrap_or(path).display();
    let failure = Failure::environment(format!("cannot write {}", path.display()));
    match error.kind() {
        ErrorKind::StorageFull => failure.why("the disk is full").next(format!("free some space below {folder}")),
        ErrorKind::QuotaExceeded => {
            failure.why("your disk quota is used up").next(format!("free some space below {folder}"))
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            failure.why(in_words(error)).next(format!("make {folder} writable for you, or choose another folder"))
        }
        _ => failure.why(in_words(error)).next(format!("check the folder {folder}")),
    }
}
