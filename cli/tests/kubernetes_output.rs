//! Manifests that the tool prints and that the guide shows: valid against the published schemas of the API, also after
//! they were merged into the user's own.

use crate::support::{Home, guide, repository, skipped};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const LANGUAGES: [&str; 4] = ["go", "java", "node", "python"];
/// Versions of the API whose schemas are used: the oldest that is still maintained, and the newest.
const VERSIONS: [&str; 2] = ["1.34", "1.37"];

/// The validator, or None with a counted skip.
fn validator() -> Option<PathBuf> {
    let program = repository().join("out/kubernetes-validate/bin/kubernetes-validate");
    if !program.exists() {
        skipped("kubernetes-validate is not installed (make test installs it)");
        return None;
    }
    Some(program)
}

fn is_valid(validator: &Path, file: &Path, kinds: &[&str]) {
    for version in VERSIONS {
        let ran = Command::new(validator).args(["--strict", "-k", version]).arg(file).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        let text = std::fs::read_to_string(file).unwrap();
        assert!(ran.status.success(), "{version}: {said}\n{text}");
        // an object that was not looked at is no valid object
        for kind in kinds {
            assert!(
                said.to_lowercase().contains(&format!("passed for resource {kind}/").to_lowercase()),
                "{kind}: {said}"
            );
        }
    }
}

fn documents(text: &str) -> Vec<Value> {
    let parts = text.split("---\n").map(|part| serde_saphyr::from_str::<Value>(part).unwrap());
    parts.filter(|document| !document.is_null()).collect()
}

/// The manifests of the bookstore beside a target file that is drafted from them.
fn bookstore(name: &str) -> Home {
    let home = Home::new(name);
    std::fs::create_dir(home.file("kubernetes")).unwrap();
    for entry in std::fs::read_dir(repository().join("lab/bookstore/kubernetes")).unwrap().flatten() {
        std::fs::copy(entry.path(), home.file("kubernetes").join(entry.file_name())).unwrap();
    }
    std::fs::copy(repository().join("lab/bookstore/target.yaml"), home.file("target.yaml")).unwrap();
    home.run(&["env", "python", "--create-keys"]).exits(0);
    home
}

/// A strategic merge, as far as the printed patches need it: lists of objects are merged by a key.
fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(patch)) if patch.iter().all(Value::is_object) => {
            for item in patch {
                let key = if item.get("mountPath").is_some() { "mountPath" } else { "name" };
                match into.iter_mut().find(|own| own[key] == item[key]) {
                    Some(own) => merge(own, item),
                    None => into.push(item.clone()),
                }
            }
        }
        (into, patch) => *into = patch.clone(),
    }
}

fn container<'a>(deployment: &'a Value, name: &str) -> &'a Value {
    let all = deployment["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    all.iter().find(|container| container["name"] == name).unwrap_or_else(|| panic!("{name}: {deployment}"))
}

#[test]
fn patches_fit_the_manifests_of_the_application() {
    let home = bookstore("kubernetes-patches");
    let Some(validator) = validator() else { return };
    let mut patched = 0;
    for language in LANGUAGES {
        let printed = home.run(&["env", language, "--for", "kubernetes", "--show-keys"]);
        if printed.status.code() == Some(3) {
            skipped(&format!("the SDK of {language} is not built (make test builds it)"));
            continue;
        }
        let printed = printed.exits(0).out;
        let documents = documents(&printed);
        assert_eq!(documents[0]["kind"], "Secret");
        for patch in &documents[1..] {
            let name = patch["metadata"]["name"].as_str().unwrap();
            let own = std::fs::read_to_string(home.file(&format!("kubernetes/{name}.yaml"))).unwrap();
            let mut merged = self::documents(&own).remove(0);
            let before = container(&merged, "server").clone();
            merge(&mut merged, patch);
            let after = container(&merged, "server");
            assert_eq!(
                merged["spec"]["template"]["spec"]["containers"].as_array().unwrap().len(),
                1,
                "no second container"
            );
            for key in ["image", "ports", "readinessProbe", "resources"] {
                assert_eq!(before[key], after[key], "{name}: {key}");
            }
            let variables = after["env"].as_array().unwrap();
            let value = |name: &str| variables.iter().find(|own| own["name"] == name).map(|own| own["value"].clone());
            assert_eq!(value("PORT"), before["env"][0]["value"].clone().into());
            assert_eq!(value("FAULTLOOM_SERVICE"), Some(name.into()));
            let peers = value("FAULTLOOM_PEERS").unwrap();
            let peers: Vec<&str> = peers.as_str().unwrap().split(',').collect();
            assert!(peers.contains(&"orders:50051=orders") && peers.contains(&"stock:8080=stock"), "{peers:?}");
            assert!(
                !peers.iter().any(|peer| peer.contains("93")),
                "ports of the cluster, not of this machine: {peers:?}"
            );
            let file = home.write(&format!("{name}.json"), &merged.to_string());
            is_valid(&validator, &file, &["deployment"]);
            patched += 1;
        }
        is_valid(&validator, &home.write("secret.json", &documents[0].to_string()), &["secret"]);
        rendered_by_kubectl(&home, &validator, language, &printed);
    }
    assert!(patched > 0);
}

