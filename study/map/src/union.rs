//! Slices of several sources as one.

use flows::{HostSlice, Slice};
use std::collections::BTreeMap;

/// Hosts of all slices, each from start to start. What several sources know of one is taken whole from who heard it last: their counts
/// may be the same ones.
pub fn union(slices: impl IntoIterator<Item = Slice>) -> Slice {
    let mut hosts: BTreeMap<_, HostSlice> = BTreeMap::new();
    let (mut from_ms, mut to_ms) = (i64::MAX, i64::MIN);
    for slice in slices {
        (from_ms, to_ms) = (from_ms.min(slice.from_ms), to_ms.max(slice.to_ms));
        for host in slice.hosts {
            let boot = (host.host.id.clone(), host.host.boot.clone());
            match hosts.get(&boot) {
                Some(known) if known.last_seen_ms >= host.last_seen_ms => {}
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
