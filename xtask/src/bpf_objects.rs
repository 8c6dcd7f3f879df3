//! The BPF programs of the agent. The compiled object is committed, so that building and running the tool needs no BPF
//! compiler. It is built with one fixed compiler version, so that it can be compared.

use crate::setup::{self, Package};
use crate::shell::{is_installed, quiet, root};
use std::path::Path;
use std::process::Command;

const DIRECTORY: &str = "observe/sockets/bpf";
const SOURCE: &str = "sockets.bpf.c";
const OBJECT: &str = "sockets.bpf.o";

const CLANG: Package = Package { name: "clang-14", program: "clang-14" };
const STRIP: Package = Package { name: "llvm-14", program: "llvm-strip-14" };
const HEADERS: &str = "/usr/include/bpf/bpf_helpers.h";

/// Rewrites the committed object.
pub fn bless() -> Result<(), String> {
    match missing() {
        Some(what) => println!("skipped: the BPF object is not rebuilt ({what})"),
        None => build(&root().join(DIRECTORY).join(OBJECT))?,
    }
    Ok(())
}

/// Rebuilds the object and compares it with the committed one. Returns what was compared; fails if they differ.
pub fn drift() -> Result<String, String> {
    if let Some(what) = missing() {
        println!("skipped: the BPF object is not compared ({what})");
        return Ok("skipped".into());
    }
    let fresh = root().join("out").join(OBJECT);
    std::fs::create_dir_all(root().join("out")).map_err(|e| format!("out: {e}"))?;
    build(&fresh)?;
    let read = |path: &Path| std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()));
    if read(&fresh)? == read(&root().join(DIRECTORY).join(OBJECT))? {
        Ok(format!("{DIRECTORY}/{OBJECT}"))
    } else {
        Err(format!("{DIRECTORY}/{OBJECT} is stale (make bless)"))
    }
}

/// Tries to install missing tools. Returns what is still missing.
fn missing() -> Option<String> {
    if complete() {
        return None;
    }
    let headers = Package { name: "libbpf-dev", program: "clang-14" };
    let installed = setup::install_all(&[&CLANG, &STRIP, &headers]);
    if complete() { None } else { Some(installed.err().unwrap_or_else(|| format!("{HEADERS} is not installed"))) }
}

fn complete() -> bool {
    is_installed(CLANG.program) && is_installed(STRIP.program) && Path::new(HEADERS).exists()
}

/// Keeps line information, which the kernel's verifier prints, but not the path of the build directory.
fn build(object: &Path) -> Result<(), String> {
    let directory = root().join(DIRECTORY);
    let map = format!("-fdebug-prefix-map={}=.", directory.display());
    let mut clang = Command::new(CLANG.program);
    clang.args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", &map, "-c", SOURCE, "-o"]);
    quiet(clang.arg(object).current_dir(&directory))?;
    quiet(Command::new(STRIP.program).arg("-g").arg(object)).map(|_| ())
}
