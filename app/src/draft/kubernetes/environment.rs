//! A container's environment: literals, references to ConfigMaps and Secrets, fields of the pod, and `$(NAME)`.

use super::resources::{Cluster, Data, Workload};
use crate::draft::node::Node;
use crate::draft::{Guess, guess, stated};

/// A variable as its container gets it.
#[derive(Clone, Debug)]
pub struct Variable {
    pub name: String,
    pub value: Guess<String>,
    /// From a Secret.
    pub is_secret: bool,
}

/// In the order of the manifest; `env` overrides `envFrom`. Values that are missing are named in `notes`.
pub fn variables(workload: &Workload, cluster: &Cluster, notes: &mut Vec<String>) -> Vec<Variable> {
    let mut reader = Reader { workload, cluster, all: Vec::new(), notes };
    for source in &workload.container.env_from {
        reader.import(source);
    }
    for entry in &workload.container.env {
        reader.entry(entry);
    }
    reader.all
}

struct Reader<'a> {
    workload: &'a Workload,
    cluster: &'a Cluster,
    all: Vec<Variable>,
    notes: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn put(&mut self, name: &str, value: Guess<String>, is_secret: bool) {
        // NUL cannot be in a variable, and '=' cannot be in its name
        if name.is_empty() || name.contains(['=', '\0']) || value.value.contains('\0') {
            return;
        }
        self.all.retain(|other| other.name != name);
        self.all.push(Variable { name: name.to_owned(), value, is_secret });
    }

    fn note(&mut self, text: String) {
        self.notes.push(format!("{}: {text}", self.workload.name));
    }

    fn data(&self, kind: &'static str, name: &str) -> Option<&Data> {
        self.cluster.data.get(&(kind, self.workload.namespace.clone(), name.to_owned()))
    }

    /// One entry of `envFrom`.
    fn import(&mut self, source: &Node) {
        let prefix = source.get("prefix").and_then(Node::text).unwrap_or_default();
        for (key, kind) in [("configMapRef", "ConfigMap"), ("secretRef", "Secret")] {
            let Some(reference) = source.get(key) else { continue };
            let name = reference.get("name").and_then(Node::text).unwrap_or_default();
            match self.data(kind, &name).cloned() {
                Some(data) => {
                    for (variable, value) in data.values {
                        let from = format!("{kind} '{name}' in {}", data.at);
                        self.put(&format!("{prefix}{variable}"), stated(value, from), kind == "Secret");
                    }
                }
                None if is_optional(reference) => {}
                None => self.note(format!(
                    "{kind} '{name}' is not in these manifests, so none of its variables is set: add them to the target \
                     file, or name the file that has it too"
                )),
            }
        }
    }

    /// One entry of `env`.
    fn entry(&mut self, entry: &Node) {
        let Some(name) = entry.get("name").and_then(Node::text) else { return };
        let Some(source) = entry.get("valueFrom") else {
            let text = entry.get("value").and_then(Node::text).unwrap_or_default();
            let expanded = self.expand(&text);
            let uses = |variable: &Variable| variable.is_secret && text.contains(&format!("$({})", variable.name));
            let is_secret = self.all.iter().any(uses);
            return self.put(&name, stated(expanded, "env"), is_secret);
        };
        for (key, kind) in [("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")] {
            let Some(reference) = source.get(key) else { continue };
            let (object, key) = (text(reference, "name"), text(reference, "key"));
            let value = self.data(kind, &object).and_then(|data| data.values.get(&key)).cloned();
            return match value {
                Some(value) => self.put(&name, stated(value, format!("key '{key}' of {kind} '{object}'")), kind == "Secret"),
                None if is_optional(reference) => {}
                None => self.note(format!(
                    "{name} is not set: key '{key}' of {kind} '{object}' is not in these manifests; set it in the target \
                     file, or export it before `faultloom up`"
                )),
            };
        }
        if let Some(field) = source.get("fieldRef").map(|field| text(field, "fieldPath")) {
            return match self.field(&field) {
                Some(value) => self.put(&name, guess(value, format!("{field} of the pod")), false),
                None => {
                    self.note(format!("{name} is not set: {field} exists only in a pod; set it in the target file"))
                }
            };
        }
        let other = source.entries().first().map_or("valueFrom", |(key, _)| key.as_str());
        self.note(format!(
            "{name} is not set: {other} exists only in a pod; set it in the target file if it is needed"
        ));
    }

    /// A field of the pod, as far as it has a counterpart on this machine.
    fn field(&self, path: &str) -> Option<String> {
        let keyed = path.strip_prefix("metadata.labels['").and_then(|rest| rest.strip_suffix("']"));
        if let Some(label) = keyed {
            return self.workload.labels.iter().find(|(name, _)| name == label).map(|(_, value)| value.clone());
        }
        match path {
            "metadata.name" => Some(format!("{}-0", self.workload.name)),
            "metadata.namespace" => Some(self.workload.namespace.clone()),
            "metadata.uid" => Some("00000000-0000-4000-8000-000000000000".to_owned()),
            "status.podIP" | "status.podIPs" | "status.hostIP" => Some("127.0.0.1".to_owned()),
            "spec.nodeName" => Some("localhost".to_owned()),
            "spec.serviceAccountName" => Some("default".to_owned()),
            _ => None,
        }
    }

    /// Replaces `$(NAME)` by the value of an earlier variable or of a variable that the kubelet sets for each service.
    /// `$$(NAME)` is `$(NAME)`; unknown names stay as they are.
    fn expand(&self, text: &str) -> String {
        expand(text, |name| {
            let own =
                self.all.iter().find(|variable| variable.name == name).map(|variable| variable.value.value.clone());
            own.or_else(|| self.service_variable(name))
        })
    }

    /// `CATALOG_SERVICE_HOST` and `CATALOG_SERVICE_PORT` of Service `catalog`.
    fn service_variable(&self, name: &str) -> Option<String> {
        let (stem, is_port) = match name.strip_suffix("_SERVICE_PORT") {
            Some(stem) => (stem, true),
            None => (name.strip_suffix("_SERVICE_HOST")?, false),
        };
        let same = |other: &str| other.to_ascii_uppercase().replace('-', "_") == stem;
        let mut services = self.cluster.services.iter().filter(|service| service.namespace == self.workload.namespace);
        let service = services.find(|service| same(&service.name))?;
        match is_port {
            true => service.ports.first().map(|port| port.port.to_string()),
            false => Some(service.name.clone()),
        }
    }
}

fn text(node: &Node, key: &str) -> String {
    node.get(key).and_then(Node::text).unwrap_or_default()
}

fn is_optional(reference: &Node) -> bool {
    reference.get("optional") == Some(&Node::Bool(true))
}

pub fn expand(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out += before;
        if let Some(after) = after.strip_prefix("$") {
            out.push('$');
            rest = after;
            continue;
        }
        let inside = after.strip_prefix('(').and_then(|after| after.split_once(')'));
        match inside.and_then(|(name, after)| Some((value(name)?, after))) {
            Some((value, after)) => {
                out += &value;
                rest = after;
            }
            None => {
                out.push('$');
                rest = after;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_expanded_as_the_kubelet_does() {
        let value = |name: &str| (name == "A").then(|| "1".to_owned());
        assert_eq!(expand("$(A)/$(B)/$$(A)/$A/$", value), "1/$(B)/$(A)/$A/$");
    }
}
