//! The output of polling for the namespace of a test.

use flows::{Attribution, Counts, Link, ListenAddress, Side, Source};
use sockets::polling::Poller;
use sockets::{Collector, ObservedListener, SocketObservation};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(20);

pub struct Watch {
    pub poller: Poller,
    pub netns: Vec<u64>,
    /// Of the last poll.
    pub flows: Vec<SocketObservation>,
    pub listeners: Vec<ObservedListener>,
    /// Counts of all polls added up, by side and address.
    pub total: Vec<(Side, ListenAddress, Counts)>,
    pub unreadable: u64,
    /// Of all namespaces.
    pub between_polls: u64,
}

impl Watch {
    pub fn start(netns: u64) -> Watch {
        Watch::of(Source::Polling, netns)
    }

    pub fn of(source: Source, netns: u64) -> Watch {
        Watch {
            poller: Poller::start(source).expect("polling works"),
            netns: vec![netns],
            flows: Vec::new(),
            listeners: Vec::new(),
            total: Vec::new(),
            unreadable: 0,
            between_polls: 0,
        }
    }

    pub fn poll(&mut self) {
        let collected = self.poller.collect().expect("a poll works");
        self.unreadable += collected.losses.unreadable;
        self.between_polls += collected.losses.between_polls;
        self.flows = collected.flows.into_iter().filter(|it| self.netns.contains(&it.netns)).collect();
        self.listeners = collected.listeners.into_iter().filter(|it| self.netns.contains(&it.netns)).collect();
        for flow in &self.flows {
            let same = |it: &&mut (Side, ListenAddress, Counts)| (it.0, &it.1) == (flow.side, &flow.link.passive);
            match self.total.iter_mut().find(same) {
                Some((_, _, counts)) => counts.add(&flow.counts),
                None => self.total.push((flow.side, flow.link.passive.clone(), flow.counts)),
            }
        }
    }

    /// Polls until `holds` returns true. Panics with the output after a timeout.
    pub fn until(&mut self, what: &str, holds: impl Fn(&Watch) -> bool) {
        let start = Instant::now();
        loop {
            self.poll();
            if holds(self) {
                return;
            }
            assert!(
                start.elapsed() < TIMEOUT,
                "not observed in time: {what}\n{:#?}\n{:#?}",
                self.flows,
                self.listeners
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn open(&self, side: Side, at: &ListenAddress) -> u64 {
        self.side(side, at).iter().map(|flow| flow.counts.open).sum()
    }

    pub fn side(&self, side: Side, at: &ListenAddress) -> Vec<&SocketObservation> {
        self.flows.iter().filter(|flow| flow.side == side && flow.link.passive == *at && flow.counts.open > 0).collect()
    }

    /// Process ids that are exact owners of open connections.
    pub fn owners(&self, side: Side, at: &ListenAddress) -> Vec<u32> {
        let exact = self.side(side, at).into_iter().filter(|flow| flow.attribution == Attribution::Exact);
        let mut pids: Vec<u32> = exact.filter_map(|flow| Some(flow.owner.as_ref()?.process.pid)).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// The one link of a side; both ends of a connection must have the same.
    pub fn link(&self, side: Side, at: &ListenAddress) -> Link {
        let flows = self.side(side, at);
        assert_eq!(flows.len(), 1, "{:#?}", self.flows);
        flows[0].link.clone()
    }

    pub fn counted(&self, side: Side, at: &ListenAddress) -> Counts {
        self.total.iter().find(|it| it.0 == side && it.1 == *at).map(|it| it.2).unwrap_or_default()
    }
}

pub fn inet(text: &str) -> ListenAddress {
    let address: std::net::SocketAddr = text.parse().expect("an address with port");
    ListenAddress::Inet { ip: address.ip(), port: address.port() }
}
