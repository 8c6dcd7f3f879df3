//! Status files that the SDKs of running services write (`docs/formats/messages.md`, "Status file").
//!
//! The target writes them, so unreadable files are ignored, sizes are limited, and only running processes count.

use serde::{Deserialize, Serialize};
use std::path::Path;

const FILES_MAX: usize = 1000;
const BYTES_MAX: u64 = 64 * 1024;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Status {
    pub service: String,
    pub pid: i64,
    pub sdk: String,
    pub version: String,
    pub runtime: String,
    /// `keys`, or why the SDK is inactive.
    pub trust: String,
    #[serde(default)]
    pub libraries: Vec<Library>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Library {
    pub name: String,
    pub version: String,
    /// `hooked` or `refused`.
    pub state: String,
    #[serde(default)]
    pub reason: String,
}

impl Status {
    pub fn has_keys(&self) -> bool {
        self.trust == "keys"
    }

    pub fn refused(&self) -> impl Iterator<Item = &Library> {
        self.libraries.iter().filter(|library| library.state == "refused")
    }

    /// `node 0.3.0, v20.20.2, express 5.1.0`.
    pub fn versions(&self) -> String {
        let hooked = self.libraries.iter().filter(|library| library.state == "hooked");
        let mut parts = vec![format!("{} {}", self.sdk, self.version), self.runtime.clone()];
        parts.extend(hooked.map(|library| format!("{} {}", library.name, library.version)));
        parts.retain(|part| !part.trim().is_empty());
        parts.join(", ")
    }
}

/// The status files in these folders whose process is running, in no particular order.
pub fn read(folders: &[&Path]) -> Vec<Status> {
    let mut found = Vec::new();
    for folder in folders {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(FILES_MAX);
        for entry in entries.filter(|entry| entry.path().extension().is_some_and(|end| end == "json")) {
            if entry.metadata().is_ok_and(|data| data.len() <= BYTES_MAX)
                && let Ok(text) = std::fs::read_to_string(entry.path())
                && let Ok(status) = serde_json::from_str::<Status>(&text)
                && Path::new(&format!("/proc/{}", status.pid)).exists()
            {
                found.push(status);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_readable_files_of_running_processes_are_returned() {
        let folder = std::env::temp_dir().join(format!("faultloom-status-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let status = |pid: u32| {
            format!(
                r#"{{"service":"a","pid":{pid},"sdk":"node","version":"0.3.0","runtime":"v20","trust":"keys","later":1,
                "libraries":[{{"name":"express","version":"5","state":"hooked","reason":""}},
                {{"name":"old","version":"1","state":"refused","reason":"too old"}}]}}"#
            )
        };
        std::fs::write(folder.join("a.1.json"), status(std::process::id())).unwrap();
        std::fs::write(folder.join("a.2.json"), status(4_194_305)).unwrap(); // above the kernel's highest pid
        std::fs::write(folder.join("broken.json"), "{").unwrap();
        std::fs::write(folder.join("other.txt"), status(std::process::id())).unwrap();
        let found = read(&[&folder, Path::new("/nowhere")]);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].versions(), "node 0.3.0, v20, express 5");
        assert_eq!(found[0].refused().map(|l| l.name.as_str()).collect::<Vec<_>>(), ["old"]);
        assert!(found[0].has_keys());
    }
}
