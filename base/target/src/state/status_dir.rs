//! The folder with the status files of the SDKs of one `up` (`FAULTLOOM_STATUS`, `docs/formats/messages.md`).
//!
//! A file `.up` in it holds the mark of its `up`, so that the folder of a later one is not removed by mistake.

use crate::state::atomic_file;
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
    atomic_file::create_folder(&folder)?;
    atomic_file::write(&folder.join(MARK_FILE), mark)?;
    Ok(folder)
}

/// Does nothing if the folder belongs to another `up`.
pub(crate) fn remove(folder: &Path, mark: &str) {
    if std::fs::read_to_string(folder.join(MARK_FILE)).is_ok_and(|text| text == mark) {
        let _ = std::fs::remove_dir_all(folder);
    }
}
