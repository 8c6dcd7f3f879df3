//! Writes `spec/vectors` from the reference implementation: `wire-vectors DIR`. The diff is reviewed like code.

mod book;
mod bridges;
mod carriers;
mod connections;
mod envelopes;
mod faults;
mod histories;
mod hooks;
mod joins;
mod names;
mod otlp;
mod refused;
mod scopes;
mod steps;
mod streams;
mod unscoped;

use std::path::PathBuf;

fn main() {
    let dir = PathBuf::from(std::env::args().nth(1).expect("usage: wire-vectors VECTOR-DIR"));
    write_all(dir);
}

/// Replaces everything in `dir`.
fn write_all(dir: PathBuf) {
    for group in ["good", "bad"] {
        let folder = dir.join(group);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("the vector folder is writable");
    }
    let book = book::Book { dir };
    for write in [
        envelopes::write,
        refused::write,
        bridges::write,
        scopes::write,
        faults::write,
        hooks::write,
        streams::write,
        unscoped::write,
        connections::write,
        joins::write,
        histories::write,
        otlp::write,
        carriers::write,
        names::write,
    ] {
        write(&book);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    fn files(dir: &Path) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for group in ["good", "bad"] {
            for entry in std::fs::read_dir(dir.join(group)).unwrap() {
                let path = entry.unwrap().path();
                let name = format!("{group}/{}", path.file_name().unwrap().to_string_lossy());
                files.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
        files
    }

    #[test]
    fn committed_vectors_are_what_the_reference_implementation_writes() {
        let fresh = std::env::temp_dir().join(format!("wire-vectors-{}", std::process::id()));
        super::write_all(fresh.clone());
        let written = files(&fresh);
        let _ = std::fs::remove_dir_all(&fresh);
        let committed = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/vectors"));
        let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&written), names(&committed), "run `make bless`");
        let stale: Vec<&String> = written.keys().filter(|name| written[*name] != committed[*name]).collect();
        assert!(stale.is_empty(), "stale: {stale:?}; run `make bless` and review the diff");
    }
}
