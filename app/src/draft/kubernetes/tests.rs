//! Properties of the reader of manifests: it never panics, and what it drafts can be read back.

use super::documents::documents;
use super::resources::Cluster;
use super::{Places, from_cluster, kustomize};
use crate::draft::{Draft, stated, yaml};
use model::Failure;
use proptest::prelude::*;
use std::path::{Path, PathBuf};

fn bookstore() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/bookstore").canonicalize().unwrap()
}

fn manifests() -> String {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(bookstore().join("kubernetes")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts: Vec<String> = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    texts.join("---\n")
}

/// A draft as `init` writes it, with sources from the bookstore.
fn drafted(text: &str, roots: &[PathBuf]) -> Result<String, Failure> {
    let mut notes = Vec::new();
    let cluster = Cluster::read(&documents(text, "all.yaml", &mut notes)?, &mut notes)?;
    let base = bookstore();
    let places = Places { shown: "all.yaml", roots, base: &base, current: &base, is_used: &|port| port == 8081 };
    let mut draft = from_cluster(&cluster, Draft::new("all.yaml", stated("x".to_owned(), "test")), &places, notes);
    draft.normalize_names();
    Ok(yaml::render(&draft, "schema.json"))
}

fn is_readable(text: &str) {
    if let Err(failure) = target::Target::parse(text, Path::new("/draft/target.yaml"), "target.yaml") {
        // a target without services is refused by init, which names the reason
        let failure = failure.to_string();
        assert!(!text.contains("- name:") || text.contains("TODO"), "{failure}\n{text}");
    }
}

#[test]
fn ports_in_use_are_left_out_and_the_entry_keeps_its_own() {
    let text = drafted(&manifests(), &[bookstore()]).unwrap();
    is_readable(&text);
    assert!(text.contains("entry: http://127.0.0.1:8080/"), "{text}");
    assert!(!text.contains("127.0.0.1:8081") && text.contains("127.0.0.1:8082"), "{text}");
}

#[test]
fn every_kind_of_workload_becomes_a_service() {
    let pod = "containers: [{name: server, image: example/payment, ports: [{containerPort: 50051}]}]";
    let workload = |kind: &str| match kind {
        "Pod" => format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: payment}}\nspec: {{{pod}}}\n"),
        _ => format!(
            "apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: payment}}\nspec: {{template: {{spec: {{{pod}}}}}}}\n"
        ),
    };
    for kind in ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Pod"] {
        let text = drafted(&workload(kind), &[bookstore()]).unwrap();
        is_readable(&text);
        assert!(text.contains("name: payment") && text.contains("payment.js"), "{kind}: {text}");
    }
}

