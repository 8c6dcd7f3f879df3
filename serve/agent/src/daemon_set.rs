//! The agent on every node of a Kubernetes cluster: a namespace and a DaemonSet with the least privileges for one
//! source.
//!
//! The agent needs no rights in the cluster's API, so it has no token. It runs as root without any capability but those
//! of its source, because capabilities that a pod adds have no effect for other users.

use crate::capabilities;
use flows::Source;

/// `image`: an image whose entrypoint is the tool.
pub fn manifests(source: Source, image: &str, interval: &str) -> String {
    let names = capabilities::names(capabilities::needed(source));
    let added: Vec<&str> = names.iter().map(|name| name.trim_start_matches("CAP_")).collect();
    let capabilities = match added.is_empty() {
        true => "{drop: [ALL]}".to_owned(),
        false => format!("{{drop: [ALL], add: [{}]}}", added.join(", ")),
    };
    // in JSON, which is YAML: an image's name may have any characters
    let image = format!("\"{}\"", image.replace('\\', "\\\\").replace('"', "\\\""));
    format!(
        "# the image:\n\
         #   docker build -t {image} -f - FOLDER_OF_FAULTLOOM <<END\n\
         #   FROM debian:12-slim\n\
         #   COPY faultloom /usr/local/bin/\n\
         #   ENTRYPOINT [\"faultloom\"]\n\
         #   END\n\
         apiVersion: v1\n\
         kind: Namespace\n\
         metadata:\n\
         \x20 name: faultloom\n\
         \x20 # the agent observes the node's sockets and processes, which stricter levels forbid\n\
         \x20 labels: {{pod-security.kubernetes.io/enforce: privileged}}\n\
         ---\n\
         apiVersion: apps/v1\n\
         kind: DaemonSet\n\
         metadata:\n\
         \x20 name: faultloom-agent\n\
         \x20 namespace: faultloom\n\
         \x20 labels: {{app.kubernetes.io/name: faultloom-agent}}\n\
         spec:\n\
         \x20 selector:\n\
         \x20   matchLabels: {{app.kubernetes.io/name: faultloom-agent}}\n\
         \x20 template:\n\
         \x20   metadata:\n\
         \x20     labels: {{app.kubernetes.io/name: faultloom-agent}}\n\
         \x20   spec:\n\
         \x20     # the processes that own sockets, and the sockets of the node itself\n\
         \x20     hostPID: true\n\
         \x20     hostNetwork: true\n\
         \x20     automountServiceAccountToken: false\n\
         \x20     enableServiceLinks: false\n\
         \x20     nodeSelector: {{kubernetes.io/os: linux}}\n\
         \x20     tolerations:\n\
         \x20       - {{operator: Exists}}\n\
         \x20     containers:\n\
         \x20       - name: agent\n\
         \x20         image: {image}\n\
         \x20         args: [agent, --mode, {source}, --interval, {interval}, --state, /var/lib/faultloom]\n\
         \x20         resources:\n\
         \x20           requests: {{cpu: 10m, memory: 32Mi}}\n\
         \x20           limits: {{memory: 256Mi}}\n\
         \x20         securityContext:\n\
         \x20           runAsUser: 0\n\
         \x20           privileged: false\n\
         \x20           allowPrivilegeEscalation: false\n\
         \x20           readOnlyRootFilesystem: true\n\
         \x20           # exactly the capabilities that {source} requires\n\
         \x20           capabilities: {capabilities}\n\
         \x20           seccompProfile: {{type: RuntimeDefault}}\n\
         \x20         volumeMounts:\n\
         \x20           - {{name: state, mountPath: /var/lib/faultloom}}\n\
         \x20     volumes:\n\
         \x20       # the windows of a node outlive the pod\n\
         \x20       - name: state\n\
         \x20         hostPath: {{path: /var/lib/faultloom, type: DirectoryOrCreate}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_has_exactly_its_capabilities() {
        let line = |source| {
            let text = manifests(source, "faultloom:0.1.0", "1000ms");
            let found = text.lines().find_map(|line| line.trim().strip_prefix("capabilities: ")).unwrap().to_owned();
            assert!(!text.contains("privileged: true") && text.contains("automountServiceAccountToken: false"));
            found
        };
        assert_eq!(line(Source::Ebpf), "{drop: [ALL], add: [PERFMON, BPF]}");
        assert_eq!(line(Source::Polling), "{drop: [ALL], add: [DAC_READ_SEARCH, SYS_PTRACE]}");
        assert_eq!(line(Source::Tuples), "{drop: [ALL]}");
    }
}
