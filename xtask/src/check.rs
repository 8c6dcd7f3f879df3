//! `make check`: the checks before each commit. There is one area per toolchain, so that an area needs only its own
//! tools.

pub mod links;
pub mod names;
pub mod width;
pub mod words;

use crate::areas::{self, Area};
use crate::shell::{command, quiet, root};
use crate::{cargo, conform, support};
use std::collections::BTreeMap;
use std::time::Instant;

fn areas() -> Vec<Area> {
    let area = |name, budget_min, work| Area { name, budget_min, needs: &[], alone: false, work };
    vec![
        area("rust", 3, rust),
        area("text", 1, text),
        area("go", 1, go),
        area("python", 1, || conform::conform_of(&["python"])),
        area("node", 1, || conform::conform_of(&["node"])),
        area("java", 1, || conform::conform_of(&["java"])),
    ]
}

/// Runs all areas, or the named ones.
pub fn check(only: &[&str]) -> Result<(), String> {
    let all = areas();
    if let Some(unknown) = only.iter().find(|name| all.iter().all(|area| area.name != **name)) {
        let names: Vec<&str> = all.iter().map(|area| area.name).collect();
        return Err(format!("there is no area '{unknown}'; areas: {}", names.join(", ")));
    }
    let begin = Instant::now();
    let chosen = all.into_iter().filter(|area| only.is_empty() || only.contains(&area.name)).collect();
    let ended = areas::run(chosen, "check")?;
    let failed: Vec<&str> = ended.iter().filter(|area| area.result.is_err()).map(|area| area.name).collect();
    println!("\n {:.0} s; logs: out/check/AREA.log", begin.elapsed().as_secs_f64());
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

fn rust() -> Result<String, String> {
    format_rust()?;
    layers()?;
    cargo::clippy()?;
    let tests = cargo::unit_tests()?;
    Ok(format!("format, layers, clippy, {tests}"))
}

/// Checks of all text: nothing here needs a toolchain.
pub fn text() -> Result<String, String> {
    let checks = [machine_paths, links::check, words::check, width::check, names::check, support::check];
    Ok(checks.iter().map(|check| check()).collect::<Result<Vec<String>, String>>()?.join(", "))
}

fn go() -> Result<String, String> {
    format_go()?;
    vet()?;
    conform::conform_of(&["go"]).map(|sums| format!("gofmt, vet, vectors: {sums}"))
}

pub fn format() -> Result<(), String> {
    format_rust()?;
    format_go()
}

fn format_rust() -> Result<(), String> {
    quiet(&mut command("cargo", &["fmt", "--all", "--check"]))
        .map(|_| ())
        .map_err(|e| format!("{e}\n  next: cargo fmt --all"))
}

fn format_go() -> Result<(), String> {
    let lab = ["lab/shop/go", "lab/relay/go", "lab/bookstore/go", "lab/collector"];
    let unformatted = quiet(command("gofmt", &["-l", "sdk/go", "bench"]).args(lab))?;
    let files = String::from_utf8_lossy(&unformatted.stdout).into_owned();
    if files.is_empty() { Ok(()) } else { Err(format!("not formatted (gofmt -w):\n{files}")) }
}

pub fn lint() -> Result<(), String> {
    cargo::clippy()?;
    vet()
}

fn vet() -> Result<(), String> {
    for module in ["sdk/go", "sdk/go/newest", "lab/shop/go", "lab/bookstore/go", "bench/tracing", "bench/contexts/go"] {
        quiet(command("go", &["vet", "./..."]).current_dir(root().join(module)))?;
    }
    Ok(())
}

/// Top-level folders and their layers. A crate may depend on lower layers. Crates of `base` may also depend on each
/// other.
const LAYERS: [(&str, u8); 11] = [
    ("base", 0),
    ("ui", 0),
    ("observe", 1),
    ("break", 1),
    ("harden", 1),
    ("study", 2),
    ("app", 3),
    ("serve", 4),
    ("cli", 5),
    ("lab", 6),
    ("xtask", 7),
];

/// Fails if a crate depends on its own or a higher layer, see [`LAYERS`]. Folders of the same layer share code through
/// `base` only.
pub fn layers() -> Result<String, String> {
    let mut locations: BTreeMap<String, (String, u8)> = BTreeMap::new();
    let mut manifests = Vec::new();
    for path in manifest_paths()? {
        let text = std::fs::read_to_string(root().join(&path)).map_err(|e| format!("{path}: {e}"))?;
        let top = path.split('/').next().unwrap_or_default().to_owned();
        let layer = LAYERS.iter().find(|(folder, _)| *folder == top).map(|(_, layer)| *layer);
        let layer = layer.ok_or_else(|| format!("{path}: folder '{top}' has no layer"))?;
        let name = text.lines().find_map(|l| l.strip_prefix("name = \"")).and_then(|l| l.strip_suffix('"'));
        locations.insert(name.ok_or_else(|| format!("{path} has no name"))?.to_owned(), (top.clone(), layer));
        manifests.push((path, top, layer, text));
    }
    let mut wrong = Vec::new();
    for (path, top, layer, text) in &manifests {
        for dependency in dependencies(text) {
            let Some((other, dependency_layer)) = locations.get(&dependency) else { continue };
            let allowed = dependency_layer < layer || (other == top && top == "base");
            if !allowed {
                wrong.push(format!("{path}: {top} must not depend on {dependency} in {other}"));
            }
        }
    }
    if wrong.is_empty() { Ok(format!("{} crates", manifests.len())) } else { Err(wrong.join("\n")) }
}

fn manifest_paths() -> Result<Vec<String>, String> {
    let output =
        quiet(&mut command("git", &["ls-files", "--cached", "--others", "--exclude-standard", "*/Cargo.toml"]))?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// Names in `[dependencies]`. Dev-dependencies are not restricted.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut inside = false;
    let mut names = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line == "[dependencies]";
        } else if inside && let Some((name, _)) = line.split_once(['.', '=', ' ']) {
            names.push(name.trim().to_owned());
        }
    }
    names
}

