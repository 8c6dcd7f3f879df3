//! Builds the replay shim, a shared object in C: a library that is preloaded between a server and libc must not bring
//! its own runtime.

use std::path::{Path, PathBuf};
use std::process::Command;

const FLAGS: [&str; 12] = [
    "-shared",
    "-fPIC",
    "-O2",
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fvisibility=hidden",
    // canaries are in the thread control block, which a switch between virtual threads replaces
    "-fno-stack-protector",
    "-U_FORTIFY_SOURCE",
    "-Wl,-z,defs,-z,now,-z,relro",
    "-o",
];

fn main() {
    println!("cargo::rerun-if-changed=shim");
    println!("cargo::rerun-if-env-changed=CC");
    let sources = sources(Path::new("shim"));
    let object = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets the output folder"));
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    match Command::new(&compiler).args(FLAGS).arg(object.join("replay.so")).args(&sources).status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("{compiler} failed on the replay shim: {status}")),
        Err(e) => fail(&format!("no C compiler for the replay shim: {compiler}: {e}; install gcc, or set CC")),
    }
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(folder).expect("the shim's sources are beside this file");
    let mut sources: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    sources.sort();
    sources
}

fn fail(why: &str) -> ! {
    println!("cargo::error={why}");
    std::process::exit(1)
}
