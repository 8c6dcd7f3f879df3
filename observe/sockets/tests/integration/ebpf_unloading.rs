//! The kernel unloads the programs when the collector is dropped.

use crate::support::{TIMEOUT, Watch, exclusive_network};
use std::collections::BTreeSet;
use std::time::Instant;

/// Ids of the BPF programs that this process holds, from its descriptors.
fn programs() -> BTreeSet<u32> {
    let entries = std::fs::read_dir("/proc/self/fdinfo").expect("/proc is mounted");
    let infos = entries.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
    let number = |info: String| info.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok());
    infos.filter_map(number).collect()
}

fn loaded() -> BTreeSet<u32> {
    aya::programs::loaded_programs().filter_map(|it| it.ok()).map(|it| it.id()).collect()
}

#[test]
fn programs_are_unloaded_on_drop() {
    let Some(_network) = exclusive_network() else { return };
    let Some(watch) = Watch::start() else { return };
    let ours = programs();
    assert!(ours.len() >= 2 && ours.is_subset(&loaded()), "{ours:?}");
    drop(watch);
    assert_eq!(programs(), BTreeSet::new());
    let start = Instant::now();
    // the kernel frees a program when it cannot be running anymore
    while !loaded().is_disjoint(&ours) {
        assert!(start.elapsed() < TIMEOUT, "still loaded: {:?} of {ours:?}", loaded());
        std::thread::yield_now();
    }
}
