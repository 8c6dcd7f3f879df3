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

/// An empty folder with the mark of this `up`. It appears by rename, so it never lacks the mark.
pub(crate) fn create(state_dir: &Path, mark: &str) -> Result<PathBuf, Failure> {
    let folder = path(state_dir);
    let temporary = atomic_file::temporary(&folder, std::process::id());
    let _ = std::fs::remove_dir_all(&folder);
    let _ = std::fs::remove_dir_all(&temporary);
    atomic_file::create_folder(&temporary)?;
    atomic_file::write(&temporary.join(MARK_FILE), mark)?;
    std::fs::rename(&temporary, &folder).map_err(|error| atomic_file::cannot_write(&folder, &error))?;
    Ok(folder)
}

/// Does nothing if the folder belongs to another `up`. What the process `supervisor` had not completed is removed too.
pub(crate) fn remove(folder: &Path, mark: &str, supervisor: u32) {
    let _ = std::fs::remove_dir_all(atomic_file::temporary(folder, supervisor));
    if std::fs::read_to_string(folder.join(MARK_FILE)).is_ok_and(|text| text == mark) {
        let _ = std::fs::remove_dir_all(folder);
    }
}
