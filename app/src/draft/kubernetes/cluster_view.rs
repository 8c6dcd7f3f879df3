//! What `faultloom env --for kubernetes` needs from manifests: which objects to patch, and the names and ports under
//! which services reach each other in the cluster.

use super::network::Network;
use super::plan::Plan;
use super::resources::{Cluster, ClusterService};
use super::{files, plans, selects};
use model::Failure;
use std::collections::BTreeSet;
use std::path::Path;

pub struct ClusterView {
    /// The manifests, as the user names them.
    pub shown: String,
    /// `host:port=service,…`.
    pub peers: String,
    pub workloads: Vec<ClusterWorkload>,
}

/// An object whose pods get the SDK.
pub struct ClusterWorkload {
    pub at: String,
    pub name: String,
    pub kind: String,
    pub api_version: String,
    /// If its manifest states one.
    pub namespace: Option<String>,
    /// Its main container.
    pub container: String,
    /// Variables of that container; `None`: a value by reference.
    pub variables: Vec<(String, Option<String>)>,
}

impl ClusterView {
    /// # Errors
    /// As `init` of the same manifests.
    pub fn read(path: &Path, shown: &str) -> Result<ClusterView, Failure> {
        let manifests = files::read(path, shown)?;
        Ok(ClusterView::of(&Cluster::read(&manifests.documents, &mut Vec::new())?, shown))
    }

    fn of(cluster: &Cluster, shown: &str) -> ClusterView {
        // sources do not matter: nothing is started here
        let mut plans = plans(cluster, &[], &mut Vec::new());
        for plan in &mut plans {
            let services: Vec<&ClusterService> =
                cluster.services.iter().filter(|own| selects(own, plan.workload)).collect();
            plan.find_ports(&services);
        }
        let network = super::network(cluster, &plans);
        let workloads = plans.iter().map(workload).collect();
        ClusterView { shown: shown.to_owned(), peers: peers(cluster, &plans, &network), workloads }
    }

    pub fn workload(&self, service: &str) -> Option<&ClusterWorkload> {
        self.workloads.iter().find(|workload| workload.name == service)
    }
}

fn workload(plan: &Plan) -> ClusterWorkload {
    let workload = plan.workload;
    let value = |name: &str| plan.variables.iter().find(|own| own.name == name).map(|own| own.value.value.clone());
    let variables = workload.container.env.iter().filter_map(|entry| {
        let name = entry.get("name")?.text()?;
        let literal = if entry.get("valueFrom").is_some() { None } else { value(&name) };
        Some((name, literal))
    });
    ClusterWorkload {
        at: workload.at.clone(),
        name: workload.name.clone(),
        kind: workload.kind.clone(),
        api_version: workload.api_version.clone(),
        namespace: workload.stated_namespace.clone(),
        container: workload.container.name.clone(),
        variables: variables.collect(),
    }
}

/// Each Service by its short name, and by the longer names that variables of the manifests contain.
fn peers(cluster: &Cluster, plans: &[Plan], network: &Network) -> String {
    let mut pairs: BTreeSet<String> = BTreeSet::new();
    for service in &cluster.services {
        let Some(plan) = plans.iter().find(|plan| selects(service, plan.workload)) else { continue };
        pairs.extend(service.ports.iter().map(|port| format!("{}:{}={}", service.name, port.port, plan.workload.name)));
    }
    for plan in plans {
        let all: Vec<(String, String)> =
            plan.variables.iter().map(|own| (own.name.clone(), own.value.value.clone())).collect();
        for (name, value) in &all {
            let found = network.rewrite(&plan.workload.namespace, name, value, &all);
            // addresses without a port are those of URLs, whose authority the SDKs compare with its port
            for (address, at) in found.replaced.iter().zip(&found.workloads) {
                if address.contains(':') {
                    pairs.insert(format!("{address}={}", plans[*at].workload.name));
                }
            }
        }
    }
    pairs.into_iter().collect::<Vec<_>>().join(",")
}
