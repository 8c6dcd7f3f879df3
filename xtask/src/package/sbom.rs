//! The parts of the tool as a CycloneDX document: each crate with its version, license and place in the graph.

use super::version;
use crate::shell::{command, quiet, root};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

pub fn write(folder: &Path) -> Result<String, String> {
    let arguments = ["metadata", "--format-version", "1", "--locked", "--features", "faultloom/postgres"];
    let mut cargo = command("cargo", &arguments);
    cargo.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let output = quiet(cargo.current_dir(root()))?;
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let document = document(&metadata).ok_or("cargo metadata does not contain the tool")?;
    let components = document["components"].as_array().map_or(0, Vec::len);
    super::write(&folder.join("sbom.cdx.json"), &format!("{document:#}\n"))?;
    Ok(format!("{components} components"))
}

fn document(metadata: &Value) -> Option<Value> {
    let packages = metadata["packages"].as_array()?;
    let nodes = metadata["resolve"]["nodes"].as_array()?;
    let package = |id: &str| packages.iter().find(|package| package["id"] == id);
    let tool = packages.iter().find(|package| package["name"] == "faultloom")?["id"].as_str()?;
    // what is linked or builds it, not what tests it
    let needed = |id: &str| -> Vec<String> {
        let dependencies = nodes.iter().find(|node| node["id"] == id).and_then(|node| node["deps"].as_array());
        let is_test = |dependency: &Value| {
            dependency["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().all(|kind| kind["kind"] == "dev"))
        };
        let names = dependencies.into_iter().flatten().filter(|dependency| !is_test(dependency));
        names.filter_map(|dependency| dependency["pkg"].as_str().map(str::to_owned)).collect()
    };
    let mut all: BTreeSet<String> = BTreeSet::new();
    let mut waiting = vec![tool.to_owned()];
    while let Some(id) = waiting.pop() {
        if all.insert(id.clone()) {
            waiting.extend(needed(&id));
        }
    }
    let reference = |id: &str| {
        package(id).map(|package| {
            let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
            format!("pkg:cargo/{}@{}", text("name"), text("version"))
        })
    };
    let component = |id: &String| {
        let package = package(id)?;
        let mut component = json!({
            "type": "library", "bom-ref": reference(id)?, "purl": reference(id)?,
            "name": package["name"], "version": package["version"],
        });
        if let Some(license) = package["license"].as_str() {
            component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
        }
        Some(component)
    };
    let graph = |id: &String| {
        let below: Vec<String> = needed(id).iter().filter_map(|id| reference(id)).collect();
        Some(json!({ "ref": reference(id)?, "dependsOn": below }))
    };
    Some(json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": { "component": {
            "type": "application", "bom-ref": reference(tool)?, "name": "faultloom", "version": version(),
        }},
        "components": all.iter().filter(|id| *id != tool).filter_map(component).collect::<Vec<_>>(),
        "dependencies": all.iter().filter_map(graph).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_what_is_linked_and_not_what_tests() {
        let package = |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0" });
        let dependency = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let packages = ["faultloom", "linked", "deeper", "tester"].map(package);
        let metadata = json!({
            "packages": packages,
            "resolve": { "nodes": [
                { "id": "faultloom", "deps": [dependency("linked", Value::Null), dependency("tester", json!("dev"))] },
                { "id": "linked", "deps": [dependency("deeper", json!("build"))] },
                { "id": "deeper", "deps": [] },
            ]},
        });
        let document = document(&metadata).unwrap();
        let names: Vec<&str> =
            document["components"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["deeper", "linked"]);
        assert_eq!(document["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(document["dependencies"][1]["dependsOn"], json!(["pkg:cargo/linked@1.0.0"]));
    }
}