#[test]
fn images_of_languages_and_common_names_of_containers_are_no_names_of_sources() {
    let deployment = |name: &str, container: &str, image: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec: {{template: {{spec: {{containers: \
             [{{name: {container}, image: \"{image}\", ports: [{{containerPort: 80}}]}}]}}}}}}\n---\n"
        )
    };
    let text = [
        deployment("a", "server", "node:22"),
        deployment("b", "java", "example/b"),
        deployment("c", "java", "example/c"),
        deployment("d", "d", "example/payment:1"),
    ];
    let text = drafted(&text.concat(), &[bookstore()]).unwrap();
    assert_eq!(text.matches("# attached").count(), 3, "{text}");
    assert!(text.contains("payment.js"), "{text}");
}

#[test]
fn duplicates_that_differ_are_refused_and_equal_ones_are_read_once() {
    let service = |port: u16| {
        format!("apiVersion: v1\nkind: Service\nmetadata: {{name: a}}\nspec: {{ports: [{{port: {port}}}]}}\n")
    };
    let read = |text: &str| {
        let mut notes = Vec::new();
        Cluster::read(&documents(text, "a.yaml", &mut notes).unwrap(), &mut notes)
    };
    assert_eq!(read(&format!("{}---\n{}", service(1), service(1))).unwrap().services.len(), 1);
    let failure = read(&format!("{}---\n{}", service(1), service(2))).unwrap_err().to_string();
    for part in ["Service 'a'", "a.yaml, document 1", "a.yaml, document 2", "remove one"] {
        assert!(failure.contains(part), "{failure}");
    }
}

#[test]
fn the_simple_parts_of_a_kustomization_are_applied_without_a_tool() {
    let folder = std::env::temp_dir().join(format!("faultloom-kustomize-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("base")).unwrap();
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  template:\n    spec:\n      \
                      containers:\n      - {name: a, image: \"r/a:1\", envFrom: [{configMapRef: {name: c}}, {secretRef: {name: other}}]}\n";
    std::fs::write(folder.join("base/a.yaml"), deployment).unwrap();
    std::fs::write(
        folder.join("base/kustomization.yaml"),
        "resources: [a.yaml]\nconfigMapGenerator: [{name: c, literals: [A=1]}]\n",
    )
    .unwrap();
    let top = "resources: [base]\nnamePrefix: dev-\nnamespace: shop\nimages: [{name: r/a, newTag: \"2\"}]\n";
    std::fs::write(folder.join("kustomization.yaml"), top).unwrap();
    let found = kustomize::resolve(&folder, "k", 0, &mut Vec::new()).unwrap();
    let cluster = Cluster::read(&found, &mut Vec::new()).unwrap();
    let workload = &cluster.workloads[0];
    assert_eq!(
        (workload.name.as_str(), workload.namespace.as_str(), workload.container.image.as_str()),
        ("dev-a", "shop", "r/a:2")
    );
    assert!(cluster.data.contains_key(&("ConfigMap", "shop".to_owned(), "dev-c".to_owned())));
    let shown = format!("{:?}", workload.container.env_from);
    assert!(shown.contains("dev-c") && shown.contains("\"other\""), "{shown}");
    // what it cannot do is refused by name
    std::fs::write(folder.join("kustomization.yaml"), "resources: [base]\npatches: [{path: p.yaml}]\n").unwrap();
    let failure = kustomize::resolve(&folder, "k", 0, &mut Vec::new()).unwrap_err().to_string();
    assert!(failure.contains("'patches'") && failure.contains("kubectl kustomize"), "{failure}");
    std::fs::write(folder.join("kustomization.yaml"), "resources: [.]\n").unwrap();
    assert!(kustomize::resolve(&folder, "k", 0, &mut Vec::new()).unwrap_err().to_string().contains("includes itself"));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Pieces of manifests, of YAML's syntax, and of neither.
const PIECES: [&str; 24] = [
    "apiVersion: v1",
    "kind: Service",
    "kind: Deployment",
    "kind: List",
    "items:",
    "metadata: {name: a}",
    "spec:",
    "---",
    "- ",
    "  ",
    "[",
    "{",
    "&a",
    "*a",
    "!!binary",
    "|",
    ">-",
    "\"",
    "'",
    "#",
    "\t",
    "\u{0}",
    "env: [{name: A, value: \"$(A)\"}]",
    "ports: [{port: 99999}]",
];
const VALUES: [&str; 12] =
    ["null", "-1", "0", "65536", "true", "{}", "[]", "\"\"", "\"\\0\"", "\"a b\"", "http://catalog:8080", "1e99"];

proptest! {
    #[test]
    fn any_text_is_read_or_refused(parts in prop::collection::vec((0..PIECES.len(), any::<bool>(), ".{0,8}"), 0..40)) {
        let text: String =
            parts.iter().map(|(at, line, more)| format!("{}{more}{}", PIECES[*at], if *line { "\n" } else { "" })).collect();
        if let Ok(text) = drafted(&text, &[]) {
            is_readable(&text);
        }
    }

    #[test]
    fn a_damaged_manifest_is_read_or_refused(edits in prop::collection::vec((0..6usize, any::<prop::sample::Index>(), 0..VALUES.len()), 1..8)) {
        let mut lines: Vec<String> = manifests().lines().map(str::to_owned).collect();
        for (kind, at, value) in edits {
            let at = at.index(lines.len().max(1)).min(lines.len().saturating_sub(1));
            let Some(line) = lines.get(at).cloned() else { continue };
            match kind {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, line),
                2 => lines[at] = format!("{}: {}", line.split(':').next().unwrap_or_default(), VALUES[value]),
                3 => lines[at] = format!("  {line}"),
                4 => lines[at] = line.trim_start().to_owned(),
                _ => lines.truncate(at),
            }
        }
        if let Ok(text) = drafted(&lines.join("\n"), &[bookstore()]) {
            is_readable(&text);
        }
    }
}

#[test]
fn deep_and_repeated_structures_are_refused_and_not_followed() {
    let deep = format!("apiVersion: v1\nkind: X\nmetadata: {{name: a}}\nspec: {}", "[".repeat(100_000));
    assert!(drafted(&deep, &[]).is_err());
    let mut laughs =
        String::from("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nx0: &x0 [a, a, a, a, a, a, a, a]\n");
    for level in 1..12 {
        let before = format!("*x{}", level - 1);
        laughs += &format!("x{level}: &x{level} [{}]\n", vec![before; 8].join(", "));
    }
    assert!(drafted(&laughs, &[]).is_err());
    let many = "---\na: 1\n".repeat(10_001);
    assert!(drafted(&many, &[]).unwrap_err().to_string().contains("more than 10000 documents"));
}
