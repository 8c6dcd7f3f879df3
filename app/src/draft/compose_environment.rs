//! Variables in a compose file: `environment` in both forms, `env_file`, and `${NAME:-default}` in any text.

use super::node::Node;
use std::collections::BTreeMap;
use std::path::Path;

/// The values of `$NAME` in a compose file, from `.env` in its folder.
pub struct Interpolation {
    values: BTreeMap<String, String>,
    /// Names without a value.
    pub missing: Vec<String>,
}

impl Interpolation {
    pub fn of_folder(folder: &Path) -> Interpolation {
        let values = std::fs::read_to_string(folder.join(".env")).map(|text| lines(&text)).unwrap_or_default();
        Interpolation { values: values.into_iter().collect(), missing: Vec::new() }
    }

    /// `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME-default}`, `${NAME:?message}`, `$$`.
    pub fn apply(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            out += before;
            if let Some(after) = after.strip_prefix('$') {
                out.push('$');
                rest = after;
            } else if let Some((inside, after)) = after.strip_prefix('{').and_then(|after| after.split_once('}')) {
                out += &self.braced(inside);
                rest = after;
            } else {
                let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
                match end {
                    0 => out.push('$'),
                    _ => out += &self.value(&after[..end], None),
                }
                rest = &after[end..];
            }
        }
        out + rest
    }

    fn braced(&mut self, inside: &str) -> String {
        let end = inside.find([':', '-', '?', '+']).unwrap_or(inside.len());
        let (name, rest) = inside.split_at(end);
        let default = rest.trim_start_matches(':').strip_prefix('-');
        self.value(name, default)
    }

    fn value(&mut self, name: &str, default: Option<&str>) -> String {
        match (self.values.get(name), default) {
            (Some(value), _) => value.clone(),
            (None, Some(default)) => default.to_owned(),
            (None, None) => {
                if !self.missing.iter().any(|other| other == name) {
                    self.missing.push(name.to_owned());
                }
                String::new()
            }
        }
    }
}

/// A variable, its value (`None`: inherited from the shell that starts the service) and the source of the value.
pub type Variable = (String, Option<String>, String);

/// In the order of the file; `environment` overrides `env_file`.
pub fn variables(
    service: &Node,
    folder: &Path,
    interpolation: &mut Interpolation,
    notes: &mut Vec<String>,
) -> Vec<Variable> {
    let mut all: Vec<Variable> = Vec::new();
    let mut put = |name: String, value: Option<String>, from: String| {
        all.retain(|(other, ..)| *other != name);
        all.push((name, value, from));
    };
    for file in one_or_many(service.get("env_file")) {
        match std::fs::read_to_string(folder.join(&file)) {
            Ok(text) => lines(&text).into_iter().for_each(|(name, value)| put(name, Some(value), file.clone())),
            Err(_) => notes.push(format!("env_file {file} does not exist")),
        }
    }
    let from = "environment";
    match service.get("environment") {
        Some(Node::Map(entries)) => {
            for (name, value) in entries {
                put(name.clone(), value.text().map(|text| interpolation.apply(&text)), from.into());
            }
        }
        Some(Node::List(items)) => {
            for text in items.iter().filter_map(Node::text) {
                match text.split_once('=') {
                    Some((name, value)) => put(name.to_owned(), Some(interpolation.apply(value)), from.into()),
                    None => put(text, None, from.into()),
                }
            }
        }
        _ => {}
    }
    all
}

/// A text, a list of texts, or a list of `{path: …}`.
fn one_or_many(node: Option<&Node>) -> Vec<String> {
    let single = node.and_then(Node::text);
    let many = node.map(Node::items).unwrap_or_default();
    let path = |item: &Node| item.text().or_else(|| item.get("path").and_then(Node::text));
    single.into_iter().chain(many.iter().filter_map(path)).collect()
}

/// `NAME=value` lines of an environment file.
pub fn lines(text: &str) -> Vec<(String, String)> {
    let plain = |line: &&str| !line.is_empty() && !line.starts_with('#');
    text.lines()
        .map(str::trim)
        .filter(plain)
        .filter_map(|line| line.strip_prefix("export ").unwrap_or(line).split_once('='))
        .map(|(name, value)| {
            let value = value.trim();
            let bare = ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
            (name.trim().to_owned(), bare.unwrap_or(value).to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_expanded_as_compose_does() {
        let mut interpolation = Interpolation { values: [("A".into(), "1".into())].into(), missing: Vec::new() };
        assert_eq!(interpolation.apply("$A-${A}-${B:-two}-${C-}-$$D-$ 5"), "1-1-two--$D-$ 5");
        assert_eq!(interpolation.missing, [""; 0]);
        assert_eq!(interpolation.apply("${E:?needed}$F"), "");
        assert_eq!(interpolation.missing, ["E", "F"]);
        assert_eq!(lines("# x\nexport A='b c'\nB=\"\"\n"), [("A".into(), "b c".into()), ("B".into(), String::new())]);
    }
}
