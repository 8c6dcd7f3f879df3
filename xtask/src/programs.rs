//! The programs that the agent loads into the kernel: built ahead and committed, so that nobody who builds or runs the
//! tool needs a compiler for them. Built with one version of one compiler, so that the object can be compared.

use crate::setup::{self, Package};
use crate::shell::{is_installed, quiet, root};
use std::path::Path;
use std::process::Command;

const FOLDER: &str = "observe/sockets/bpf";
const SOURCE: &str = "sockets.bpf.c";
const OBJECT: &str = "sockets.bpf.o";

const CLANG: Package = Package { name: "clang-14", program: "clang-14" };
const STRIP: Package = Package { name: "llvm-14", program: "llvm-strip-14" };
const HEADERS: &str = "/usr/include/bpf/bpf_helpers.h";

/// Rewrites the committed object.
pub fn bless() -> Result<(), String> {
    match missing() {
        Some(what) => println!("skipped: the kernel's programs are not built again ({what})"),
        None => build(&root().join(FOLDER).join(OBJECT))?,
    }
    Ok(())
}

/// Fails if the committed object is not what its source makes. Says what it did.
pub fn drift() -> Result<String, String> {
    if let Some(what) = missing() {
        println!("skipped: the kernel's programs are not compared ({what})");
        return Ok("skipped".into());
    }
    let fresh = root().join("out").join(OBJECT);
    std::fs::create_dir_all(root().join("out")).map_err(|e| format!("out: {e}"))?;
    build(&fresh)?;
    let read = |path: &Path| std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()));
    if read(&fresh)? == read(&root().join(FOLDER).join(OBJECT))? {
        Ok(format!("{FOLDER}/{OBJECT}"))
    } else {
        Err(format!("{FOLDER}/{OBJECT} is stale (make bless)"))
    }
}

/// What the compiler lacks, after an attempt to install it.
fn missing() -> Option<String> {
    if complete() {
        return None;
    }
    let headers = Package { name: "libbpf-dev", program: "clang-14" };
    let installed = setup::install_all(&[&CLANG, &STRIP, &headers]);
    if complete() { None } else { Some(installed.err().unwrap_or_else(|| format!("{HEADERS} is not there"))) }
}

fn complete() -> bool {
    is_installed(CLANG.program) && is_installed(STRIP.program) && Path::new(HEADERS).exists()
}

/// Line information stays, for the kernel's verifier to quote; the folder it was built in does not.
fn build(object: &Path) -> Result<(), String> {
    let folder = root().join(FOLDER);
    let map = format!("-fdebug-prefix-map={}=.", folder.display());
    let mut clang = Command::new(CLANG.program);
    clang.args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", &map, "-c", SOURCE, "-o"]);
    quiet(clang.arg(object).current_dir(&folder))?;
    quiet(Command::new(STRIP.program).arg("-g").arg(object)).map(|_| ())
}
