//! A folder with a `kustomization.yaml`: rendered by `kubectl kustomize` or `kustomize build` if one is installed.
//! Without them, its simple parts are applied here: resources, prefixes, the namespace, images and generators. Anything
//! else is refused by name.

use super::documents::{Document, documents};
use super::renderer;
use crate::draft::compose_environment::lines;
use crate::draft::node::{self, Node};
use model::Failure;
use std::path::{Path, PathBuf};

pub const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
/// Kustomizations that include each other.
const DEPTH_MAX: usize = 16;
/// Keys that are applied here.
const APPLIED: [&str; 10] = [
    "resources",
    "bases",
    "namePrefix",
    "nameSuffix",
    "namespace",
    "images",
    "configMapGenerator",
    "secretGenerator",
    "apiVersion",
    "kind",
];
/// Keys without an effect on one machine.
const WITHOUT_EFFECT: [&str; 8] = [
    "generatorOptions",
    "commonLabels",
    "commonAnnotations",
    "labels",
    "replicas",
    "metadata",
    "sortOptions",
    "buildMetadata",
];

pub fn file(folder: &Path) -> Option<PathBuf> {
    NAMES.iter().map(|name| folder.join(name)).find(|path| path.is_file())
}

pub fn render(folder: &Path, shown: &str, notes: &mut Vec<String>) -> Result<Vec<Document>, Failure> {
    let path = folder.to_string_lossy();
    let kustomize = renderer::program("kustomize").map(|program| (program, vec!["build", path.as_ref()]));
    let tool = kustomize.or_else(|| Some((renderer::program("kubectl")?, vec!["kustomize", path.as_ref()])));
    match tool {
        Some((program, arguments)) => {
            let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let text = renderer::run(&program, &arguments).map_err(|why| {
                Failure::request(format!("{name} cannot render {shown}"))
                    .why(why)
                    .next(format!("correct it until `{name} {}` prints manifests", arguments.join(" ")))
            })?;
            documents(&text, &format!("{shown} as {name} renders it"), notes)
        }
        None => resolve(folder, shown, 0, notes),
    }
}

/// The simple parts, without a tool.
pub fn resolve(folder: &Path, shown: &str, depth: usize, notes: &mut Vec<String>) -> Result<Vec<Document>, Failure> {
    let file = file(folder).ok_or_else(|| {
        Failure::request(format!("{shown} has no kustomization.yaml")).next("correct the `resources` that name it")
    })?;
    let at =
        format!("{shown}/{}", file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default());
    if depth >= DEPTH_MAX {
        return Err(Failure::request(format!("{at} includes itself, or more than {DEPTH_MAX} levels"))
            .next("correct its `resources`"));
    }
    let text = read(&file, &at)?;
    let root = node::parse(&text, &at)?;
    let needs = |what: &str| {
        Failure::environment(format!("{at} uses {what}, which needs kustomize"))
            .why("neither `kubectl` nor `kustomize` is installed here")
            .next(format!(
                "install one of them, or render it elsewhere: kubectl kustomize {} | faultloom init -",
                folder.display()
            ))
    };
    let handled = |key: &str| APPLIED.contains(&key) || WITHOUT_EFFECT.contains(&key);
    if let Some((key, _)) = root.entries().iter().find(|(key, _)| !handled(key)) {
        return Err(needs(&format!("'{key}'")));
    }
    let mut found = Vec::new();
    let list = |key: &str| root.get(key).map(Node::items).unwrap_or_default();
    for resource in list("resources").iter().chain(list("bases")).filter_map(Node::text) {
        let path = folder.join(&resource);
        let inner = format!("{shown}/{resource}");
        if path.is_dir() {
            found.extend(resolve(&path, &inner, depth + 1, notes)?);
        } else if path.is_file() {
            found.extend(documents(&read(&path, &inner)?, &inner, notes)?);
        } else if resource.contains("://") || resource.contains("github.com") || resource.contains("?ref=") {
            return Err(needs(&format!("the remote resource {resource}")));
        } else {
            return Err(
                Failure::request(format!("{at}: the resource {resource} does not exist")).next("correct the path")
            );
        }
    }
    for (key, kind) in [("configMapGenerator", "ConfigMap"), ("secretGenerator", "Secret")] {
        for generator in list(key) {
            found.push(Document { at: format!("{at}, {key}"), node: generated(generator, kind, folder, &at)? });
        }
    }
    rename(&mut found, &root);
    images(&mut found, list("images"));
    Ok(found)
}

fn read(path: &Path, shown: &str) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::request(format!("cannot read {shown}")).why(error.to_string()).next("check the path"))
}

fn text(key: &str, value: &str) -> (String, Node) {
    (key.to_owned(), Node::Text(value.to_owned()))
}

