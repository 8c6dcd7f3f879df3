//! Folders below `runs` that belong to no run: a process was killed between creating the folder and storing the run, or
//! between deleting the run and removing the folder.

use crate::artifact::RunDir;
use crate::runs::Store;
use model::{Failure, RunId};
use std::path::PathBuf;

/// A folder without a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    pub path: PathBuf,
    pub files: u64,
    pub bytes: u64,
    pub state: OrphanState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrphanState {
    Removed,
    /// A process is just beginning this run, or deleting it.
    InUse,
    /// Its name is not a run's id, so this tool did not create it.
    Foreign,
}

impl Store {
    /// Removes the folders that belong to no run, and returns all of them, also those that were kept, sorted by path.
    ///
    /// Errors: the store cannot be read, or a folder cannot be removed.
    pub async fn remove_orphans(&self) -> Result<Vec<Orphan>, Failure> {
        let runs = self.runs_folder();
        let unreadable = |e: std::io::Error| Failure::environment(format!("{} cannot be read: {e}", runs.display()));
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(&runs).map_err(unreadable)? {
            paths.push(entry.map_err(unreadable)?.path());
        }
        paths.sort();
        let mut orphans = Vec::new();
        for path in paths {
            let id = path.file_name().and_then(|name| name.to_str()?.parse::<RunId>().ok());
            // the same id in another notation is not what this tool writes
            let id = id.filter(|id| path.ends_with(id.to_string()) && path.is_dir());
            let (files, bytes) = size(&path);
            let Some(id) = id else {
                orphans.push(Orphan { path, files, bytes, state: OrphanState::Foreign });
                continue;
            };
            if self.exists(id).await? {
                continue;
            }
            let Ok(held) = RunDir::existing(&path).lock() else {
                if !path.exists() {
                    continue; // its process has removed it
                }
                orphans.push(Orphan { path, files, bytes, state: OrphanState::InUse });
                continue;
            };
            // the run may have been stored since the first look; from now on the lock prevents that
            if self.exists(id).await? {
                continue;
            }
            std::fs::remove_dir_all(&path)
                .map_err(|e| Failure::environment(format!("{} cannot be removed: {e}", path.display())))?;
            drop(held);
            orphans.push(Orphan { path, files, bytes, state: OrphanState::Removed });
        }
        Ok(orphans)
    }
}

/// The number of files in a folder and their bytes; folders in it are not followed.
fn size(path: &std::path::Path) -> (u64, u64) {
    let files = std::fs::read_dir(path).into_iter().flatten().flatten().filter_map(|entry| entry.metadata().ok());
    files.filter(std::fs::Metadata::is_file).fold((0, 0), |(files, bytes), file| (files + 1, bytes + file.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::KindName;

    #[tokio::test]
    async fn only_folders_without_a_run_and_without_a_process_are_removed() {
        let home = std::env::temp_dir().join(format!("faultloom-orphans-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&home);
        let store = Store::open(&home).await.unwrap();
        let (_run, dir) = store.begin(KindName::new("sweep"), "a", serde_json::Value::Null, 0).await.unwrap();
        let kept = dir.path().to_owned();
        drop(dir);
        let folder = |name: &str| home.join("runs").join(name);
        let (killed, beginning) = (RunId::create().to_string(), RunId::create().to_string());
        for name in [killed.as_str(), "notes", &beginning] {
            std::fs::create_dir(folder(name)).unwrap();
        }
        std::fs::write(folder(&killed).join("cases.jsonl"), "12345").unwrap();
        let _held = RunDir::existing(&folder(&beginning)).lock().unwrap();
        let found = store.remove_orphans().await.unwrap();
        let states: Vec<_> = found.iter().map(|orphan| (orphan.path.clone(), orphan.state)).collect();
        assert_eq!(
            states,
            [
                (folder(&killed), OrphanState::Removed),
                (folder(&beginning), OrphanState::InUse),
                (folder("notes"), OrphanState::Foreign)
            ]
        );
        assert_eq!((found[0].files, found[0].bytes), (1, 5));
        assert!(kept.exists() && folder("notes").exists() && folder(&beginning).exists() && !folder(&killed).exists());
        assert_eq!(store.remove_orphans().await.unwrap().len(), 2);
        std::fs::remove_dir_all(home).unwrap();
    }
}
