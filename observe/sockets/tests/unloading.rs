//! Nothing of ours stays in the kernel. Alone in its file: other tests of one process load programs, too.

mod support;

use std::collections::BTreeSet;
use std::time::Instant;
use support::{PATIENCE, Watch};

/// Numbers of the programs that this process holds, as the kernel tells of its descriptors.
fn programs() -> BTreeSet<u32> {
    let folder = std::fs::read_dir("/proc/self/fdinfo").expect("we live");
    let infos = folder.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
    let number = |info: String| info.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok());
    infos.filter_map(number).collect()
}

fn loaded() -> BTreeSet<u32> {
    aya::programs::loaded_programs().filter_map(|it| it.ok()).map(|it| it.id()).collect()
}

#[test]
fn nothing_stays_in_the_kernel() {
    let Some(watch) = Watch::start() else { return };
    let ours = programs();
    assert!(ours.len() >= 2 && ours.is_subset(&loaded()), "{ours:?}");
    drop(watch);
    assert_eq!(programs(), BTreeSet::new());
    let start = Instant::now();
    // the kernel frees them when nobody can be running them any more
    while !loaded().is_disjoint(&ours) {
        assert!(start.elapsed() < PATIENCE, "still loaded: {:?} of {ours:?}", loaded());
        std::thread::yield_now();
    }
}
