//! Reads the sockets of this host once, without an agent.

use crate::time_arg::now_ms;
use flows::{HostSlice, Slice, Source};
use model::Failure;
use sockets::backend::{Mode, Selection, select};
use sockets::identity::Identifier;

/// Returns the open connections and listeners, and remarks about what is missing. Polls, so nothing is loaded into the
/// kernel.
pub fn collect() -> Result<(Slice, Vec<String>), Failure> {
    let from_ms = now_ms();
    let mut remarks = Vec::new();
    let selected = select(Mode::Only(Source::Polling)).or_else(|failure| {
        remarks.extend(failure.why);
        select(Mode::Only(Source::Tuples))
    });
    let Selection { mut collector, rejections, limits } = selected.map_err(|failure| {
        if rustix::process::geteuid().is_root() {
            return failure;
        }
        Failure { next: Some("run as root to see the owners of all sockets".to_owned()), ..failure }
    })?;
    let mut identifier = Identifier::start()?;
    let collected = collector.collect()?;
    let observed = identifier.identify(collector.source(), collected);
    let to_ms = now_ms();
    let host = HostSlice {
        host: observed.host,
        services: observed.services,
        processes: observed.processes,
        listeners: observed.listeners.unwrap_or_default(),
        flows: observed.flows,
        losses: observed.losses,
        last_seen_ms: to_ms,
    };
    remarks.extend(rejections.iter().map(ToString::to_string).chain(limits));
    Ok((Slice { from_ms, to_ms, hosts: vec![host] }, remarks))
}
