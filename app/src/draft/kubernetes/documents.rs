//! The YAML documents of manifests: several in one file, and lists of objects.
//!
//! A line that begins with `---` ends a document wherever it is (YAML 1.2, c-forbidden), so a file is split at such
//! lines first. An error then concerns one document, and its line is that of the file.

use crate::draft::node::{self, Node};
use model::Failure;

/// More than any repository has; a limit for files that are not manifests at all.
const DOCUMENTS_MAX: usize = 10_000;
const BYTES_MAX: usize = 32 << 20;

/// One object of a cluster, and where it was read.
#[derive(Clone, Debug)]
pub struct Document {
    /// `k8s/orders.yaml, document 2`, for messages.
    pub at: String,
    pub node: Node,
}

impl Document {
    pub fn kind(&self) -> String {
        self.text("kind").unwrap_or_default()
    }

    /// Without its version: `apps`, or empty for the core group.
    pub fn group(&self) -> String {
        let version = self.text("apiVersion").unwrap_or_default();
        version.split_once('/').map_or_else(String::new, |(group, _)| group.to_owned())
    }

    pub fn name(&self) -> String {
        self.node.get("metadata").and_then(|meta| meta.get("name")).and_then(Node::text).unwrap_or_default()
    }

    pub fn namespace(&self) -> String {
        self.stated_namespace().unwrap_or_else(|| "default".to_owned())
    }

    pub fn stated_namespace(&self) -> Option<String> {
        let namespace = self.node.get("metadata").and_then(|meta| meta.get("namespace")).and_then(Node::text);
        namespace.filter(|name| !name.is_empty())
    }

    fn text(&self, key: &str) -> Option<String> {
        self.node.get(key).and_then(Node::text)
    }
}

/// Whether a text has the two keys that every manifest has. It decides between a compose file and a manifest, also if
/// the text has errors.
pub fn is_manifest(text: &str) -> bool {
    let has = |key: &str| {
        text.lines().any(|line| {
            let line = line.trim_start_matches(['{', ' ', '-', '\t']).trim_start_matches('"');
            line.strip_prefix(key).is_some_and(|rest| rest.trim_start_matches('"').trim_start().starts_with(':'))
        })
    };
    has("apiVersion") && has("kind")
}

/// All objects of a file. `shown`: its name in messages. Documents that are no objects are named in `notes`.
///
/// # Errors
/// Request, with file, document and line, if a document cannot be parsed.
pub fn documents(text: &str, shown: &str, notes: &mut Vec<String>) -> Result<Vec<Document>, Failure> {
    if text.len() > BYTES_MAX {
        return Err(Failure::request(format!("{shown} is larger than {} MiB", BYTES_MAX >> 20))
            .next("name the files that contain the application's manifests"));
    }
    let parts = split(text);
    if parts.len() > DOCUMENTS_MAX {
        return Err(Failure::request(format!("{shown} has more than {DOCUMENTS_MAX} documents"))
            .next("name the files that contain the application's manifests"));
    }
    let single = parts.len() == 1;
    let mut found = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let at = if single { shown.to_owned() } else { format!("{shown}, document {}", index + 1) };
        let node = node::problem(&part.text).map_err(|(line, problem)| {
            let here = part.text.lines().nth(line.saturating_sub(1)).unwrap_or_default().trim();
            let failure = Failure::request(format!("{at}, line {}: {problem}", part.first_line + line - 1))
                .why(format!("the line is: {}", here.chars().take(200).collect::<String>()));
            match part.text.contains("{{") {
                true => failure.next(format!(
                    "this looks like a template: render it first (helm template CHART > rendered.yaml), or name the \
                     folder with Chart.yaml instead of {shown}"
                )),
                false => failure.next("correct the file first; `kubectl apply --dry-run=client -f` checks it too"),
            }
        })?;
        match node {
            Node::Null => {}
            node => flatten(node, &at, &mut found, notes),
        }
    }
    Ok(found)
}