/// The printed text as the patches of a kustomization, as the guide shows it.
fn rendered_by_kubectl(home: &Home, validator: &Path, language: &str, printed: &str) {
    if Command::new("kubectl").arg("kustomize").arg("--help").output().is_err() {
        return skipped("kubectl is not installed: the patches are merged by this test only");
    }
    let (secret, patches) = printed.split_once("---\n").unwrap();
    let folder = format!("overlay-{language}");
    std::fs::create_dir(home.file(&folder)).unwrap();
    std::fs::create_dir_all(home.file(&format!("{folder}/base"))).unwrap();
    let mut names = Vec::new();
    for entry in std::fs::read_dir(home.file("kubernetes")).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        std::fs::copy(entry.path(), home.file(&format!("{folder}/base/{name}"))).unwrap();
        names.push(format!("base/{name}"));
    }
    home.write(&format!("{folder}/secret.yaml"), secret);
    home.write(&format!("{folder}/patches.yaml"), patches);
    let kustomization = format!("resources: [secret.yaml, {}]\npatches: [{{path: patches.yaml}}]\n", names.join(", "));
    home.write(&format!("{folder}/kustomization.yaml"), &kustomization);
    let ran = Command::new("kubectl").arg("kustomize").arg(home.file(&folder)).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(text.matches("name: FAULTLOOM_SERVICE").count(), patches.matches("name: FAULTLOOM_SERVICE").count());
    is_valid(validator, &home.write(&format!("{folder}.yaml"), &text), &["deployment", "service", "secret"]);
}

#[test]
fn a_value_that_a_container_has_already_is_kept_after_ours() {
    let home = Home::new("kubernetes-kept");
    let manifest = |kind: &str, pod: &str| {
        format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: rec, namespace: shop}}\n{pod}")
    };
    let pod = "spec: {containers: [{name: main, image: rec, env: [{name: PYTHONPATH, value: /app}]}]}\n";
    home.write("pod.yaml", &manifest("Pod", pod));
    let printed =
        home.run(&["env", "python", "--service", "rec", "--for", "kubernetes", "--manifests", "pod.yaml"]).exits(0);
    let patch = &documents(&printed.out)[0];
    assert_eq!((&patch["kind"], &patch["metadata"]["namespace"]), (&"Pod".into(), &"shop".into()));
    let variables = patch["spec"]["containers"][0]["env"].as_array().unwrap();
    let path = variables.iter().find(|variable| variable["name"] == "PYTHONPATH").unwrap();
    assert_eq!(path["value"], "/opt/faultloom/faultloom/boot:/app");
    // what cannot be found is said, and bad manifests are refused
    let other =
        home.run(&["env", "python", "--service", "x", "--for", "kubernetes", "--manifests", "pod.yaml"]).exits(0);
    assert!(other.out.contains("pod.yaml has no workload of this name"), "{}", other.out);
    home.run(&["env", "python", "--service", "x", "--for", "kubernetes", "--manifests", "lost"])
        .exits(2)
        .says("lost does not exist");
    assert!(!home.file(".faultloom").exists());
}

#[test]
fn the_agent_and_the_samples_are_valid() {
    let Some(validator) = validator() else { return };
    let home = Home::new("kubernetes-agent");
    for mode in ["auto", "ebpf", "polling", "tuples"] {
        let printed = home.run(&["agent", "unit", "--for", "kubernetes", "--mode", mode]).exits(0).out;
        is_valid(&validator, &home.write("agent.yaml", &printed), &["namespace", "daemonset"]);
    }
    home.run(&["agent", "unit", "--for", "kubernetes", "--fleet"]).exits(2);
    for entry in std::fs::read_dir(repository().join("lab/bookstore/kubernetes")).unwrap().flatten() {
        is_valid(&validator, &entry.path(), &["deployment", "service"]);
    }
    for (at, text) in guide::blocks("docs/guides/kubernetes.md", "yaml").iter().enumerate() {
        // patches and kustomizations are no complete objects
        if text.contains("kind:") && text.contains("selector:") {
            is_valid(&validator, &home.write(&format!("guide-{at}.yaml"), text), &[]);
        }
    }
    // a file that is not valid is found
    let bad =
        home.write("bad.yaml", "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: a}\nspec: {replicas: 1}\n");
    let ran = Command::new(&validator).arg("--strict").arg(bad).output().unwrap();
    assert!(!ran.status.success());
}
