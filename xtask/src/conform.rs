//! Conformance: every SDK over every vector. The vectors' `expect` comes from the reference implementation; the programs never see it.

pub mod mutants;

use crate::programs;
use crate::setup;
use crate::shell::{built, command, quiet, root, run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

struct Program {
    name: &'static str,
    argv: Vec<String>,
}

/// Builds the programs and prints the parity table; an error names what differs.
pub fn conform() -> Result<(), String> {
    let vectors = root().join("spec/vectors");
    let expected = expected(&vectors)?;
    let mut results: Vec<(&str, BTreeMap<String, String>)> = Vec::new();
    for program in programs()? {
        results.push((program.name, compute(&program, &vectors)?));
    }
    table(&expected, &results)
}

/// Vector name to the program's result.
fn compute(program: &Program, vectors: &Path) -> Result<BTreeMap<String, String>, String> {
    let mut call = command(&program.argv[0], &[]);
    call.args(&program.argv[1..]).arg(vectors);
    let output = quiet(&mut call).map_err(|e| format!("{}: {e}", program.name))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter_map(|l| l.split_once(' '));
    Ok(lines.map(|(name, result)| (name.to_owned(), result.to_owned())).collect())
}

fn programs() -> Result<Vec<Program>, String> {
    run(&mut command("cargo", &["build", "--quiet", "--package", "wire"]))?;
    let out = root().join("out/conform");
    std::fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    let go = out.join("go-conform").to_string_lossy().into_owned();
    quiet(command("go", &["build", "-o", &go, "./cmd/faultloom-conform"]).current_dir(root().join("sdk/go")))?;
    let path = |p: &str| root().join(p).to_string_lossy().into_owned();
    setup::build_agent()?; // builds the whole project, and nothing if it is there
    let classes = format!("{}:{}", path("sdk/java/core/target/classes"), path("sdk/java/conform/target/classes"));
    let java = ["java", "-cp", &classes, "dev.faultloom.conform.Main"].map(str::to_owned).to_vec();
    setup::build_node_sdk()?;
    // `env` because the package need not be installed to be tried
    let python = vec![
        "env".to_owned(),
        format!("PYTHONPATH={}", path("sdk/python/src")),
        "python3".into(),
        "-m".into(),
        "faultloom.conform".into(),
    ];
    Ok(vec![
        Program { name: "reference", argv: vec![built("wire-conform")] },
        Program { name: "go", argv: vec![go] },
        Program { name: "python", argv: python },
        Program { name: "java", argv: java },
        Program { name: "node", argv: vec!["node".to_owned(), path("sdk/typescript/dist/conform.js")] },
    ])
}

/// Vector name to its kind and canonical expected result.
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

fn table(
    expected: &BTreeMap<String, (String, String)>,
    results: &[(&str, BTreeMap<String, String>)],
) -> Result<(), String> {
    let mut kinds: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    for (name, (kind, _)) in expected {
        kinds.entry(kind).or_default().push(name);
    }
    print!("{:<12} {:>8}", "kind", "vectors");
    results.iter().for_each(|(program, _)| print!(" {program:>10}"));
    println!();
    let (mut passed, mut failures) = (0, Vec::new());
    for (kind, names) in kinds {
        print!("{kind:<12} {:>8}", names.len());
        for (program, lines) in results {
            let mut right = 0;
            for name in &names {
                // parsed and printed again: the order of keys and blanks are not what is compared
                let got = lines.get(*name).and_then(|l| serde_json::from_str::<Value>(l).ok()).map(|v| v.to_string());
                if got.as_deref() == Some(&expected[*name].1) {
                    right += 1;
                } else {
                    failures.push(format!(
                        "{program} {name}\n  expected {}\n  got      {}",
                        expected[*name].1,
                        got.unwrap_or("nothing".into())
                    ));
                }
            }
            passed += right;
            print!(" {right:>10}");
        }
        println!();
    }
    for failure in failures.iter().take(10) {
        println!("{}", failure.chars().take(900).collect::<String>());
    }
    println!("{passed} passed, {} failed", failures.len());
    if failures.is_empty() { Ok(()) } else { Err("the SDKs do not all do the same".into()) }
}

/// Rewrites the vectors, the goldens of messages about target files and of exports, and the kernel's programs.
pub fn bless() -> Result<(), String> {
    run(&mut command("cargo", &["build", "--quiet", "--package", "wire"]))?;
    run(&mut command(&built("wire-vectors"), &["spec/vectors"]))?;
    for package in ["target", "exchange"] {
        quiet(command("cargo", &["test", "--quiet", "--package", package]).env("BLESS", "1"))?;
    }
    programs::bless()?;
    run(&mut command("git", &["--no-pager", "diff", "--stat", "--", "spec/vectors", "*/tests/goldens", "*.bpf.o"]))
}

/// Fails if the committed vectors are not what the reference implementation makes.
pub fn drift() -> Result<(), String> {
    let fresh = root().join("out/vectors");
    std::fs::create_dir_all(&fresh).map_err(|e| format!("{}: {e}", fresh.display()))?;
    run(&mut command("cargo", &["build", "--quiet", "--package", "wire"]))?;
    quiet(&mut command(&built("wire-vectors"), &[&fresh.to_string_lossy()]))?;
    quiet(&mut command("diff", &["-r", &fresh.to_string_lossy(), "spec/vectors"]))
        .map(|_| ())
        .map_err(|e| format!("spec/vectors are stale (make bless): {e}"))
}