fn flatten(node: Node, at: &str, found: &mut Vec<Document>, notes: &mut Vec<String>) {
    let document = Document { at: at.to_owned(), node };
    let kind = document.kind();
    let items = document.node.get("items").map(Node::items);
    match items.filter(|_| kind.ends_with("List")) {
        Some(items) => {
            for (index, item) in items.iter().enumerate() {
                let item = Document { at: format!("{at}, item {}", index + 1), node: item.clone() };
                add(item, found, notes);
            }
        }
        None => add(document, found, notes),
    }
}

fn add(document: Document, found: &mut Vec<Document>, notes: &mut Vec<String>) {
    if document.kind().is_empty() || document.text("apiVersion").is_none() {
        notes.push(format!("{}: skipped, since it has no apiVersion and kind", document.at));
    } else if document.name().is_empty() && document.kind() != "Kustomization" {
        notes.push(format!("{}: skipped, since this {} has no metadata.name", document.at, document.kind()));
    } else {
        found.push(document);
    }
}

struct Part {
    text: String,
    /// From 1.
    first_line: usize,
}

fn split(text: &str) -> Vec<Part> {
    let mut parts = vec![Part { text: String::new(), first_line: 1 }];
    for (index, line) in text.lines().enumerate() {
        let marker = line.strip_prefix("---").filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r']));
        let last = parts.len() - 1;
        match marker {
            // the marker's line may have content: `--- # comment`
            Some(rest) => {
                let first = parts.len() == 1 && is_blank(&parts[0].text);
                let part = Part { text: format!("   {rest}\n"), first_line: index + 1 };
                if first {
                    parts[0] = part;
                } else {
                    parts.push(part);
                }
            }
            None if line == "..." || (line.starts_with('%') && is_blank(&parts[last].text)) => {
                parts[last].text.push('\n');
            }
            None => {
                parts[last].text += line;
                parts[last].text.push('\n');
            }
        }
    }
    while parts.len() > 1 && is_blank(&parts[parts.len() - 1].text) {
        parts.pop();
    }
    parts
}

/// Only comments and empty lines.
fn is_blank(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<Document>, Vec<String>) {
        let mut notes = Vec::new();
        (documents(text, "a.yaml", &mut notes).unwrap(), notes)
    }

    #[test]
    fn documents_and_lists_become_objects_with_their_positions() {
        let text = "# head\n---\napiVersion: v1\nkind: Service\nmetadata: {name: a}\n--- # next\n---\napiVersion: v1\n\
                    kind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: b, namespace: shop}}\n- {kind: X}\n---\n";
        let (found, notes) = read(text);
        let shown: Vec<String> = found.iter().map(|d| format!("{} {}/{}", d.at, d.namespace(), d.name())).collect();
        assert_eq!(shown, ["a.yaml, document 1 default/a", "a.yaml, document 3, item 1 shop/b"]);
        assert_eq!(notes, ["a.yaml, document 3, item 2: skipped, since it has no apiVersion and kind"]);
    }

    #[test]
    fn an_error_names_file_document_and_line() {
        let text = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n---\napiVersion: v1\nkind: [\n";
        let failure = documents(text, "a.yaml", &mut Vec::new()).unwrap_err();
        assert!(failure.what.starts_with("a.yaml, document 2, line "), "{failure}");
        let failure = documents("name: {{ .Values.name }}: x\n", "t.yaml", &mut Vec::new()).unwrap_err();
        assert!(failure.to_string().contains("helm template"), "{failure}");
    }

    #[test]
    fn manifests_and_compose_files_are_distinguished() {
        assert!(
            is_manifest("apiVersion: v1\nkind: [\n") && is_manifest("{\"apiVersion\": \"v1\",\n \"kind\": \"List\"}")
        );
        assert!(!is_manifest("services:\n  a:\n    image: x\n"));
    }
}
