//! Merges slices of several sources.

use flows::{HostSlice, Slice};
use std::collections::BTreeMap;

/// Returns the hosts of all slices, by boot. If several slices contain a host, the one with the latest window is used
/// and the others are ignored, because their counts may overlap.
pub fn merge(slices: impl IntoIterator<Item = Slice>) -> Slice {
    let mut hosts: BTreeMap<_, HostSlice> = BTreeMap::new();
    let (mut from_ms, mut to_ms) = (i64::MAX, i64::MIN);
    for slice in slices {
        (from_ms, to_ms) = (from_ms.min(slice.from_ms), to_ms.max(slice.to_ms));
        for host in slice.hosts {
            let boot = (host.host.id.clone(), host.host.boot.clone());
            match hosts.get(&boot) {
                Some(existing) if existing.last_seen_ms >= host.last_seen_ms => {}
                _ => {
                    hosts.insert(boot, host);
                }
            }
        }
    }
    if from_ms > to_ms {
        return Slice::default();
    }
    Slice { from_ms, to_ms, hosts: hosts.into_values().collect() }
}
