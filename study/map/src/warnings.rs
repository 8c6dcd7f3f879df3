//! Warnings about data that may be missing from a map.

use crate::address_index::AddressIndex;
use flows::{Flow, HostSlice, Protocol, Slice, Source};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// A host without a window for this long before the end of the interval causes a warning.
const SILENCE_MAX_MS: i64 = 3 * 60_000;

pub(crate) fn warnings(slice: &Slice, addresses: &AddressIndex, ambiguous: &BTreeSet<IpAddr>) -> Vec<String> {
    let mut warnings = Vec::new();
    for host in &addresses.hosts {
        let (name, losses) = (&host.host.name, &host.losses);
        let mut warn = |text: String| warnings.push(format!("{name}: {text}"));
        if losses.table_full > 0 {
            warn(format!(
                "{} did not fit into the kernel's table; edges may be missing",
                connections(losses.table_full)
            ));
        }
        if losses.recursion > 0 {
            warn(format!("{} of the kernel were missed; edges may be missing", plural(losses.recursion, "event")));
        }
        if losses.closed_unseen > 0 {
            warn(format!(
                "{} ended without an event and were closed when a scan did not find them anymore",
                connections(losses.closed_unseen)
            ));
        }
        if losses.windows > 0 {
            warn(format!("{} were dropped because the queue was full", plural(losses.windows, "window")));
        }
        if losses.unreadable > 0 {
            warn(format!("sockets of {} were not readable; their owners are missing", processes(losses.unreadable)));
        }
        let sources: BTreeSet<Source> = host.flows.iter().map(|f| f.source).collect();
        if sources.contains(&Source::Tuples) {
            warn("owners of other users' sockets are missing for lack of permission".to_owned());
        }
        // without a flow only a lost connection names the source
        let polls = sources.iter().any(|source| *source != Source::Ebpf) || losses.between_polls > 0;
        if polls {
            let missing = "connections, UDP exchanges and Unix sockets that live between two polls are missing";
            warn(format!("polls its sockets; {missing}"));
            if losses.between_polls > 0 {
                let found = polled_ends(host);
                warn(format!(
                    "the kernel opened at least {} of TCP connections in this time, and {found} were found by polls",
                    plural(found + losses.between_polls, "end")
                ));
            }
        } else if scanned_flows(host) > 0 {
            warn(format!(
                "its {} over UDP or Unix sockets were found by a scan twice per minute; shorter ones are missing",
                plural(scanned_flows(host), "flow")
            ));
        }
        if slice.to_ms.saturating_sub(host.last_seen_ms) > SILENCE_MAX_MS {
            let minutes = (slice.to_ms - host.last_seen_ms) / 60_000;
            warn(format!("its last data is {} older than the end of this interval", plural(minutes as u64, "minute")));
        }
    }
    for ip in ambiguous {
        warnings.push(format!("{ip} belongs to several hosts; connections to it are shown as external"));
    }
    warnings
}

/// Number of opened ends of TCP connections that polls found.
fn polled_ends(host: &HostSlice) -> u64 {
    let polled = |flow: &&Flow| flow.source != Source::Ebpf && flow.link.protocol == Protocol::Tcp;
    host.flows.iter().filter(polled).map(|flow| flow.counts.opened).sum()
}

/// Number of flows that eBPF does not count in the kernel.
fn scanned_flows(host: &HostSlice) -> u64 {
    host.flows.iter().filter(|flow| flow.source == Source::Ebpf && flow.link.protocol != Protocol::Tcp).count() as u64
}

fn plural(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

fn connections(n: u64) -> String {
    plural(n, "connection")
}

fn processes(n: u64) -> String {
    if n == 1 { "1 process".to_owned() } else { format!("{n} processes") }
}
