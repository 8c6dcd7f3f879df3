//! One look at this host, without an agent.

use crate::time_arg::now_ms;
use flows::{HostSlice, Slice, Source};
use model::Failure;
use sockets::choose::{Choice, Mode, choose};
use sockets::identity::Identifier;

/// What is open now, and why not more of it is seen. By polling: nothing is loaded into the kernel for a look.
pub fn look() -> Result<(Slice, Vec<String>), Failure> {
    let from_ms = now_ms();
    let Choice { mut collector, refusals, limits } = choose(Mode::Only(Source::Polling))
        .or_else(|_| choose(Mode::Only(Source::Tuples)))
        .map_err(|failure| Failure { next: Some("run it as root: it sees whose a socket is".to_owned()), ..failure })?;
    let mut identifier = Identifier::start()?;
    let seen = collector.collect()?;
    let seen = identifier.identify(collector.source(), seen);
    let to_ms = now_ms();
    let host = HostSlice {
        host: seen.host,
        services: seen.services,
        processes: seen.processes,
        listeners: seen.listeners.unwrap_or_default(),
        flows: seen.flows,
        losses: seen.losses,
        last_seen_ms: to_ms,
    };
    let remarks = refusals.iter().map(ToString::to_string).chain(limits).collect();
    Ok((Slice { from_ms, to_ms, hosts: vec![host] }, remarks))
}