fn generated(generator: &Node, kind: &str, folder: &Path, at: &str) -> Result<Node, Failure> {
    let name = generator.get("name").and_then(Node::text).unwrap_or_default();
    let mut data = Vec::new();
    let list = |key: &str| generator.get(key).map(Node::items).unwrap_or_default().iter().filter_map(Node::text);
    for literal in list("literals") {
        let (key, value) = literal.split_once('=').unwrap_or((&literal, ""));
        data.push(text(key, value.trim_matches(['"', '\''])));
    }
    for file in list("envs").chain(generator.get("env").and_then(Node::text)) {
        data.extend(
            lines(&read(&folder.join(&file), &format!("{at}: {file}"))?).iter().map(|(key, value)| text(key, value)),
        );
    }
    for file in list("files") {
        let (key, path) = file.split_once('=').unwrap_or((file.rsplit('/').next().unwrap_or(&file), &file));
        data.push(text(key, &read(&folder.join(path), &format!("{at}: {path}"))?));
    }
    let data_key = if kind == "Secret" { "stringData" } else { "data" };
    Ok(Node::Map(vec![
        text("apiVersion", "v1"),
        text("kind", kind),
        ("metadata".to_owned(), Node::Map(vec![text("name", &name)])),
        (data_key.to_owned(), Node::Map(data)),
    ]))
}

/// Prefix, suffix and namespace, for the objects and for references among them.
fn rename(found: &mut [Document], root: &Node) {
    let value = |key: &str| root.get(key).and_then(Node::text).unwrap_or_default();
    let (prefix, suffix, namespace) = (value("namePrefix"), value("nameSuffix"), value("namespace"));
    let names: Vec<(String, String)> = found.iter().map(|document| (document.kind(), document.name())).collect();
    for document in found.iter_mut() {
        let Node::Map(entries) = &mut document.node else { continue };
        if let Some((_, Node::Map(meta))) = entries.iter_mut().find(|(key, _)| key == "metadata") {
            if let Some((_, Node::Text(name))) = meta.iter_mut().find(|(key, _)| key == "name") {
                *name = format!("{prefix}{name}{suffix}");
            }
            if !namespace.is_empty() {
                meta.retain(|(key, _)| key != "namespace");
                meta.push(text("namespace", &namespace));
            }
        }
        if !prefix.is_empty() || !suffix.is_empty() {
            let put = |kind: &str, name: &mut String| {
                if names.iter().any(|(own, other)| own == kind && other == name) {
                    *name = format!("{prefix}{name}{suffix}");
                }
            };
            references(&mut document.node, &put);
        }
    }
}

/// Names of ConfigMaps, Secrets and Services that an object refers to.
fn references(node: &mut Node, put: &dyn Fn(&str, &mut String)) {
    match node {
        Node::List(items) => items.iter_mut().for_each(|item| references(item, put)),
        Node::Map(entries) => {
            for (key, value) in entries {
                let kind = match key.as_str() {
                    "configMapRef" | "configMapKeyRef" | "configMap" => "ConfigMap",
                    "secretRef" | "secretKeyRef" | "secret" => "Secret",
                    "service" => "Service",
                    _ => "",
                };
                if let (false, Node::Map(inner)) = (kind.is_empty(), &mut *value) {
                    for (name, text) in inner.iter_mut() {
                        if let ("name" | "secretName", Node::Text(text)) = (name.as_str(), text) {
                            put(kind, text);
                        }
                    }
                }
                references(value, put);
            }
        }
        _ => {}
    }
}

/// `images`: another name or tag for an image.
fn images(found: &mut [Document], images: &[Node]) {
    fn apply(node: &mut Node, images: &[Node]) {
        match node {
            Node::List(items) => items.iter_mut().for_each(|item| apply(item, images)),
            Node::Map(entries) => {
                for (key, value) in entries {
                    match value {
                        Node::Text(image) if key == "image" => replace(image, images),
                        value => apply(value, images),
                    }
                }
            }
            _ => {}
        }
    }
    fn replace(image: &mut String, images: &[Node]) {
        let tag_at = image.rfind(':').filter(|at| !image[*at..].contains('/')).unwrap_or(image.len());
        let (name, tag) = image.split_at(tag_at);
        let of = |entry: &Node, key: &str| entry.get(key).and_then(Node::text);
        let Some(entry) = images.iter().find(|entry| of(entry, "name").as_deref() == Some(name)) else { return };
        let name = of(entry, "newName").unwrap_or_else(|| name.to_owned());
        let tag = of(entry, "newTag").map_or_else(|| tag.to_owned(), |tag| format!(":{tag}"));
        *image = format!("{name}{tag}");
    }
    if !images.is_empty() {
        found.iter_mut().for_each(|document| apply(&mut document.node, images));
    }
}
