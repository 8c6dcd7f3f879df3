//! `make package`: everything that users install, in `out/package`.
//!
//! ```text
//! faultloom_VERSION_amd64.deb   the tool, the SDKs, completions, man pages, the unit of the agent, a sample
//! faultloom-VERSION-x86_64      the tool alone
//! *.whl, *.tgz                  the SDKs for Python and Node.js
//! maven/, go/                   repositories of files for the SDKs for Java and Go
//! sbom.cdx.json, SHA256SUMS
//! ```

mod clean_root;
mod deb;
mod sbom;
mod sdks;
mod tool;

pub use clean_root::{CleanRoot, test, uses};

use crate::setup;
use crate::shell::{command, quiet, root};
use crate::steps::Steps;
use std::path::{Path, PathBuf};

/// How the tool is compiled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// Optimized, for a glibc of 2021.
    Release,
    /// As `make test` has built it, for this machine: to test everything but the compiler's options.
    AsTested,
}

pub fn folder() -> PathBuf {
    root().join("out/package")
}

pub fn deb() -> PathBuf {
    deb::path(&folder())
}

pub fn binary() -> PathBuf {
    tool::path(&folder())
}

pub fn package(build: Build) -> Result<(), String> {
    let folder = folder();
    let _ = std::fs::remove_dir_all(&folder);
    create(&folder)?;
    let mut steps = Steps::new();
    steps.run("tool", || tool::build(build, &folder))?;
    steps.run("sdks", || sdks::build(&folder))?;
    steps.run("deb", || deb::build(build, &folder))?;
    steps.run("sbom", || sbom::write(&folder))?;
    steps.run("sums", || sums(&folder))
}

/// As in Cargo.toml.
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Python with the tools of `package-requirements.txt`.
fn python_tools() -> Result<PathBuf, String> {
    setup::venv("out/package-tools", "xtask/package-requirements.txt")?;
    Ok(root().join("out/package-tools/bin"))
}

fn create(folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map(|_| ()).map_err(|e| format!("{} to {}: {e}", from.display(), to.display()))
}

/// Of all files, in the order of their names.
fn sums(folder: &Path) -> Result<String, String> {
    let list = "find . -type f ! -name SHA256SUMS | LC_ALL=C sort | xargs sha256sum";
    let sums = quiet(command("sh", &["-c", list]).current_dir(folder))?;
    let text = String::from_utf8_lossy(&sums.stdout).into_owned();
    write(&folder.join("SHA256SUMS"), &text)?;
    Ok(format!("{} files", text.lines().count()))
}
