//! Names of external addresses, only when they are asked for: each question leaves the host.

use flows::{Graph, NodeKind};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::task::JoinSet;

/// Addresses that are asked for; more would take minutes.
const ADDRESSES_MAX: usize = 500;
/// Asked at once.
const AT_ONCE: usize = 16;
/// The name service's patience is often longer than a user's.
const PATIENCE: Duration = Duration::from_secs(3);

/// Puts the name in front of the address in the labels. What has no name keeps its address.
pub async fn resolve(graph: &mut Graph) {
    let outside: Vec<usize> = (0..graph.nodes.len()).filter(|i| graph.nodes[*i].kind == NodeKind::External).collect();
    if outside.len() > ADDRESSES_MAX {
        graph.remarks.push(format!("only {ADDRESSES_MAX} of {} external addresses were resolved", outside.len()));
    }
    for some in outside.chunks(AT_ONCE).take(ADDRESSES_MAX.div_ceil(AT_ONCE)) {
        let mut asking = JoinSet::new();
        for &i in some {
            let address = graph.nodes[i].label.clone();
            asking.spawn(async move { (i, name(&address).await) });
        }
        while let Some(answer) = asking.join_next().await {
            if let Ok((i, Some(name))) = answer {
                let node = &mut graph.nodes[i];
                node.label = format!("{name} ({})", node.label);
            }
        }
    }
}

/// As the host's name service knows it: `getent` asks what programs of this host would ask.
async fn name(address: &str) -> Option<String> {
    let asked = Command::new("getent")
        .args(["hosts", address])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(PATIENCE, asked).await.ok()?.ok()?;
    let line = String::from_utf8(output.stdout).ok()?;
    let name = line.split_whitespace().nth(1)?;
    (name.len() <= 253 && name.chars().all(|c| c.is_ascii_graphic())).then(|| name.to_owned())
}
