//! The folder where the SDKs of one `up` say what they are (`FAULTLOOM_STATUS`, `docs/formats/messages.md`).
//!
//! It carries the mark of its `up` in a file `.up`, so that nobody removes the folder of a later one.

use crate::atomic_file::{self, cannot_write};
use model::Failure;
use std::path::{Path, PathBuf};

const MARK_FILE: &str = ".up";

pub(crate) fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("status")
}

/// An empty folder with the mark of this `up`.
pub(crate) fn create(state_dir: &Path, mark: &str) -> Result<PathBuf, Failure> {
    let folder = path(state_dir);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| cannot_write(&folder, &error))?;
    atomic_file::write(&folder.join(MARK_FILE), mark)?;
    Ok(folder)
}

/// Nothing happens if the folder is another `up`'s.
pub(crate) fn remove(folder: &Path, mark: &str) {
    if std::fs::read_to_string(folder.join(MARK_FILE)).is_ok_and(|text| text == mark) {
        let _ = std::fs::remove_dir_all(folder);
    }
}