/// Paths and contents of the text files that `git ls-files` selects by `pathspecs`, new files included. Binary and
/// deleted files are left out.
pub fn text_files(pathspecs: &[&str]) -> Result<Vec<(String, String)>, String> {
    let mut listing = command("git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]);
    let listed = quiet(listing.args(pathspecs))?;
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    let read = |name: &str| Some((name.to_owned(), std::fs::read_to_string(root().join(name)).ok()?));
    Ok(names.split('\0').filter(|name| !name.is_empty()).filter_map(read).collect())
}

/// Fails if a tracked file contains the path of this checkout or of the home directory.
pub fn machine_paths() -> Result<String, String> {
    let home = std::env::var("HOME").unwrap_or_default();
    let here = root().to_string_lossy().into_owned();
    for needle in [here.as_str(), home.as_str()] {
        // short paths such as `/` or `/root` have intended uses
        if needle.len() < 6 {
            continue;
        }
        let output =
            command("git", &["grep", "-nIF", needle, "--", ".", ":!*.lock"]).output().map_err(|e| e.to_string())?;
        let found = String::from_utf8_lossy(&output.stdout).into_owned();
        if !found.is_empty() {
            return Err(format!("machine paths in tracked files:\n{found}"));
        }
    }
    Ok("no machine paths".into())
}

#[cfg(test)]
mod tests {
    #[test]
    fn dev_dependencies_are_ignored() {
        let manifest = "[package]\nname = \"a\"\n[dependencies]\nmodel.workspace = true\nclap = { workspace = true }\n[dev-dependencies]\nstore.workspace = true\n";
        assert_eq!(super::dependencies(manifest), ["model", "clap"]);
    }
}
