//! Lists the files of the built app, so that they are part of the program.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("dist");
    println!("cargo:rerun-if-changed=dist");
    let mut files = Vec::new();
    collect(&dist, &mut files);
    files.sort();
    let mut list = String::from("[\n");
    for file in &files {
        let name = file.strip_prefix(&dist).expect("a file in dist").to_string_lossy().replace('\\', "/");
        writeln!(list, "    ({name:?}, include_bytes!({file:?}).as_slice()),").expect("a text can grow");
    }
    list.push(']');
    let out = std::env::var_os("OUT_DIR").expect("cargo sets it");
    std::fs::write(Path::new(&out).join("files.rs"), list).expect("the list can be written");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() { collect(&path, files) } else { files.push(path) }
    }
}
