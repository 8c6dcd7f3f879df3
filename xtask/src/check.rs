//! `make check`: format, lint, layering, unit tests, vectors. About two minutes.

use crate::conform;
use crate::programs;
use crate::shell::{command, quiet, root, run};
use crate::stage::Stages;
use std::collections::BTreeMap;

pub fn check() -> Result<(), String> {
    let mut stages = Stages::new();
    stages.run("format", format)?;
    stages.run("layers", layers)?;
    stages.run("places", places)?;
    stages.run("lint", lint)?;
    stages.run("unit tests", || {
        run(&mut command("cargo", &["test", "--quiet", "--workspace", "--lib", "--bins"])).map(|()| "Rust".into())
    })?;
    stages.run("drift", || conform::drift().map(|()| "spec/vectors".into()))?;
    stages.run("programs", programs::drift)?;
    println!();
    conform::conform()
}

pub fn format() -> Result<String, String> {
    quiet(&mut command("cargo", &["fmt", "--all", "--check"])).map_err(|e| format!("{e}\n  next: cargo fmt --all"))?;
    let unformatted =
        quiet(&mut command("gofmt", &["-l", "sdk/go", "lab/shop/go", "lab/relay/go", "lab/collector", "bench"]))?;
    let files = String::from_utf8_lossy(&unformatted.stdout).into_owned();
    if files.is_empty() { Ok("Rust, Go".into()) } else { Err(format!("not formatted (gofmt -w):\n{files}")) }
}

pub fn lint() -> Result<String, String> {
    quiet(&mut command("cargo", &["clippy", "--quiet", "--workspace", "--all-targets", "--", "--deny", "warnings"]))?;
    let with_postgres = ["--package", "flowdb", "--features", "postgres", "--all-targets", "--", "--deny", "warnings"];
    quiet(command("cargo", &["clippy", "--quiet"]).args(with_postgres))?;
    for module in ["sdk/go", "sdk/go/newest", "lab/shop/go", "bench/tracing"] {
        quiet(command("go", &["vet", "./..."]).current_dir(root().join(module)))?;
    }
    Ok("clippy, go vet".into())
}

/// The layer of a folder; a crate may use layers below its own, and crates of `base` one another.
const LAYERS: [(&str, u8); 10] = [
    ("base", 0),
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

/// One-way dependencies: base; then observe, break, harden; then study; then app; then serve; then cli. Siblings meet in base and in the store.
pub fn layers() -> Result<String, String> {
    let mut homes: BTreeMap<String, (String, u8)> = BTreeMap::new();
    let mut manifests = Vec::new();
    for path in manifest_paths()? {
        let text = std::fs::read_to_string(root().join(&path)).map_err(|e| format!("{path}: {e}"))?;
        let top = path.split('/').next().unwrap_or_default().to_owned();
        let layer = LAYERS.iter().find(|(folder, _)| *folder == top).map(|(_, layer)| *layer);
        let layer = layer.ok_or_else(|| format!("{path}: '{top}' is no folder of the layout"))?;
        let name = text.lines().find_map(|l| l.strip_prefix("name = \"")).and_then(|l| l.strip_suffix('"'));
        homes.insert(name.ok_or_else(|| format!("{path} has no name"))?.to_owned(), (top.clone(), layer));
        manifests.push((path, top, layer, text));
    }
    let mut wrong = Vec::new();
    for (path, top, layer, text) in &manifests {
        for dependency in dependencies(text) {
            let Some((other, below)) = homes.get(&dependency) else { continue };
            let allowed = below < layer || (other == top && top == "base");
            if !allowed {
                wrong.push(format!("{path}: {top} must not use {dependency} of {other}"));
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

/// Names under [dependencies]; what tests alone use may come from anywhere.
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

/// Nothing in the repository names a place on the machine it was written on, or a host that packages come from.
pub fn places() -> Result<String, String> {
    let home = std::env::var("HOME").unwrap_or_default();
    let here = root().to_string_lossy().into_owned();
    for needle in [here.as_str(), home.as_str()] {
        // a home of `/` or `/root` would find too much that is meant
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
    fn only_real_dependencies_count() {
        let manifest = "[package]\nname = \"a\"\n[dependencies]\nmodel.workspace = true\nclap = { workspace = true }\n[dev-dependencies]\nstore.workspace = true\n";
        assert_eq!(super::dependencies(manifest), ["model", "clap"]);
    }
}
