//! Rights of the store. Runs contain requests with their headers and bodies, so only their owner may read them.
//!
//! Files are created with 0600 and directories with 0700, whatever the umask is. A store that others can read, because
//! its directory existed before or was copied, is corrected when a command starts, or refused if that is not permitted.

use model::Failure;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const OTHERS: u32 = 0o077;

/// Creates a directory, and missing ones above it.
pub fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(path)
}

/// Options for a file that is private if it is created.
pub fn options() -> OpenOptions {
    let mut options = File::options();
    options.mode(0o600);
    options
}

/// Corrects the rights of an existing store. The directory itself is changed only if it is used for nothing else.
pub fn secure(home: &Path) -> Result<(), Failure> {
    let Ok(metadata) = std::fs::metadata(home) else { return Ok(()) };
    if metadata.mode() & OTHERS == 0 {
        return Ok(());
    }
    if is_only_a_store(home) {
        restrict(home, &metadata)?;
    }
    // the database, its log, copies from before a migration, the output of `up -d`, and the schema of target files
    for entry in std::fs::read_dir(home).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if (name.starts_with("store.db") || name == "up.log" || name == "target.schema.json")
            && let Ok(metadata) = entry.metadata()
        {
            restrict(&entry.path(), &metadata)?;
        }
    }
    secure_kept_trust(home)?;
    let up = home.join("up");
    let with_contents = [Some(home.join("runs")), up.join("lock").exists().then_some(up)];
    for directory in with_contents.into_iter().flatten() {
        if let Ok(metadata) = std::fs::symlink_metadata(&directory)
            && restrict(&directory, &metadata)?
        {
            restrict_contents(&directory)?;
        }
    }
    Ok(())
}

/// The trust files that `env` keeps, and the folders of their status files. In a shared directory, other folders may
/// be named `keys` and `status`: only what has the names of a kept target is changed. Status files keep their rights:
/// a service of another user may have written them, and the folder is closed.
fn secure_kept_trust(home: &Path) -> Result<(), Failure> {
    for entry in std::fs::read_dir(home.join("keys")).into_iter().flatten().flatten() {
        let file = entry.path();
        if file.extension().is_none_or(|extension| extension != "trust") {
            continue;
        }
        let status = file.file_stem().map(|target| home.join("status").join(target));
        for path in std::iter::once(file).chain(status) {
            if let Ok(metadata) = std::fs::symlink_metadata(&path) {
                restrict(&path, &metadata)?;
            }
        }
    }
    Ok(())
}

/// Someone may use `--home` with a directory that contains other files, which may have to stay readable. Files in it
/// prove nothing: in a shared directory, any user may have created them.
fn is_only_a_store(home: &Path) -> bool {
    let named = home.file_name().is_some_and(|name| name == ".faultloom");
    named || std::fs::read_dir(home).is_ok_and(|mut entries| entries.next().is_none())
}

/// Removes the rights of others. Returns whether there were any.
fn restrict(path: &Path, metadata: &Metadata) -> Result<bool, Failure> {
    if metadata.file_type().is_symlink() || metadata.mode() & OTHERS == 0 {
        return Ok(false);
    }
    let mode = metadata.mode() & 0o700;
    let restricted = match std::fs::set_permissions(path, Permissions::from_mode(mode)) {
        // another process has just removed it
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
        restricted => restricted,
    };
    restricted.map(|()| true).map_err(|e| {
        let failure =
            Failure::environment(format!("other users can read {}, and runs may contain secrets", path.display()));
        let why = match e.kind() {
            ErrorKind::PermissionDenied => format!("it belongs to user {}", metadata.uid()),
            _ => e.to_string(),
        };
        failure
            .why(format!("its mode is {:o} and cannot be changed: {why}", metadata.mode() & 0o777))
            .next("let its owner run `chmod -R go=` on it, or use another store with --home DIR")
    })
}

fn restrict_contents(directory: &Path) -> Result<(), Failure> {
    let unreadable = |e: io::Error| Failure::environment(format!("cannot list {}: {e}", directory.display()));
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        // another process may have just removed it
        let Ok(metadata) = entry.metadata() else { continue };
        restrict(&entry.path(), &metadata)?;
        if metadata.is_dir() {
            restrict_contents(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[tokio::test]
    async fn an_existing_directory_with_wider_rights_is_corrected() {
        let parent = std::env::temp_dir().join(format!("faultloom-private-{}", std::process::id()));
        let home = parent.join(".faultloom");
        let _ = std::fs::remove_dir_all(&parent);
        std::fs::create_dir_all(&home).unwrap();
        set_mode(&home, 0o755);
        let store = crate::Store::open(&home).await.unwrap();
        let (run, dir) = store.begin(model::KindName::new("recording"), "a", serde_json::Value::Null, 0).await.unwrap();
        dir.write("trace.json", b"{}").unwrap();
        dir.append_file("cases.jsonl").unwrap().append(&[1u32]).unwrap();
        let runs = home.join("runs");
        let directories = [&home, &runs, &dir.path().to_owned()];
        let files = [home.join("store.db"), dir.file("trace.json"), dir.file("cases.jsonl"), dir.file("lock")];
        let assert_private = || {
            directories.iter().for_each(|path| assert_eq!(mode(path), 0o700, "{}", path.display()));
            files.iter().for_each(|path| assert_eq!(mode(path), 0o600, "{}", path.display()));
        };
        assert_private();
        // as after a copy, or written by an older version
        directories.iter().for_each(|path| set_mode(path, 0o755));
        files.iter().for_each(|path| set_mode(path, 0o644));
        drop(crate::Store::open(&home).await.unwrap());
        assert_private();
        assert_eq!(store.find("last").await.unwrap().id, run.id);
        std::fs::remove_dir_all(parent).unwrap();
    }

    #[tokio::test]
    async fn other_files_in_the_directory_stay_readable() {
        let home = std::env::temp_dir().join(format!("faultloom-shared-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&home);
        std::fs::create_dir(&home).unwrap();
        std::fs::write(home.join("notes"), "x").unwrap();
        set_mode(&home, 0o755);
        set_mode(&home.join("notes"), 0o644);
        drop(crate::Store::open(&home).await.unwrap());
        std::fs::write(home.join("store.db.before-v9"), "x").unwrap();
        set_mode(&home.join("store.db.before-v9"), 0o644);
        drop(crate::Store::open(&home).await.unwrap());
        assert_eq!((mode(&home), mode(&home.join("notes"))), (0o755, 0o644));
        assert_eq!(mode(&home.join("store.db.before-v9")), 0o600);
        assert_eq!((mode(&home.join("runs")), mode(&home.join("store.db"))), (0o700, 0o600));
        std::fs::remove_dir_all(home).unwrap();
    }
}
