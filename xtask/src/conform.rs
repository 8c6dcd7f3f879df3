//! Conformance: runs every SDK over every vector and compares the results.
//!
//! The reference implementation writes `expect` of each vector. The conformance programs do not read it.

pub mod mutants;

use crate::bpf_objects;
use crate::setup;
use crate::shell::{built, command, note, quiet, root, run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The reference implementation and the SDKs.
pub const LANGUAGES: [&str; 5] = ["reference", "go", "python", "java", "node"];

struct Program {
    name: &'static str,
    argv: Vec<String>,
}

/// Builds the programs of all languages and prints the parity table. An error names what differs.
pub fn conform() -> Result<String, String> {
    conform_of(&LANGUAGES)
}

/// Like [`conform`], for the named programs. Needs only their toolchains.
pub fn conform_of(names: &[&str]) -> Result<String, String> {
    let vectors = root().join("spec/vectors");
    let expected = expected(&vectors)?;
    let mut results: Vec<(&str, BTreeMap<String, String>)> = Vec::new();
    for name in names {
        let program = program(name)?;
        results.push((program.name, compute(&program, &vectors)?));
    }
    table(&expected, &results)
}

/// Runs a program over all vectors. Returns its result by vector name.
fn compute(program: &Program, vectors: &Path) -> Result<BTreeMap<String, String>, String> {
    let mut call = command(&program.argv[0], &[]);
    call.args(&program.argv[1..]).arg(vectors);
    let output = call.output().map_err(|e| format!("{}: {e}", program.name))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("the conformance program of {} failed ({})\n{errors}", program.name, output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter_map(|l| l.split_once(' '));
    Ok(lines.map(|(name, result)| (name.to_owned(), result.to_owned())).collect())
}

/// Builds a language's conformance program.
fn program(name: &str) -> Result<Program, String> {
    let path = |p: &str| root().join(p).to_string_lossy().into_owned();
    match name {
        "reference" => {
            crate::cargo::build(&["--package", "wire"])?;
            Ok(Program { name: "reference", argv: vec![built("wire-conform")] })
        }
        "go" => {
            let out = root().join("out/conform");
            std::fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
            let go = out.join("go-conform").to_string_lossy().into_owned();
            quiet(command("go", &["build", "-o", &go, "./cmd/faultloom-conform"]).current_dir(root().join("sdk/go")))?;
            Ok(Program { name: "go", argv: vec![go] })
        }
        "python" => {
            // PYTHONPATH, so that the package need not be installed
            let source = format!("PYTHONPATH={}", path("sdk/python/src"));
            let argv = ["env", &source, "python3", "-m", "faultloom.conform"].map(str::to_owned).to_vec();
            Ok(Program { name: "python", argv })
        }
        "java" => {
            setup::build_agent()?; // builds the whole Maven project, including conform
            let classes =
                format!("{}:{}", path("sdk/java/core/target/classes"), path("sdk/java/conform/target/classes"));
            let argv = ["java", "-cp", &classes, "dev.faultloom.conform.Main"].map(str::to_owned).to_vec();
            Ok(Program { name: "java", argv })
        }
        "node" => {
            setup::build_node_sdk()?;
            Ok(Program { name: "node", argv: vec!["node".to_owned(), path("sdk/typescript/dist/conform.js")] })
        }
        other => Err(format!("there is no conformance program for '{other}'")),
    }
}

/// Kind and canonical expected result by vector name.
fn expected(vectors: &Path) -> Result<BTreeMap<String, (String, String)>, String> {
    let mut all = BTreeMap::new();
    for group in ["good", "bad"] {
        let folder = vectors.join(group);
        for entry in std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))? {
            let path: PathBuf = entry.map_err(|e| e.to_string())?.path();
            let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            let vector: Value = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
            let name = format!("{group}/{}", path.file_stem().unwrap_or_default().to_string_lossy());
            all.insert(name, (vector["kind"].as_str().unwrap_or("?").to_owned(), vector["expect"].to_string()));
        }
    }
    Ok(all)
}

/// Prints the parity table and returns the counts as text.
fn table(
    expected: &BTreeMap<String, (String, String)>,
    results: &[(&str, BTreeMap<String, String>)],
) -> Result<String, String> {
    let mut kinds: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    for (name, (kind, _)) in expected {
        kinds.entry(kind).or_default().push(name);
    }
    let mut line = format!("{:<12} {:>8}", "kind", "vectors");
    results.iter().for_each(|(program, _)| line += &format!(" {program:>10}"));
    note(&line);
    let (mut passed, mut failures) = (0, Vec::new());
    for (kind, names) in kinds {
        let mut line = format!("{kind:<12} {:>8}", names.len());
        for (program, lines) in results {
            let mut correct = 0;
            for name in &names {
                // parsed and serialized again, because key order and whitespace do not matter
                let actual =
                    lines.get(*name).and_then(|l| serde_json::from_str::<Value>(l).ok()).map(|v| v.to_string());
                if actual.as_deref() == Some(&expected[*name].1) {
                    correct += 1;
                } else {
                    failures.push(format!(
                        "{program} {name}\n  expected {}\n  actual   {}",
                        expected[*name].1,
                        actual.unwrap_or("nothing".into())
                    ));
                }
            }
            passed += correct;
            line += &format!(" {correct:>10}");
        }
        note(&line);
    }
    let sums = format!("{passed} passed, {} failed", failures.len());
    if failures.is_empty() {
        return Ok(sums);
    }
    let first = failures.iter().take(10).map(|failure| failure.chars().take(900).collect::<String>());
    Err(format!("{sums}\n{}", first.collect::<Vec<_>>().join("\n")))
}

/// Rewrites the vectors, the goldens of target-file messages and of exports, and the BPF objects.
pub fn bless() -> Result<(), String> {
    crate::cargo::build(&["--package", "wire"])?;
    run(&mut command(&built("wire-vectors"), &["spec/vectors"]))?;
    for package in ["target", "exchange", "app"] {
        quiet(command("cargo", &["test", "--quiet", "--package", package]).env("BLESS", "1"))?;
    }
    bpf_objects::bless()?;
    run(&mut command(
        "git",
        &["--no-pager", "diff", "--stat", "--", "spec/vectors", "spec/schemas", "*/tests/goldens", "*.bpf.o"],
    ))
}
