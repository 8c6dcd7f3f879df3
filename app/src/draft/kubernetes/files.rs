//! Which files of a path are manifests: a file, a folder of files, a kustomization, a Helm chart, standard input.

use super::documents::{Document, documents, is_manifest};
use super::{helm, kustomize};
use model::Failure;
use std::io::Read;
use std::path::{Path, PathBuf};

const FILES_MAX: usize = 2_000;
const DEPTH_MAX: usize = 8;
const FILE_BYTES_MAX: u64 = 32 << 20;
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];
/// Folders that usually contain manifests, in the order in which they are tried.
pub const FOLDERS: [&str; 9] = [
    "kubernetes",
    "k8s",
    "kube",
    "manifests",
    "kubernetes-manifests",
    "kustomize",
    "deploy",
    "deployment",
    "deployments",
];
/// The same for charts.
const CHARTS: [&str; 4] = ["chart", "helm", "charts", "helm-chart"];
const LEFT_OUT: [&str; 6] = ["node_modules", "vendor", "target", "venv", "__pycache__", "dist"];

/// What was read, and where the application's sources may be.
pub struct Manifests {
    pub documents: Vec<Document>,
    /// The folder of the manifests.
    pub folder: PathBuf,
    pub notes: Vec<String>,
}

/// Where manifests are below a folder: in the folder itself, or in one with a usual name. `is_named`: the user named
/// the folder, so manifests further below count too.
pub fn discover(folder: &Path, is_named: bool) -> Option<PathBuf> {
    let is_rendered = |path: &Path| path.join(helm::CHART).is_file() || kustomize::file(path).is_some();
    let has_files = |path: &Path, depth: usize| {
        let mut rendered = Vec::new();
        let files = yaml_files(path, depth, &mut rendered);
        files.iter().any(|file| is_manifests(file)) || (depth > 0 && !rendered.is_empty())
    };
    if is_rendered(folder) {
        return Some(folder.to_owned());
    }
    // before the folder itself, in which there may be a single manifest of something else
    let usual =
        FOLDERS.iter().map(|name| folder.join(name)).find(|path| is_rendered(path) || has_files(path, DEPTH_MAX));
    let usual = usual.or_else(|| has_files(folder, 0).then(|| folder.to_owned()));
    let chart = || CHARTS.iter().map(|name| folder.join(name)).find(|path| path.join(helm::CHART).is_file());
    usual.or_else(chart).or_else(|| (is_named && has_files(folder, DEPTH_MAX)).then(|| folder.to_owned()))
}

/// Whether a file contains manifests rather than a compose file, or is a kustomization or a chart.
pub fn is_manifests(file: &Path) -> bool {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_rendered = name == helm::CHART || kustomize::NAMES.contains(&name.as_str());
    is_rendered || read_text(file).is_ok_and(|text| is_manifest(&text))
}

/// `shown`: the path in messages. `-` is standard input.
///
/// # Errors
/// Request, if a manifest cannot be parsed or a folder has none; environment, if `helm` or `kustomize` is needed.
pub fn read(path: &Path, shown: &str) -> Result<Manifests, Failure> {
    let mut notes = Vec::new();
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| Failure::request("cannot read standard input").why(error.to_string()))?;
        let documents = documents(&String::from_utf8_lossy(&bytes), "standard input", &mut notes)?;
        return Ok(Manifests { documents, folder: PathBuf::from("."), notes });
    }
    if path.is_file() {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let documents = match name.as_str() {
            helm::CHART => helm::render(&folder, &shown_folder(&folder))?,
            name if kustomize::NAMES.contains(&name) => kustomize::render(&folder, &shown_folder(&folder), &mut notes)?,
            _ => documents(&read_text(path)?, shown, &mut notes)?,
        };
        return Ok(Manifests { documents, folder, notes });
    }
    let documents = if path.join(helm::CHART).is_file() {
        helm::render(path, shown)?
    } else if kustomize::file(path).is_some() {
        kustomize::render(path, shown, &mut notes)?
    } else {
        folder(path, shown, &mut notes)?
    };
    Ok(Manifests { documents, folder: path.to_owned(), notes })
}

fn shown_folder(folder: &Path) -> String {
    let text = folder.display().to_string();
    if text == "." { "this folder".to_owned() } else { text.strip_prefix("./").unwrap_or(&text).to_owned() }
}

/// All manifests below a folder, without folders that are rendered by a tool.
fn folder(path: &Path, shown: &str, notes: &mut Vec<String>) -> Result<Vec<Document>, Failure> {
    let mut rendered = Vec::new();
    let files = yaml_files(path, DEPTH_MAX, &mut rendered);
    if files.len() > FILES_MAX {
        return Err(Failure::request(format!("{shown} has more than {FILES_MAX} YAML files"))
            .next("name the folder that contains only the application's manifests"));
    }
    let mut found = Vec::new();
    for file in &files {
        let text = read_text(file)?;
        if !is_manifest(&text) {
            continue;
        }
        let name = file.strip_prefix(path).unwrap_or(file).display().to_string();
        let at = if matches!(shown, "" | ".") { name } else { format!("{}/{name}", shown.trim_end_matches('/')) };
        found.extend(documents(&text, &at, notes)?);
    }
    let names: Vec<String> = rendered.iter().map(|folder| folder.display().to_string()).collect();
    match (found.is_empty(), rendered.as_slice()) {
        (true, [only]) => read(only, &shown_folder(only)).map(|manifests| {
            notes.extend(manifests.notes);
            manifests.documents
        }),
        (true, [_, _, ..]) => {
            Err(Failure::request(format!("{shown} has several kustomizations or charts and no plain manifests"))
                .why(names.join(", "))
                .next(format!("name one, such as: faultloom init {}", preferred(&names))))
        }
        (false, [_, ..]) => {
            notes
                .push(format!("not read, since a tool renders them: {}; name one of them to use it", names.join(", ")));
            Ok(found)
        }
        _ => Ok(found),
    }
}

/// The overlay that is meant for a laptop, if its name says so.
fn preferred(names: &[String]) -> &str {
    let local = ["local", "dev", "development", "minikube", "kind", "base"];
    let named = local.iter().find_map(|word| names.iter().find(|name| name.ends_with(&format!("/{word}"))));
    named.map_or("PATH", String::as_str)
}

/// Sorted, with those of folders inside. Folders with a kustomization or a chart go to `rendered`.
fn yaml_files(folder: &Path, depth: usize, rendered: &mut Vec<PathBuf>) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let is_link = entry.symlink_metadata().is_ok_and(|data| data.is_symlink());
        if entry.is_dir() && !is_link {
            let own = !name.starts_with('.') && !LEFT_OUT.contains(&name.as_str());
            if depth == 0 || !own {
                continue;
            }
            if entry.join(helm::CHART).is_file() || kustomize::file(&entry).is_some() {
                rendered.push(entry);
            } else if found.len() <= FILES_MAX {
                found.extend(yaml_files(&entry, depth - 1, rendered));
            }
        } else if EXTENSIONS.iter().any(|end| name.ends_with(&format!(".{end}"))) && !name.starts_with('.') {
            found.push(entry);
        }
    }
    found
}

fn read_text(file: &Path) -> Result<String, Failure> {
    let failed =
        |why: String| Failure::request(format!("cannot read {}", file.display())).why(why).next("check the path");
    let opened = std::fs::File::open(file).map_err(|error| failed(error.to_string()))?;
    let mut bytes = Vec::new();
    let read = opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    if read as u64 > FILE_BYTES_MAX {
        return Err(failed(format!("it is larger than {} MiB", FILE_BYTES_MAX >> 20)));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
