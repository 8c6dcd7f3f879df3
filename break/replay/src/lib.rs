//! The replay shim: preloaded into an unmodified server, it plays an input trace to the server over virtual connections
//! and records the output of each.
//!
//! SEI §7 changed memcached to read commands from a file and to write its responses to another. Here the server is
//! unmodified, and everything that a fork would share (sockets, epoll instances, pipes, threads) is ordinary memory of
//! the process. The sources are in `shim/`, the formats in [`model::replay`] and `docs/formats/replay.md`.

pub mod memcached_input;

use model::Failure;
use model::replay::SHIM_NAME;
use std::path::{Path, PathBuf};

/// The shared object.
pub const SHIM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/replay.so"));

/// Writes the shared object to a folder and returns its path. An existing file of that name is replaced.
pub fn write(folder: &Path) -> Result<PathBuf, Failure> {
    let path = folder.join(SHIM_NAME);
    std::fs::write(&path, SHIM).map_err(|e| {
        Failure::environment(format!("the replay shim cannot be written to {}", path.display()))
            .why(e.to_string())
            .next("make the folder writable, or choose another")
    })?;
    Ok(path)
}

/// The constants of the formats are those of the shim's sources.
#[cfg(test)]
mod tests {
    use model::replay::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    #[test]
    fn exit_statuses_match_the_source() {
        let source = include_str!("../shim/records.h");
        for (name, ending) in [
            ("END_DEADLOCK", Ending::Deadlock),
            ("END_STUCK", Ending::Stuck),
            ("END_REFUSED", Ending::Refused),
            ("END_UNFIT", Ending::Unfit),
        ] {
            assert!(source.contains(&format!("{name} = {},", ending as i32)), "{name}");
        }
    }

    #[test]
    fn settings_match_the_source() {
        let source = include_str!("../shim/start.c");
        for name in [INPUT, OUTPUT, WIDTH, SEED] {
            assert!(source.contains(&format!("(\"{name}\"")), "{name}");
        }
    }

    #[test]
    fn limits_of_traces_match_the_source() {
        let source = include_str!("../shim/trace.h");
        assert!(source.contains(&format!("#define TRACE_BYTES ({}u << 20)", TRACE_BYTES >> 20)));
        assert!(source.contains(&format!("#define CONNECTIONS {CONNECTIONS}\n")));
        assert!(source.contains(&format!("#define ANSWERS {ANSWERS}\n")));
    }

    #[test]
    fn records_match_the_source() {
        let source = include_str!("../shim/records.h");
        assert!(source.contains(&format!("#define RECORD_BYTES ({}u << 20)", RECORD_BYTES >> 20)));
        assert!(source.contains("│ \"FLRO\" 4  │ connection 4  │ length 4   │ bytes"));
        assert_eq!(MAGIC, b"FLRO");
    }

    /// The headers that each of the shim's parts includes, where a part is a header with the source of its name.
    /// `start.c` connects parts that must not include each other.
    fn shim_dependencies() -> BTreeMap<String, BTreeSet<String>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("shim");
        let mut parts = BTreeMap::<String, BTreeSet<String>>::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let included = text.lines().filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix(".h\""));
            let included = included.filter(|other| *other != name).map(str::to_owned);
            parts.entry(name.clone()).or_default().extend(included);
        }
        parts
    }

    #[test]
    fn parts_of_the_shim_do_not_depend_on_each_other_in_cycles() {
        let mut parts = shim_dependencies();
        while !parts.is_empty() {
            let free = parts.iter().find(|(_, uses)| uses.iter().all(|part| !parts.contains_key(part)));
            let name = free.map(|(name, _)| name.clone());
            let name = name.unwrap_or_else(|| panic!("a cycle among {:?}", parts.keys()));
            parts.remove(&name);
        }
    }

    /// The comment at the top of each source names what it uses.
    #[test]
    fn the_sources_state_their_dependencies() {
        for (name, uses) in shim_dependencies() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("shim").join(format!("{name}.c"));
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let head = text.split_once("*/").unwrap().0;
            let stated = head.split_once("Uses: ").unwrap_or_else(|| panic!("{name}.c states nothing")).1;
            let stated: BTreeSet<&str> =
                stated.split([',', ' ', '.', '\n', '*']).filter(|word| !word.is_empty()).collect();
            for part in uses.iter().filter(|part| *part != "kernel") {
                assert!(stated.contains(part.as_str()), "{name}.c does not state that it uses {part}");
            }
        }
    }
}
