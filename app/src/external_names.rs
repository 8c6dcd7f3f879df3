//! Names of external addresses. Only on request, because each query leaves the host.

use flows::{Graph, NodeKind};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::task::JoinSet;

/// Maximum number of resolved addresses; more would take minutes.
const ADDRESSES_MAX: usize = 500;
/// Concurrent queries.
const CONCURRENCY: usize = 16;
/// The name service's own timeout is often longer than a user waits.
const QUERY_TIMEOUT: Duration = Duration::from_secs(3);

/// Adds the name before the address in the labels. An address without a name is unchanged.
pub async fn resolve(graph: &mut Graph) {
    let external: Vec<usize> = (0..graph.nodes.len()).filter(|i| graph.nodes[*i].kind == NodeKind::External).collect();
    if external.len() > ADDRESSES_MAX {
        graph.remarks.push(format!("only {ADDRESSES_MAX} of {} external addresses were resolved", external.len()));
    }
    for chunk in external.chunks(CONCURRENCY).take(ADDRESSES_MAX.div_ceil(CONCURRENCY)) {
        let mut queries = JoinSet::new();
        for &i in chunk {
            let address = graph.nodes[i].label.clone();
            queries.spawn(async move { (i, name(&address).await) });
        }
        while let Some(answer) = queries.join_next().await {
            if let Ok((i, Some(name))) = answer {
                let node = &mut graph.nodes[i];
                node.label = format!("{name} ({})", node.label);
            }
        }
    }
}

/// Uses `getent`, which resolves like the programs of this host.
async fn name(address: &str) -> Option<String> {
    let query = Command::new("getent")
        .args(["hosts", address])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(QUERY_TIMEOUT, query).await.ok()?.ok()?;
    let line = String::from_utf8(output.stdout).ok()?;
    let name = line.split_whitespace().nth(1)?;
    (name.len() <= 253 && name.chars().all(|c| c.is_ascii_graphic())).then(|| name.to_owned())
}
