//! A host with a hundred thousand sockets, with every collector.
#![expect(unsafe_code, reason = "reads the descriptor limit by a system call")]

use crate::support::processes::{Child, hold_many};
use crate::support::{Watch, exclusive_network, skipped};
use flows::{Attribution, ListenAddress, Side, Source};
use sockets::Collector;
use sockets::ebpf::{EbpfCollector, Options};
use sockets::polling::Poller;
use std::collections::HashMap;
use std::io::Read;
use std::sync::Barrier;

const PROCESSES: u8 = 6;
/// Both ends of each are in one process, so each is two descriptors.
const CONNECTIONS: u32 = 8_500;

/// Maximum number of descriptors of a process.
fn descriptors_max() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is on the stack.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_max
}

/// Number of open connections by pid and side. All must have an exact owner.
fn open(collector: &mut dyn Collector, netns: u64, port: u16) -> HashMap<(u32, Side), u64> {
    let collected = collector.collect().expect("the collector works");
    assert_eq!((collected.losses.table_full, collected.losses.recursion), (0, 0));
    let mut open = HashMap::new();
    for flow in collected.flows.into_iter().filter(|it| it.netns == netns) {
        if matches!(flow.link.passive, ListenAddress::Inet { port: at, .. } if at == port) {
            assert_eq!(flow.attribution, Attribution::Exact, "{flow:?}");
            let pid = flow.owner.expect("an exact owner").process.pid;
            *open.entry((pid, flow.side)).or_default() += flow.counts.open;
        }
    }
    open
}

#[test]
fn a_hundred_thousand_sockets_are_all_observed() {
    let Some(network) = exclusive_network() else { return };
    let netns = network.netns;
    if descriptors_max() < u64::from(CONNECTIONS) * 2 + 100 {
        return skipped("a process may not have 17,100 descriptors");
    }
    let port = 7000;
    let (mut ready, signal) = std::io::pipe().expect("a pipe");
    let children: Vec<Child> =
        (1..=PROCESSES).map(|n| Child::fork(|| hold_many([127, 0, 1, n], port, CONNECTIONS, &signal))).collect();
    drop(signal);
    let mut all = vec![0; usize::from(PROCESSES)];
    ready.read_exact(&mut all).expect("every process opens all of its connections");
    let expected: HashMap<(u32, Side), u64> = children
        .iter()
        .flat_map(|child| [Side::Active, Side::Passive].map(|side| ((child.0, side), u64::from(CONNECTIONS))))
        .collect();
    let mut poller = Poller::start(Source::Polling).expect("polling works");
    assert_eq!(open(&mut poller, netns, port), expected, "by polling");
    if Watch::start().is_some() {
        let mut counting = EbpfCollector::start(Options::default()).expect("it could be started a moment ago");
        assert_eq!(open(&mut counting, netns, port), expected, "counted in the kernel");
        drop(counting);
        // two collectors that process every socket at the same moment
        let both = Barrier::new(2);
        let count = || {
            both.wait();
            let mut counting = EbpfCollector::start(Options::default()).expect("it could be started a moment ago");
            open(&mut counting, netns, port)
        };
        std::thread::scope(|scope| {
            let (first, second) = (scope.spawn(count), scope.spawn(count));
            for it in [first, second] {
                assert_eq!(it.join().expect("it counts"), expected, "counted twice at once");
            }
        });
    }
}
