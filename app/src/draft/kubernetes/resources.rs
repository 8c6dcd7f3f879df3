//! The objects of a cluster that matter for a target: workloads, services, routes, and data for environments.

use super::documents::Document;
use crate::draft::node::Node;
use model::Failure;
use std::collections::BTreeMap;

/// Kinds whose pods run until they are deleted.
const WORKLOADS: [&str; 8] = [
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "ReplicaSet",
    "ReplicationController",
    "Pod",
    "Rollout",
    "DeploymentConfig",
];
/// Kinds whose pods end.
const JOBS: [&str; 2] = ["Job", "CronJob"];
/// Kinds without an effect on one machine. Others are named as skipped.
const WITHOUT_EFFECT: [&str; 22] = [
    "Namespace",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
    "NetworkPolicy",
    "HorizontalPodAutoscaler",
    "VerticalPodAutoscaler",
    "PodDisruptionBudget",
    "PodMonitor",
    "ServiceMonitor",
    "PrometheusRule",
    "LimitRange",
    "ResourceQuota",
    "PriorityClass",
    "IngressClass",
    "GatewayClass",
    "Gateway",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
];

#[derive(Clone, Debug)]
pub struct Workload {
    pub at: String,
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub namespace: String,
    /// `None`: that of the command which applies the manifest.
    pub stated_namespace: Option<String>,
    /// Labels of its pods.
    pub labels: Vec<(String, String)>,
    pub container: Container,
    /// Names of the pod's other containers.
    pub sidecars: Vec<String>,
    pub init_containers: Vec<String>,
    /// Names of ConfigMaps and Secrets that are mounted as files, and where.
    pub mounts: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Container {
    pub name: String,
    pub image: String,
    /// `None`: the image's entrypoint.
    pub command: Option<Vec<String>>,
    pub args: Option<Vec<String>>,
    /// Name, which may be empty, and number, of TCP ports.
    pub ports: Vec<(String, u16)>,
    pub env: Vec<Node>,
    pub env_from: Vec<Node>,
    pub probe: Option<Probe>,
    /// Seconds until the kubelet restarts a container that does not become live.
    pub start_timeout_s: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    pub check: ProbeCheck,
    /// `readinessProbe` and the like.
    pub from: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeCheck {
    Http { port: PortRef, path: String, https: bool },
    Tcp(PortRef),
    Grpc(PortRef),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortRef {
    Number(u16),
    Name(String),
}

#[derive(Clone, Debug)]
pub struct ClusterService {
    pub at: String,
    pub name: String,
    pub namespace: String,
    pub selector: Vec<(String, String)>,
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
    pub kind: String,
    pub ports: Vec<ServicePort>,
}

#[derive(Clone, Debug)]
pub struct ServicePort {
    pub name: String,
    pub port: u16,
    pub target: PortRef,
    /// `appProtocol`, lower case.
    pub protocol: String,
}

/// A rule that sends requests from outside to a service.
#[derive(Clone, Debug)]
pub struct Route {
    pub kind: String,
    pub name: String,
    pub namespace: String,
    pub service: String,
    pub port: Option<PortRef>,
    pub path: String,
    pub is_grpc: bool,
}

/// A ConfigMap or a Secret.
#[derive(Clone, Debug)]
pub struct Data {
    pub at: String,
    pub values: BTreeMap<String, String>,
}

/// Everything that was read.
#[derive(Debug, Default)]
pub struct Cluster {
    pub workloads: Vec<Workload>,
    pub services: Vec<ClusterService>,
    pub routes: Vec<Route>,
    /// By kind, namespace and name.
    pub data: BTreeMap<(&'static str, String, String), Data>,
    /// Kinds of objects that were not used, with their names.
    pub skipped: BTreeMap<String, Vec<String>>,
}

impl Cluster {
    /// # Errors
    /// Request, if two workloads or two services have the same name.
    pub fn read(documents: &[Document], notes: &mut Vec<String>) -> Result<Cluster, Failure> {
        let mut cluster = Cluster::default();
        let mut first: BTreeMap<(String, String, String), &Document> = BTreeMap::new();
        for document in documents {
            let kind = document.kind();
            let key = (kind.clone(), document.namespace(), document.name());
            let is_core = WORKLOADS.contains(&kind.as_str()) || kind == "Service";
            match first.get(&key) {
                Some(other) if other.node == document.node => continue,
                Some(other) if is_core => return Err(duplicate(&key, other, document)),
                Some(other) => {
                    notes.push(format!(
                        "{kind} '{}' is in {} and in {}: the latter is used",
                        key.2, other.at, document.at
                    ));
                }
                None => {}
            }
            first.insert(key, document);
            cluster.add(document, notes);
        }
        Ok(cluster)
    }

    fn add(&mut self, document: &Document, notes: &mut Vec<String>) {
        let (kind, name) = (document.kind(), document.name());
        let spec = document.node.get("spec");
        let knative = kind == "Service" && document.group().ends_with("knative.dev");
        match kind.as_str() {
            "Service" if !knative => self.services.push(service(document, notes)),
            "ConfigMap" => self.put_data("ConfigMap", document, notes),
            "Secret" => self.put_data("Secret", document, notes),
            "Ingress" => self.routes.extend(ingress(document)),
            "HTTPRoute" | "GRPCRoute" => self.routes.extend(gateway_routes(document)),
            "Route" => self.routes.extend(openshift_route(document)),
            _ if knative || WORKLOADS.contains(&kind.as_str()) => match workload(document) {
                Ok(found) => self.workloads.push(found),
                Err(problem) => notes.push(format!("{}: {kind} '{name}' is skipped: {problem}", document.at)),
            },
            _ if JOBS.contains(&kind.as_str()) => {
                notes.push(format!("{}: {kind} '{name}' runs and ends, so it is not a service", document.at));
            }
            _ if WITHOUT_EFFECT.contains(&kind.as_str()) => {}
            // a custom resource that has pods all the same
            _ if spec.and_then(|spec| spec.get("template")).and_then(|t| t.get("spec")).is_some() => {
                match workload(document) {
                    Ok(found) => {
                        notes.push(format!("{}: {kind} '{name}' is read like a Deployment", document.at));
                        self.workloads.push(found);
                    }
                    Err(_) => self.skip(kind, name),
                }
            }
            _ => self.skip(kind, name),
        }
    }

    fn skip(&mut self, kind: String, name: String) {
        self.skipped.entry(kind).or_default().push(name);
    }

    fn put_data(&mut self, kind: &'static str, document: &Document, notes: &mut Vec<String>) {
        let mut values = BTreeMap::new();
        let of = |key: &str| document.node.get(key).map(Node::entries).unwrap_or_default();
        for (name, value) in of("data") {
            let text = value.text().unwrap_or_default();
            let text = if kind == "Secret" { decoded(&text) } else { Some(text) };
            match text {
                Some(text) => drop(values.insert(name.clone(), text)),
                None => notes.push(format!("{}: key '{name}' is not text in base64: it is not used", document.at)),
            }
        }
        for (name, value) in of("stringData") {
            values.insert(name.clone(), value.text().unwrap_or_default());
        }
        let data = Data { at: document.at.clone(), values };
        self.data.insert((kind, document.namespace(), document.name()), data);
    }
}

/// The value of a Secret, if it is a text.
fn decoded(text: &str) -> Option<String> {
    use base64::Engine;
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let bytes = base64::engine::general_purpose::STANDARD.decode(compact).ok()?;
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

fn duplicate(key: &(String, String, String), first: &Document, second: &Document) -> Failure {
    let (kind, namespace, name) = key;
    Failure::request(format!("two objects are {kind} '{name}' in namespace '{namespace}'"))
        .why(format!("one is in {}, the other in {}, and they differ", first.at, second.at))
        .next("name one of the files, remove one of the objects, or name the folder with the kustomization.yaml to use")
}

fn strings(node: Option<&Node>) -> Option<Vec<String>> {
    let items = node?.items();
    let words: Vec<String> = items.iter().filter_map(Node::text).collect();
    let is_usable =
        words.first().is_some_and(|first| !first.is_empty()) && !words.iter().any(|word| word.contains('\0'));
    is_usable.then_some(words)
}

fn pairs(node: Option<&Node>) -> Vec<(String, String)> {
    let entries = node.map(Node::entries).unwrap_or_default();
    entries.iter().filter_map(|(name, value)| Some((name.clone(), value.text()?))).collect()
}

fn port_ref(node: Option<&Node>) -> Option<PortRef> {
    let text = node?.text()?;
    match text.parse::<u16>() {
        Ok(0) => None,
        Ok(number) => Some(PortRef::Number(number)),
        Err(_) if text.chars().all(|c| c.is_ascii_digit()) => None,
        Err(_) => Some(PortRef::Name(text)),
    }
}

fn text_of(node: &Node, key: &str) -> String {
    node.get(key).and_then(Node::text).unwrap_or_default()
}

fn workload(document: &Document) -> Result<Workload, String> {
    let kind = document.kind();
    let template = match kind.as_str() {
        "Pod" => Some(&document.node),
        _ => document.node.get("spec").and_then(|spec| spec.get("template")),
    };
    let template = template.ok_or("it has no spec.template")?;
    let spec = template.get("spec").ok_or("its pod has no spec")?;
    let containers = spec.get("containers").map(Node::items).unwrap_or_default();
    let name = document.name();
    let chosen = main_container(containers, &name).ok_or("it has no containers")?;
    let container = container(&containers[chosen]);
    let others = containers.iter().enumerate().filter(|(at, _)| *at != chosen);
    let meta = template.get("metadata");
    let init = spec.get("initContainers").map(Node::items).unwrap_or_default();
    Ok(Workload {
        at: document.at.clone(),
        api_version: text_of(&document.node, "apiVersion"),
        kind,
        name,
        namespace: document.namespace(),
        stated_namespace: document.stated_namespace(),
        labels: pairs(meta.and_then(|meta| meta.get("labels"))),
        container,
        sidecars: others.map(|(_, other)| text_of(other, "name")).collect(),
        init_containers: init.iter().map(|other| text_of(other, "name")).collect(),
        mounts: mounts(spec, &containers[chosen]),
    })
}

/// The container with the workload's name, else the first that has ports, else the first.
fn main_container(containers: &[Node], workload: &str) -> Option<usize> {
    let named = containers.iter().position(|container| text_of(container, "name") == workload);
    let with_ports = containers.iter().position(|container| container.get("ports").is_some());
    named.or(with_ports).or_else(|| (!containers.is_empty()).then_some(0))
}

fn container(node: &Node) -> Container {
    let mut ports = Vec::new();
    for port in node.get("ports").map(Node::items).unwrap_or_default() {
        let is_tcp = port.get("protocol").and_then(Node::text).is_none_or(|protocol| protocol == "TCP");
        if let (true, Some(PortRef::Number(number))) = (is_tcp, port_ref(port.get("containerPort"))) {
            ports.push((text_of(port, "name"), number));
        }
    }
    let of = |key: &'static str| node.get(key).and_then(|node| probe(node, key));
    let list = |key: &str| node.get(key).map(Node::items).unwrap_or_default().to_vec();
    Container {
        name: text_of(node, "name"),
        image: text_of(node, "image"),
        command: strings(node.get("command")),
        args: strings(node.get("args")),
        ports,
        env: list("env"),
        env_from: list("envFrom"),
        probe: of("readinessProbe").or_else(|| of("startupProbe")).or_else(|| of("livenessProbe")),
        start_timeout_s: ["startupProbe", "livenessProbe"].into_iter().find_map(|key| allowed_s(node.get(key)?)),
    }
}

/// How long a container may take until the probe's failures end it.
fn allowed_s(probe: &Node) -> Option<u64> {
    let number = |key: &str, default: u64| match probe.get(key).and_then(Node::text) {
        Some(text) => text.parse::<u64>().ok(),
        None => Some(default),
    };
    let (delay, period, failures) =
        (number("initialDelaySeconds", 0)?, number("periodSeconds", 10)?, number("failureThreshold", 3)?);
    delay.checked_add(period.checked_mul(failures)?)
}

fn probe(node: &Node, from: &'static str) -> Option<Probe> {
    let check = if let Some(http) = node.get("httpGet") {
        let path = text_of(http, "path");
        let path = if path.starts_with('/') { path } else { format!("/{path}") };
        let https = text_of(http, "scheme").eq_ignore_ascii_case("https");
        ProbeCheck::Http { port: port_ref(http.get("port"))?, path, https }
    } else if let Some(tcp) = node.get("tcpSocket") {
        ProbeCheck::Tcp(port_ref(tcp.get("port"))?)
    } else if let Some(grpc) = node.get("grpc") {
        ProbeCheck::Grpc(port_ref(grpc.get("port"))?)
    } else {
        let words = strings(node.get("exec")?.get("command"))?;
        let words: Vec<String> = words.iter().flat_map(|word| crate::draft::local_command::words(word)).collect();
        let is_grpc = words.iter().any(|word| word.replace('-', "_").ends_with("grpc_health_probe"));
        let port = words.iter().find_map(|word| crate::draft::port_text::at_end(word.rsplit('=').next()?));
        ProbeCheck::Grpc(PortRef::Number(port.filter(|_| is_grpc)?))
    };
    Some(Probe { check, from })
}

/// `ConfigMap 'x' at /etc/x`, for the main container.
fn mounts(spec: &Node, container: &Node) -> Vec<String> {
    let mut found = Vec::new();
    let volumes = spec.get("volumes").map(Node::items).unwrap_or_default();
    for mount in container.get("volumeMounts").map(Node::items).unwrap_or_default() {
        let volume = volumes.iter().find(|volume| text_of(volume, "name") == text_of(mount, "name"));
        let path = text_of(mount, "mountPath");
        let config = volume.and_then(|volume| volume.get("configMap")).map(|of| ("ConfigMap", text_of(of, "name")));
        let secret = volume.and_then(|volume| volume.get("secret")).map(|of| ("Secret", text_of(of, "secretName")));
        found.extend(config.or(secret).map(|(kind, name)| format!("{kind} '{name}' at {path}")));
    }
    found
}

fn service(document: &Document, notes: &mut Vec<String>) -> ClusterService {
    let spec = document.node.get("spec");
    let of = |key: &str| spec.and_then(|spec| spec.get(key));
    let mut ports = Vec::new();
    for port in of("ports").map(Node::items).unwrap_or_default() {
        let is_tcp = port.get("protocol").and_then(Node::text).is_none_or(|protocol| protocol == "TCP");
        match port_ref(port.get("port")) {
            Some(PortRef::Number(number)) if is_tcp => ports.push(ServicePort {
                name: text_of(port, "name"),
                port: number,
                target: port_ref(port.get("targetPort")).unwrap_or(PortRef::Number(number)),
                protocol: text_of(port, "appProtocol").to_lowercase(),
            }),
            _ if !is_tcp => {}
            _ => notes.push(format!("{}: Service '{}' has a port without a number", document.at, document.name())),
        }
    }
    ClusterService {
        at: document.at.clone(),
        name: document.name(),
        namespace: document.namespace(),
        selector: pairs(of("selector")),
        kind: of("type").and_then(Node::text).unwrap_or_else(|| "ClusterIP".to_owned()),
        ports,
    }
}

fn ingress(document: &Document) -> Vec<Route> {
    let Some(spec) = document.node.get("spec") else { return Vec::new() };
    let route = |backend: &Node, path: String| {
        let service = backend.get("service");
        // the names of networking.k8s.io/v1, and those of v1beta1
        let name = service.map_or_else(|| text_of(backend, "serviceName"), |service| text_of(service, "name"));
        let port = service.and_then(|service| service.get("port"));
        let port = port.and_then(|port| port_ref(port.get("number").or_else(|| port.get("name"))));
        let port = port.or_else(|| port_ref(backend.get("servicePort")));
        (!name.is_empty()).then(|| Route {
            kind: "Ingress".to_owned(),
            name: document.name(),
            namespace: document.namespace(),
            service: name,
            port,
            path,
            is_grpc: false,
        })
    };
    let mut found = Vec::new();
    for rule in spec.get("rules").map(Node::items).unwrap_or_default() {
        let paths = rule.get("http").and_then(|http| http.get("paths")).map(Node::items).unwrap_or_default();
        found.extend(paths.iter().filter_map(|path| route(path.get("backend")?, text_of(path, "path"))));
    }
    let default = spec.get("defaultBackend").or_else(|| spec.get("backend"));
    found.extend(default.and_then(|backend| route(backend, "/".to_owned())));
    found
}

fn gateway_routes(document: &Document) -> Vec<Route> {
    let rules = document.node.get("spec").and_then(|spec| spec.get("rules")).map(Node::items).unwrap_or_default();
    let mut found = Vec::new();
    for rule in rules {
        let matched = rule.get("matches").map(Node::items).unwrap_or_default().first();
        let path = matched.and_then(|first| first.get("path")).map(|path| text_of(path, "value"));
        for backend in rule.get("backendRefs").map(Node::items).unwrap_or_default() {
            found.push(Route {
                kind: document.kind(),
                name: document.name(),
                namespace: backend.get("namespace").and_then(Node::text).unwrap_or_else(|| document.namespace()),
                service: text_of(backend, "name"),
                port: port_ref(backend.get("port")),
                path: path.clone().unwrap_or_else(|| "/".to_owned()),
                is_grpc: document.kind() == "GRPCRoute",
            });
        }
    }
    found
}

fn openshift_route(document: &Document) -> Option<Route> {
    let spec = document.node.get("spec")?;
    Some(Route {
        kind: "Route".to_owned(),
        name: document.name(),
        namespace: document.namespace(),
        service: text_of(spec.get("to")?, "name"),
        port: spec.get("port").and_then(|port| port_ref(port.get("targetPort"))),
        path: spec.get("path").and_then(Node::text).unwrap_or_else(|| "/".to_owned()),
        is_grpc: false,
    })
}
