//! The patch that gives a workload of a cluster its SDK and its keys, and the Secret with the keys.
//!
//! The image of the service stays as it is, except for Go: an init container copies the SDK into a volume. The patch
//! names only what it adds, so `kubectl kustomize` merges it into the user's manifest.

use crate::draft::kubernetes::ClusterWorkload;
use crate::draft::yaml::scalar;
use crate::installation::{IN_IMAGE, Installation};
use crate::text::quoted;
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use target::{Sdk, Target};

const KEYS_FOLDER: &str = "/etc/faultloom";
const SDK_IN_IMAGE: &str = "/sdk";

impl Installation<'_> {
    fn secret_name(&self) -> String {
        let app = self.target.map_or("app", |target: &Target| target.name.as_str());
        let allowed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        format!("faultloom-{}", app.chars().map(allowed).collect::<String>().trim_matches('-'))
    }

    /// The Secret, or the command that creates it from the file.
    pub fn kubernetes_secret(&self) -> String {
        let secret = self.secret_name();
        if self.show_keys {
            let mut out = String::from("apiVersion: v1\nkind: Secret\n");
            let _ = writeln!(out, "metadata: {{name: {secret}}}\nstringData:\n  trust: |");
            return out + &self.keys("    ") + "---\n";
        }
        let file = quoted(&self.trust_file.display().to_string());
        format!("# once: kubectl create secret generic {secret} --from-file=trust={file}\n")
    }

    pub fn kubernetes(&self) -> String {
        let name = &self.service;
        let found = self.cluster.and_then(|cluster| cluster.workload(name));
        let mut out = match (found, self.cluster) {
            (Some(own), _) => {
                format!("# {name} ({}): patch for {} '{}' of {}\n", self.sdk.name(), own.kind, own.name, own.at)
            }
            (None, Some(cluster)) => format!(
                "# {name} ({}): {} has no workload of this name, so a Deployment and a container called {name} are assumed\n",
                self.sdk.name(),
                cluster.shown
            ),
            (None, None) => format!(
                "# {name} ({}): no manifests were read (--manifests PATH), so a Deployment and a container called {name} are \
                 assumed,\n# and the ports of the target file\n",
                self.sdk.name()
            ),
        };
        out += &self.sdk_image_lines();
        let assumed = ClusterWorkload {
            at: String::new(),
            name: name.clone(),
            kind: "Deployment".to_owned(),
            api_version: "apps/v1".to_owned(),
            namespace: None,
            container: name.clone(),
            variables: Vec::new(),
        };
        let workload = found.unwrap_or(&assumed);
        let namespace = workload.namespace.as_deref().map(|name| format!(", namespace: {}", scalar(name)));
        let metadata = format!("{{name: {}{}}}", scalar(&workload.name), namespace.unwrap_or_default());
        let (version, kind) = (scalar(&workload.api_version), scalar(&workload.kind));
        let _ = writeln!(out, "apiVersion: {version}\nkind: {kind}\nmetadata: {metadata}\nspec:");
        let indent = match workload.kind.as_str() {
            "Pod" => "  ",
            _ => {
                out += "  template:\n    spec:\n";
                "      "
            }
        };
        for line in self.pod(workload).lines() {
            let _ = writeln!(out, "{indent}{line}");
        }
        out + &self.one_line("# ")
    }

    fn sdk_image(&self) -> String {
        format!("faultloom-sdk-{}:{}", self.sdk.name(), env!("CARGO_PKG_VERSION"))
    }

    /// How the image with the SDK is built.
    fn sdk_image_lines(&self) -> String {
        if self.sdk == Sdk::Go {
            return format!(
                "# its image has the SDK built in: faultloom env go --service {} --for docker\n",
                self.service
            );
        }
        let (source, copied, _) = self.source();
        let mut lines = String::new();
        for file in copied.split(' ') {
            // a folder keeps its name only if it is in the destination
            let into = if file.contains('.') { format!("{SDK_IN_IMAGE}/") } else { format!("{SDK_IN_IMAGE}/{file}") };
            let _ = writeln!(lines, "#   COPY {file} {into}");
        }
        format!(
            "# once, the image with the SDK; push it to a registry of the cluster, or load it: kind load docker-image {image}\n\
             #   docker build -t {image} -f - {source} <<END\n#   FROM busybox:stable\n{lines}#   END\n",
            image = self.sdk_image(),
            source = quoted(&source.display().to_string()),
        )
    }

    /// What the patch adds to the specification of the pod.
    fn pod(&self, workload: &ClusterWorkload) -> String {
        let secret = self.secret_name();
        let mut out = format!("volumes:\n  - name: faultloom-keys\n    secret: {{secretName: {secret}}}\n");
        if self.sdk != Sdk::Go {
            let image = self.sdk_image();
            out += "  - {name: faultloom-sdk, emptyDir: {}}\ninitContainers:\n  - name: faultloom-sdk\n";
            let _ = writeln!(out, "    image: {image}");
            let _ = writeln!(out, "    command: [cp, -r, {SDK_IN_IMAGE}/., {IN_IMAGE}/]");
            out += "    resources: {limits: {memory: 32Mi}, requests: {cpu: 10m, memory: 8Mi}}\n";
            out += "    securityContext:\n      allowPrivilegeEscalation: false\n      readOnlyRootFilesystem: true\n";
            out += "      capabilities: {drop: [ALL]}\n";
            let _ = writeln!(out, "    volumeMounts:\n      - {{name: faultloom-sdk, mountPath: {IN_IMAGE}}}");
        }
        let _ = writeln!(out, "containers:\n  - name: {}", scalar(&workload.container));
        let _ = writeln!(
            out,
            "    volumeMounts:\n      - {{name: faultloom-keys, mountPath: {KEYS_FOLDER}, readOnly: true}}"
        );
        if self.sdk != Sdk::Go {
            let _ = writeln!(out, "      - {{name: faultloom-sdk, mountPath: {IN_IMAGE}, readOnly: true}}");
        }
        out += "    env:\n";
        let mut variables = vec![("FAULTLOOM_SERVICE", self.service.clone())];
        let peers = self.cluster.map_or_else(|| self.peers_in_network(), |cluster| cluster.peers.clone());
        if !peers.is_empty() {
            variables.push(("FAULTLOOM_PEERS", peers));
        }
        variables.push(("FAULTLOOM_TRUST_FILE", format!("{KEYS_FOLDER}/trust")));
        if let Some((variable, value, between)) = self.sdk.variable(Path::new(&self.source().2)) {
            let value = value.to_string_lossy().into_owned();
            let existing = workload.variables.iter().find(|(own, _)| own == variable);
            variables.push((
                variable,
                match existing {
                    // the existing value is kept after ours
                    Some((_, Some(existing))) if !existing.is_empty() => format!("{value}{between}{existing}"),
                    _ => value,
                },
            ));
            if let Some((_, None)) = existing {
                let _ = writeln!(out, "      # {variable} replaces a value by reference: append that value here");
            }
        }
        for (variable, value) in variables {
            let _ = writeln!(out, "      - {{name: {variable}, value: {}}}", Value::from(value));
        }
        out
    }
}
