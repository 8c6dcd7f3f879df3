//! The binary of the tool.

use super::{Build, copy, python_tools, version};
use crate::setup;
use crate::shell::{built, command, quiet, root, run, text};
use std::path::{Path, PathBuf};

/// The newest glibc that it may need: Debian 11, Ubuntu 20.04, RHEL 9.
const GLIBC_MAX: (u32, u32) = (2, 31);
const GNU: &str = "x86_64-unknown-linux-gnu";
const MUSL: &str = "x86_64-unknown-linux-musl";

pub fn path(folder: &Path) -> PathBuf {
    folder.join(format!("faultloom-{}-x86_64", version()))
}

pub fn build(build: Build, folder: &Path) -> Result<String, String> {
    let binary = path(folder);
    if build == Build::AsTested {
        setup::build_tool()?;
        // the symbols are ten times as large as the program
        quiet(&mut command("strip", &["-o", &binary.to_string_lossy(), &built("faultloom")]))?;
        return Ok(megabytes(&binary));
    }
    let (major, minor) = GLIBC_MAX;
    compile(&format!("{GNU}.{major}.{minor}"))?;
    copy(&target(GNU), &binary)?;
    let newest = newest_glibc(&binary)?;
    if newest > GLIBC_MAX {
        return Err(format!("the tool needs glibc {}.{}, which is newer than {major}.{minor}", newest.0, newest.1));
    }
    let mut summary = format!("{}, glibc {}.{} or newer", megabytes(&binary), newest.0, newest.1);
    if text("rustup", &["target", "list", "--installed"]).lines().any(|installed| installed == MUSL) {
        compile(MUSL)?;
        copy(&target(MUSL), &folder.join(format!("faultloom-{}-x86_64-musl", version())))?;
        summary += ", and a static one";
    } else {
        summary += "; no static one: Rust's musl target is not installed";
    }
    Ok(summary)
}

/// With zig as the linker and C compiler, which has the symbols of every version of glibc.
fn compile(target: &str) -> Result<(), String> {
    let tools = python_tools()?;
    let path = std::env::var("PATH").unwrap_or_default();
    let arguments = ["zigbuild", "--quiet", "--profile", "shipped", "--package", "faultloom"];
    let mut cargo = command("cargo", &arguments);
    cargo
        .args(["--features", "postgres", "--target", target])
        .env("PATH", format!("{}:{path}", tools.display()))
        .env("FAULTLOOM_COMMIT", text("git", &["rev-parse", "--short=12", "HEAD"]));
    run(&mut cargo)
}

fn target(target: &str) -> PathBuf {
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    folder.join(target).join("shipped/faultloom")
}

fn megabytes(path: &Path) -> String {
    let bytes = std::fs::metadata(path).map_or(0, |data| data.len());
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// The newest version of glibc whose symbols it imports.
fn newest_glibc(binary: &Path) -> Result<(u32, u32), String> {
    let symbols = quiet(&mut command("readelf", &["--version-info", "--wide", &binary.to_string_lossy()]))?;
    newest_of(&String::from_utf8_lossy(&symbols.stdout)).ok_or_else(|| "the tool imports nothing from glibc".to_owned())
}

fn newest_of(symbols: &str) -> Option<(u32, u32)> {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let text: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        let mut parts = text.split('.').map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    });
    versions.max()
}

#[cfg(test)]
mod tests {
    use super::newest_of;

    #[test]
    fn the_newest_version_is_found_by_number() {
        assert_eq!(newest_of("Name: GLIBC_2.9  Flags\n Name: GLIBC_2.28 Name: GLIBC_2.2.5"), Some((2, 28)));
        assert_eq!(newest_of("GLIBC_PRIVATE"), None);
    }
}
