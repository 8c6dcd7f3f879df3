//! Slices of several sources as one.

use flows::{HostSlice, Slice};
use std::collections::BTreeMap;

/// Hosts of all slices. Of a host that several sources know, the one that heard it last is taken whole: their counts may be the same ones.
pub fn union(slices: impl IntoIterator<Item = Slice>) -> Slice {
    let mut hosts: BTreeMap<_, HostSlice> = BTreeMap::new();
    let (mut from_ms, mut to_ms) = (i64::MAX, i64::MIN);
    for slice in slices {
        (from_ms, to_ms) = (from_ms.min(slice.from_ms), to_ms.max(slice.to_ms));
        for host in slice.hosts {
            let id = host.host.id.clone();
            match hosts.get(&id) {
                Some(known) if known.last_seen_ms >= host.last_seen_ms => {}
                _ => {
                    hosts.insert(id, host);
                }
            }
        }
    }
    if from_ms > to_ms {
        return Slice::default();
    }
    Slice { from_ms, to_ms, hosts: hosts.into_values().collect() }
}
