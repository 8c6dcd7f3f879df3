//! The source of an image: a folder, a Go command or a script with the same name as the workload.
//!
//! An image cannot be started on this machine without a container runtime, and a container would need the SDK built
//! in. Its source usually lies in the same repository. The files are listed once, with bounds, and never executed.

use crate::draft::Command;
use crate::draft::dockerfile::Dockerfile;
use crate::draft::language::folder_sdk;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const DEPTH_MAX: usize = 10;
const ENTRIES_MAX: usize = 60_000;
/// Folders with files that are not the user's own source.
const LEFT_OUT: [&str; 14] = [
    "node_modules",
    "vendor",
    "target",
    "build",
    "dist",
    "out",
    "venv",
    "env",
    "__pycache__",
    "site-packages",
    "testdata",
    "tests",
    "test",
    "third_party",
];
/// Ends of names that do not distinguish a service.
const ENDS: [&str; 5] = ["service", "svc", "deployment", "server", "app"];
/// Folders below a service's folder in which its project may be.
const INNER: [&str; 3] = ["", "src", "app"];
const SCRIPTS: [(&str, &str); 4] = [("py", "python"), ("js", "node"), ("mjs", "node"), ("cjs", "node")];

/// Where a workload's source is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub folder: PathBuf,
    pub start: Start,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// As its Dockerfile or the files of its language say. With the Dockerfile's path.
    Project(Option<PathBuf>),
    /// The package below `cmd`: its name.
    GoCommand(String),
    /// An interpreter and a file in the folder.
    Script(&'static str, String),
    /// A class of this name is in the project.
    JavaClass(String),
}

impl Source {
    /// The command that the source states, and where.
    pub fn command(&self) -> Option<(Command, String)> {
        match &self.start {
            Start::Script(program, file) => {
                Some((Command::Words(vec![(*program).to_owned(), file.clone()]), format!("{file} has its name")))
            }
            _ => None,
        }
    }

    pub fn dockerfile(&self) -> Option<Dockerfile> {
        match &self.start {
            Start::Project(Some(path)) => std::fs::read_to_string(path).ok().map(|text| Dockerfile::parse(&text)),
            _ => None,
        }
    }
}

/// The files below a folder.
pub struct SourceTree {
    root: PathBuf,
    folders: BTreeSet<PathBuf>,
    files: BTreeSet<PathBuf>,
}

