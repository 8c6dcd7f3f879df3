//! Names of containers, from the files of their runtimes on the host.
//!
//! The runtime itself is not queried, because access to its socket is equivalent to root. If no file is readable, the
//! container's short id is its name.

use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Maximum size of a file; a container's configuration has some kilobytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

pub struct ContainerNames {
    root: PathBuf,
    cache: HashMap<String, String>,
}

impl ContainerNames {
    /// `root` is `/` except in tests.
    pub fn below(root: impl Into<PathBuf>) -> ContainerNames {
        ContainerNames { root: root.into(), cache: HashMap::new() }
    }

    /// Returns the name. Names are cached, because containers are rarely renamed.
    pub fn name(&mut self, id: &str) -> String {
        const CACHE_SIZE_MAX: usize = 4096;
        if let Some(name) = self.cache.get(id) {
            return name.clone();
        }
        let Some(name) = self.kubernetes(id).or_else(|| self.docker(id)).or_else(|| self.podman(id)) else {
            return id.chars().take(12).collect();
        };
        if self.cache.len() >= CACHE_SIZE_MAX {
            self.cache.clear();
        }
        self.cache.insert(id.to_owned(), name.clone());
        name
    }

    /// `/var/log/containers/POD_NAMESPACE_CONTAINER-ID.log`
    fn kubernetes(&self, id: &str) -> Option<String> {
        let ending = format!("-{id}.log");
        std::fs::read_dir(self.root.join("var/log/containers")).ok()?.flatten().find_map(|entry| {
            let file = entry.file_name();
            let mut parts = file.to_str()?.strip_suffix(&ending)?.split('_');
            let (pod, container) = (parts.next()?, parts.nth(1)?);
            let workload = without_random_ending(pod);
            Some(if workload == container { workload.to_owned() } else { format!("{workload}/{container}") })
        })
    }

    fn docker(&self, id: &str) -> Option<String> {
        let path = self.root.join(format!("var/lib/docker/containers/{id}/config.v2.json"));
        let name = json(&path)?.get("Name")?.as_str()?.trim_start_matches('/').to_owned();
        (!name.is_empty()).then_some(name)
    }

    fn podman(&self, id: &str) -> Option<String> {
        let path = self.root.join("var/lib/containers/storage/overlay-containers/containers.json");
        let containers = json(&path)?;
        let ours =
            containers.as_array()?.iter().find(|container| container.get("id").and_then(Value::as_str) == Some(id))?;
        Some(ours.get("names")?.get(0)?.as_str()?.to_owned())
    }
}

fn json(path: &Path) -> Option<Value> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// A pod is named after its workload: `cart-7d4b9c6f5-x2x8z` (Deployment), `logs-x2x8z` (DaemonSet), `db-0`
/// (StatefulSet). Random parts contain no vowels, which distinguishes them from words.
fn without_random_ending(pod: &str) -> &str {
    const ALPHABET: &str = "bcdfghjklmnpqrstvwxz2456789";
    const POD: usize = 5;
    const TEMPLATE: std::ops::RangeInclusive<usize> = 6..=10;
    let random = |part: &str| !part.is_empty() && part.chars().all(|c| ALPHABET.contains(c));
    let Some((before, last)) = pod.rsplit_once('-') else { return pod };
    if last.bytes().all(|b| b.is_ascii_digit()) && last.len() < POD {
        return before;
    }
    if last.len() != POD || !random(last) {
        return pod;
    }
    match before.rsplit_once('-') {
        Some((workload, template)) if TEMPLATE.contains(&template.len()) && random(template) => workload,
        _ => before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_named_after_their_workload() {
        let table = [
            ("cart-7d4b9c6f5-x2x8z", "cart"),
            ("logs-x2x8z", "logs"),
            ("db-0", "db"),
            ("shop-catalogue", "shop-catalogue"),
            ("etcd-node1", "etcd-node1"),
            ("single", "single"),
        ];
        for (pod, workload) in table {
            assert_eq!(without_random_ending(pod), workload, "{pod}");
        }
    }

    #[test]
    fn names_come_from_runtime_files() {
        let root = std::env::temp_dir().join(format!("faultloom-containers-{}", std::process::id()));
        let id = |digit: &str| digit.repeat(64);
        let write = |path: String, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(format!("var/log/containers/cart-7d4b9c6f5-x2x8z_shop_proxy-{}.log", id("1")), "");
        write(format!("var/lib/docker/containers/{}/config.v2.json", id("2")), r#"{"Name":"/shop_db_1"}"#);
        let podman = format!(r#"[{{"id":"{}","names":["cache"]}}]"#, id("3"));
        write("var/lib/containers/storage/overlay-containers/containers.json".into(), &podman);
        write(format!("var/lib/docker/containers/{}/config.v2.json", id("4")), "{no json");
        let mut names = ContainerNames::below(&root);
        let found = ["1", "2", "3", "4"].map(|digit| names.name(&id(digit)));
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, ["cart/proxy", "shop_db_1", "cache", "444444444444"]);
    }
}
