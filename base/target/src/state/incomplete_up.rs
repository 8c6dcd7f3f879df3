//! Files of an `up` that was killed, with its reaper, before it had written its state. Nothing else names them, and
//! they may hold keys.

use crate::state::{status_dir, trust_file, up_state};
use std::fs;
use std::path::Path;

/// Removes them. The caller holds the lock of the folder. Does nothing if a state is stored: then the files may be its
/// own.
pub(crate) fn remove(state_dir: &Path) {
    let state = up_state::state_file(state_dir);
    if state.exists() {
        return;
    }
    let files = [state, status_dir::path(state_dir), state_dir.join(trust_file::NAME)];
    let names: Vec<&str> = files.iter().filter_map(|file| file.file_name()?.to_str()).collect();
    for entry in fs::read_dir(state_dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_own = |name: &str| names.iter().any(|own| name.strip_prefix(own).is_some_and(is_temporary));
        if !name.to_str().is_some_and(is_own) {
            continue;
        }
        let _ = match entry.file_type() {
            Ok(kind) if kind.is_dir() => fs::remove_dir_all(entry.path()),
            _ => fs::remove_file(entry.path()),
        };
    }
}

/// Nothing, or what `atomic_file::temporary` appends.
fn is_temporary(rest: &str) -> bool {
    let pid = rest.strip_prefix('.').and_then(|rest| rest.strip_suffix(".new"));
    rest.is_empty() || pid.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};

    #[test]
    fn nothing_of_an_incomplete_up_remains() {
        let folder = std::env::temp_dir().join(format!("faultloom-incomplete-up-{}", std::process::id()));
        let path = |name: &str| folder.join(name);
        create_dir_all(path("status.17.new")).unwrap();
        create_dir_all(path("status")).unwrap();
        create_dir_all(path("logs")).unwrap();
        for name in ["status/.up", "trust", "trust.9.new", "up.json.17.new", "lock", "trust.new", "trust.x.new"] {
            write(path(name), "text").unwrap();
        }
        let remaining = || {
            remove(&folder);
            let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
            names.sort();
            names
        };
        assert_eq!(remaining(), ["lock", "logs", "trust.new", "trust.x.new"]);
        // the files of an `up` that can be named by its state
        create_dir_all(path("status")).unwrap();
        write(path("up.json"), "{}").unwrap();
        assert_eq!(remaining(), ["lock", "logs", "status", "trust.new", "trust.x.new", "up.json"]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
