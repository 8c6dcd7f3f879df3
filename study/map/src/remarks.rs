//! What the reader of a map must know: where something may be missing, and why.

use crate::places::Places;
use flows::{Slice, Source};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// A host that was last heard so long before the end of the range is remarked.
const SILENCE_MS: i64 = 3 * 60_000;

pub(crate) fn remarks(slice: &Slice, places: &Places, ambiguous: &BTreeSet<IpAddr>) -> Vec<String> {
    let mut remarks = Vec::new();
    for seen in &places.hosts {
        let (name, losses) = (&seen.host.name, &seen.losses);
        let mut say = |text: String| remarks.push(format!("{name}: {text}"));
        if losses.table_full > 0 {
            say(format!("{} found the kernel's table full: edges may be missing", connections(losses.table_full)));
        }
        if losses.recursion > 0 {
            say(format!("{} of the kernel were missed: edges may be missing", plural(losses.recursion, "event")));
        }
        if losses.windows > 0 {
            say(format!("{} were dropped because nothing could take them", plural(losses.windows, "window")));
        }
        if losses.unreadable > 0 {
            say(format!("sockets of {} could not be read: their owner is missing", processes(losses.unreadable)));
        }
        let sources: BTreeSet<Source> = seen.flows.iter().map(|f| f.source).collect();
        if sources.contains(&Source::Tuples) {
            say("owners of other users' sockets were not readable".to_owned());
        }
        if sources.contains(&Source::Polling) || sources.contains(&Source::Tuples) {
            say("looks at intervals: connections that live between two looks are missing".to_owned());
        }
        if slice.to_ms.saturating_sub(seen.last_seen_ms) > SILENCE_MS {
            let minutes = (slice.to_ms - seen.last_seen_ms) / 60_000;
            say(format!("last heard {} before the end of this range", plural(minutes as u64, "minute")));
        }
    }
    for ip in ambiguous {
        remarks.push(format!("{ip} belongs to several hosts: connections to it are shown as external"));
    }
    remarks
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