impl SourceTree {
    pub fn read(root: &Path) -> SourceTree {
        let mut tree = SourceTree { root: root.to_owned(), folders: [PathBuf::new()].into(), files: BTreeSet::new() };
        let mut queue = std::collections::VecDeque::from([(PathBuf::new(), 0)]);
        let mut entries = 0;
        while let Some((folder, depth)) = queue.pop_front() {
            for entry in std::fs::read_dir(root.join(&folder)).into_iter().flatten().flatten() {
                entries += 1;
                if entries > ENTRIES_MAX {
                    return tree;
                }
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = folder.join(&name);
                // links may lead in circles
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => {
                        let own = !name.starts_with('.') && !LEFT_OUT.contains(&name.as_str());
                        if own && depth < DEPTH_MAX {
                            tree.folders.insert(path.clone());
                            queue.push_back((path, depth + 1));
                        }
                    }
                    Ok(kind) if kind.is_file() => drop(tree.files.insert(path)),
                    _ => {}
                }
            }
        }
        tree
    }

    /// `names`: the workload's, its container's, its image's, the most specific first.
    pub fn find(&self, names: &[String]) -> Option<Source> {
        type Matches = fn(&str, &str) -> bool;
        let passes: [Matches; 2] = [|own, wanted| own == wanted, |own, wanted| stem(own) == stem(wanted)];
        for matches in passes {
            for name in names {
                let wanted = plain(name);
                if wanted.is_empty() {
                    continue;
                }
                let is = |own: &str| matches(&plain(own), &wanted);
                let found = self.folder(&is).or_else(|| self.script(&is)).or_else(|| self.java_class(&is));
                if let Some(found) = found.or_else(|| self.named_dockerfile(&is)).or_else(|| self.manifest_name(&is)) {
                    return Some(found);
                }
            }
        }
        None
    }

    /// The root itself, for an application of one service.
    pub fn whole(&self) -> Option<Source> {
        self.project(Path::new(""))
    }

    fn shallowest<'a>(&'a self, paths: impl Iterator<Item = &'a PathBuf>) -> Vec<&'a PathBuf> {
        let mut all: Vec<&PathBuf> = paths.collect();
        all.sort_by_key(|path| path.components().count());
        all
    }

    fn folder(&self, is: &dyn Fn(&str) -> bool) -> Option<Source> {
        let named = self.folders.iter().filter(|path| path.file_name().is_some_and(|name| is(&name.to_string_lossy())));
        for folder in self.shallowest(named) {
            // the main package of a module further up
            let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if folder.parent().is_some_and(|cmd| cmd.ends_with("cmd"))
                && let Some(module) = self.module_of(folder)
                && folder.parent() == Some(module.join("cmd").as_path())
                && self.has_go_files(folder)
            {
                return Some(Source { folder: self.root.join(module), start: Start::GoCommand(name) });
            }
            let inner = INNER.iter().find_map(|inner| self.project(&folder.join(inner)));
            if let Some(source) = inner {
                return Some(source);
            }
        }
        None
    }

    fn project(&self, folder: &Path) -> Option<Source> {
        let folder: PathBuf = folder.components().collect();
        let dockerfile = Some(folder.join("Dockerfile")).filter(|path| self.files.contains(path));
        let absolute = self.root.join(&folder);
        if dockerfile.is_none() && folder_sdk(&absolute, "").is_none() {
            return None;
        }
        Some(Source { folder: absolute, start: Start::Project(dockerfile.map(|path| self.root.join(path))) })
    }

    fn module_of(&self, folder: &Path) -> Option<PathBuf> {
        folder.ancestors().find(|path| self.files.contains(&path.join("go.mod"))).map(Path::to_owned)
    }

    fn has_go_files(&self, folder: &Path) -> bool {
        let is_go = |file: &PathBuf| file.parent() == Some(folder) && file.extension().is_some_and(|end| end == "go");
        self.files.iter().any(is_go)
    }

    fn script(&self, is: &dyn Fn(&str) -> bool) -> Option<Source> {
        let named = self.files.iter().filter(|path| path.file_stem().is_some_and(|name| is(&name.to_string_lossy())));
        self.shallowest(named).into_iter().find_map(|path| {
            let end = path.extension()?.to_string_lossy().into_owned();
            let (_, program) = SCRIPTS.iter().find(|(own, _)| *own == end)?;
            // the folder with the list of dependencies, so that they are installed there
            let marks =
                if *program == "node" { &["package.json"][..] } else { &["requirements.txt", "pyproject.toml"] };
            let project =
                path.ancestors().skip(1).find(|at| marks.iter().any(|mark| self.files.contains(&at.join(mark))))?;
            let file = path.strip_prefix(project).ok()?.to_string_lossy().into_owned();
            Some(Source { folder: self.root.join(project), start: Start::Script(program, file) })
        })
    }

    fn java_class(&self, is: &dyn Fn(&str) -> bool) -> Option<Source> {
        let marks = ["pom.xml", "build.gradle", "build.gradle.kts"];
        let named = self.files.iter().filter(|path| path.extension().is_some_and(|end| end == "java"));
        let named = named.filter(|path| path.file_stem().is_some_and(|name| is(&name.to_string_lossy())));
        self.shallowest(named).into_iter().find_map(|path| {
            let class = path.file_stem()?.to_string_lossy().into_owned();
            let project =
                path.ancestors().skip(1).find(|at| marks.iter().any(|mark| self.files.contains(&at.join(mark))))?;
            Some(Source { folder: self.root.join(project), start: Start::JavaClass(class) })
        })
    }

    /// `Dockerfile.catalog`, `catalog.Dockerfile`.
    fn named_dockerfile(&self, is: &dyn Fn(&str) -> bool) -> Option<Source> {
        let named = self.files.iter().filter(|path| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let own = name.strip_prefix("Dockerfile.").or_else(|| name.strip_suffix(".Dockerfile"));
            own.is_some_and(is)
        });
        let path = self.shallowest(named).into_iter().next()?;
        let folder = self.root.join(path.parent()?);
        Some(Source { folder, start: Start::Project(Some(self.root.join(path))) })
    }

    /// The project whose own name it is: in `package.json`, `pyproject.toml` or `pom.xml`, or a Go module's last part.
    fn manifest_name(&self, is: &dyn Fn(&str) -> bool) -> Option<Source> {
        let names = ["package.json", "pyproject.toml", "pom.xml", "go.mod"];
        let listed =
            self.files.iter().filter(|path| path.file_name().is_some_and(|name| names.iter().any(|own| name == *own)));
        self.shallowest(listed).into_iter().find_map(|path| {
            let text = std::fs::read_to_string(self.root.join(path)).ok()?;
            let own = match path.file_name()?.to_str()? {
                "package.json" => {
                    let package: serde_json::Value = serde_json::from_str(&text).ok()?;
                    package["name"].as_str()?.rsplit('/').next()?.to_owned()
                }
                "pyproject.toml" => text.lines().find_map(|line| {
                    let value = line.strip_prefix("name")?.trim_start().strip_prefix('=')?;
                    Some(value.trim().trim_matches(['"', '\'']).to_owned())
                })?,
                "pom.xml" => crate::draft::maven::Project::parse(&text).artifact?,
                _ => text.lines().find_map(|line| line.strip_prefix("module "))?.trim().rsplit('/').next()?.to_owned(),
            };
            if is(&own) { self.project(path.parent()?) } else { None }
        })
    }
}

/// Letters and digits only.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

fn stem(name: &str) -> &str {
    ENDS.iter().find_map(|end| name.strip_suffix(end)).filter(|stem| stem.len() > 2).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_without_punctuation_and_common_ends() {
        assert_eq!(plain("Cart-Service_2"), "cartservice2");
        assert_eq!((stem("cartservice"), stem("cart"), stem("app")), ("cart", "cart", "app"));
    }

    #[test]
    fn the_sources_of_the_bookstore_are_found_by_the_names_of_its_workloads() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/bookstore");
        let tree = SourceTree::read(&root);
        let find = |name: &str| {
            let found = tree.find(&[name.to_owned()]).unwrap();
            (found.folder.strip_prefix(&root).unwrap().display().to_string(), found.start)
        };
        assert_eq!(find("orders"), ("go".into(), Start::GoCommand("orders".into())));
        assert_eq!(find("catalog"), ("python".into(), Start::Script("python", "catalog.py".into())));
        assert_eq!(find("payment-service"), ("node".into(), Start::Script("node", "payment.js".into())));
        assert_eq!(find("delivery"), ("java".into(), Start::JavaClass("Delivery".into())));
        assert_eq!(tree.find(&["nothing".to_owned()]), None);
    }
}
