//! Names of real programs.

use crate::support::program::{Program, have};
use crate::support::{TIMEOUT, exclusive_network, skipped};
use flows::{ListenAddress, Source};
use sockets::Collector;
use sockets::ebpf::{EbpfCollector, Options};
use sockets::identity::Identifier;
use sockets::polling::Poller;
use std::collections::BTreeSet;
use std::net::TcpStream;
use std::process::Command;
use std::time::Instant;

const PORT: u16 = 7000;

/// Starts Debian's `redis-server`, a link to `redis-check-rdb`, and returns the names of the services that listen on
/// its port or have a connection to it at the passive side.
fn names_of_redis(netns: u64, collector: &mut dyn Collector) -> BTreeSet<String> {
    let mut identifier = Identifier::start().expect("/proc is mounted");
    collector.collect().expect("the collector works");
    // the shell prints a line when it starts, which the program expects
    let script =
        format!("echo started; exec redis-server --port {PORT} --bind 127.0.0.1 --save '' --logfile /dev/null");
    let mut redis = Program::start(Command::new("sh").args(["-c", &script]).current_dir(std::env::temp_dir()));
    assert_eq!(redis.line(), "started");
    let begin = Instant::now();
    let mut client = None;
    let (mut listeners, mut flows) = (BTreeSet::new(), BTreeSet::new());
    while listeners.is_empty() || flows.is_empty() {
        assert!(begin.elapsed() < TIMEOUT, "{listeners:?} {flows:?}");
        client = client.or_else(|| TcpStream::connect(("127.0.0.1", PORT)).ok());
        let source = collector.source();
        let observation = identifier.identify(source, collector.collect().expect("the collector works"));
        let at_port = |at: &ListenAddress| matches!(at, ListenAddress::Inet { port, .. } if *port == PORT);
        let name = |key: &flows::ServiceKey| {
            observation.services.iter().find(|service| service.key == *key).map(|service| service.name.clone())
        };
        let listening = observation.listeners.iter().flatten().filter(|it| it.netns == netns && at_port(&it.at));
        listeners.extend(listening.filter_map(|it| name(&it.service)));
        let accepted = observation.flows.iter().filter(|it| it.netns == netns && at_port(&it.link.passive));
        // the process of an accepted connection
        let accepted = accepted.filter(|it| it.side == flows::Side::Passive && it.process.is_some());
        flows.extend(accepted.filter_map(|it| name(&it.service)));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    listeners.union(&flows).cloned().collect()
}

fn check(netns: u64, collector: &mut dyn Collector) {
    if !have("redis-server") {
        return skipped("redis-server is not installed");
    }
    assert_eq!(names_of_redis(netns, collector), BTreeSet::from(["redis-server".to_owned()]));
}

#[test]
fn redis_is_named_by_the_link_that_started_it_by_polling() {
    let Some(network) = exclusive_network() else { return };
    check(network.netns, &mut Poller::start(Source::Polling).expect("polling works"));
}

#[test]
fn redis_is_named_by_the_link_that_started_it_by_ebpf() {
    let Some(network) = exclusive_network() else { return };
    match EbpfCollector::start(Options::default()) {
        Ok(mut collector) => check(network.netns, &mut collector),
        Err(failure) => skipped(&failure.to_string()),
    }
}
