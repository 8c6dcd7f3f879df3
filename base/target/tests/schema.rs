//! `spec/target.schema.json` and the code know the same keys.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

const SCHEMA: &str = include_str!("../../../spec/target.schema.json");

fn keys(schema: &Value, pointer: &str) -> BTreeSet<String> {
    let properties = schema.pointer(pointer).and_then(Value::as_object).unwrap_or_else(|| panic!("{pointer}"));
    properties.keys().cloned().collect()
}

/// The keys that the reader lists in its message about an unknown key.
fn accepted(before: &str) -> BTreeSet<String> {
    let text = format!("{before}zzzzzzzzzzzzzz: 1\n");
    let failure = target::Target::parse(&text, Path::new("/t/target.yaml"), "target.yaml").unwrap_err();
    let why = failure.why.unwrap();
    why.strip_prefix("keys here: ").unwrap().split(", ").map(str::to_owned).collect()
}

#[test]
fn schema_and_reader_accept_the_same_keys() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    assert_eq!(keys(&schema, "/properties"), accepted(""));
    assert_eq!(keys(&schema, "/$defs/service/properties"), accepted("services:\n  - "));
    assert_eq!(keys(&schema, "/$defs/health/properties"), accepted("services:\n  - health:\n      "));
    assert_eq!(keys(&schema, "/properties/tls/properties"), accepted("name: a\ntls:\n  "));
    let services = "services:\n  - name: a\n    command: [a]\n";
    assert_eq!(keys(&schema, "/$defs/check/properties"), accepted(&format!("name: a\n{services}checks:\n  - ")));
    let state = format!("name: a\n{services}checks:\n  - request: GET /\n    after:\n      - ");
    assert_eq!(keys(&schema, "/$defs/state/properties"), accepted(&state));
    for part in ["", "/properties/tls", "/$defs/service", "/$defs/health", "/$defs/check", "/$defs/state"] {
        assert_eq!(schema.pointer(&format!("{part}/additionalProperties")), Some(&Value::Bool(false)), "{part}");
    }
}

/// Every target file of the repository, and those in the goldens of `init`.
fn target_files() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    let mut folders = vec![root.join("lab"), root.join("bench")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if path.is_dir() && !["node_modules", "venv", "target", "dist"].contains(&name.as_str()) {
                folders.push(path);
            } else if name == "target.yaml" {
                files.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    for entry in std::fs::read_dir(root.join("cli/tests/goldens")).unwrap().flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap();
        if let Some((_, drafted)) = text.split_once("$ cat target.yaml\n") {
            // goldens have words for ports that differ from run to run
            let drafted = drafted.replace("PORT1", "8001").replace("PORT2", "8002");
            files.push((entry.path().display().to_string(), drafted));
        }
    }
    files
}

#[test]
fn every_target_file_follows_the_schema() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let files = target_files();
    assert!(files.len() >= 5, "{}", files.len());
    for (file, text) in files {
        let value: Value = serde_saphyr::from_str(&text).unwrap();
        let errors: Vec<String> = validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path)).collect();
        // both refuse open values and accept everything else
        let loads = target::Target::parse(&text, Path::new("/t/target.yaml"), "t").is_ok();
        assert_eq!(loads, errors.is_empty(), "{file}: {errors:?}");
        assert_eq!(loads, !text.contains("TODO"), "{file}");
    }
    for example in schema["examples"].as_array().unwrap() {
        assert!(validator.is_valid(example), "{example}");
    }
}

/// An editor shows a description for every key.
#[test]
fn every_key_is_described() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    for part in ["/properties", "/properties/tls/properties", "/$defs/service/properties", "/$defs/health/properties"] {
        for (key, value) in schema.pointer(part).unwrap().as_object().unwrap() {
            let referred = value["$ref"].as_str().and_then(|at| schema.pointer(at.trim_start_matches('#')));
            let described =
                value["description"].is_string() || referred.is_some_and(|at| at["description"].is_string());
            assert!(described, "{part}/{key}");
        }
    }
}
