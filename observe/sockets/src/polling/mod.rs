//! Observes connections by polling the kernel's socket tables (Transtracer §3.1 and §3.2).
//!
//! Two measures keep polling cheap at 20,000 connections: only new sockets are classified, and only owners of new
//! sockets are searched for (the paper reads every process at each poll). Connections that live between two polls are
//! missed, and counted if they are TCP. Bytes are not counted, because requesting them doubles the cost of a poll.
//!
//! Without CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH only the cgroup of other users' sockets is known. Without
//! CAP_SYS_ADMIN only the agent's own network namespace is visible.

mod connections;
mod hash;
mod inet_diag;
mod listeners;
mod missed_connections;
mod namespace_poller;
mod owners;
mod unix_diag;

use crate::namespaces;
use crate::{CollectedSockets, Collector};
use flows::Source;
use hash::IdMap;
use model::Failure;
use namespace_poller::NamespacePoller;
use owners::{OwnerSearch, Owners};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Reads the socket tables at each call of [`Collector::collect`].
pub struct Poller {
    source: Source,
    own: u64,
    pollers: BTreeMap<u64, NamespacePoller>,
    /// Of namespaces that ended since the last collection.
    ended: Vec<NamespacePoller>,
    owners: Owners,
    search: OwnerSearch,
    namespaces: Schedule,
}

impl Poller {
    /// `source` is [`Source::Polling`], or [`Source::Tuples`] if other users' processes are not readable.
    ///
    /// # Errors
    /// The kernel does not provide its socket tables.
    pub fn start(source: Source) -> Result<Poller, Failure> {
        let refused = |error: std::io::Error| {
            Failure::environment("cannot read the kernel's socket tables")
                .why(format!("netlink socket diagnostics: {error}"))
                .next("load the kernel modules tcp_diag, udp_diag and unix_diag")
        };
        let own = namespaces::own().map_err(refused)?;
        let mut poller = NamespacePoller::enter(own, "/proc/thread-self/ns/net".as_ref(), true).map_err(refused)?;
        poller.read(&mut OwnerSearch::default()).map_err(refused)?;
        Ok(Poller {
            source,
            own,
            // start without state, so that the first poll treats existing connections as existing
            pollers: BTreeMap::new(),
            ended: Vec::new(),
            owners: Owners::default(),
            search: OwnerSearch::default(),
            namespaces: Schedule::default(),
        })
    }

    /// Enters new namespaces and leaves ended ones, which an open netlink socket would keep alive.
    fn update_namespaces(&mut self) {
        if !self.namespaces.is_due() {
            return;
        }
        let started = Instant::now();
        let existed_before = self.namespaces.done.is_none();
        let all = namespaces::all();
        let ended: Vec<u64> = self.pollers.keys().filter(|id| !all.contains_key(id)).copied().collect();
        self.ended.extend(ended.iter().filter_map(|id| self.pollers.remove(id)));
        for (id, path) in all {
            if let std::collections::btree_map::Entry::Vacant(vacant) = self.pollers.entry(id)
                && let Ok(poller) = NamespacePoller::enter(id, &path, existed_before)
            {
                vacant.insert(poller);
            }
        }
        self.namespaces.done(started);
    }
}

impl Collector for Poller {
    fn source(&self) -> Source {
        self.source
    }

    fn collect(&mut self) -> Result<CollectedSockets, Failure> {
        self.update_namespaces();
        self.search.clear();
        let mut read = Vec::with_capacity(self.pollers.len());
        for (id, poller) in &mut self.pollers {
            match poller.read(&mut self.search) {
                Ok(()) => read.push(*id),
                Err(error) if *id == self.own => {
                    return Err(Failure::environment("cannot read the sockets").why(error.to_string()));
                }
                // the last process of the namespace may have just ended
                Err(_) => {}
            }
        }
        let unix = self.classify_unix(&read);
        let mut collected = CollectedSockets::default();
        self.ended.drain(..).for_each(|poller| poller.close(&mut collected));
        let result = self.owners.find(&mut self.search);
        collected.losses.unreadable = result.unreadable;
        for (id, new_connections) in read.iter().zip(unix) {
            if let Some(poller) = self.pollers.get_mut(id) {
                poller.finish_poll(&self.search, result.complete, new_connections, &mut collected);
            }
        }
        Ok(collected)
    }

    /// A new connection of a process with many open files waits for a full search, which would come later.
    fn prepare_last(&mut self) {
        self.owners.search_all_next();
    }
}

impl Poller {
    /// New Unix connections by namespace, in the order of `read`.
    fn classify_unix(&mut self, read: &[u64]) -> Vec<Vec<connections::NewConnection>> {
        let mut names = IdMap::default();
        read.iter().for_each(|id| self.pollers[id].unix_names(&mut names));
        let classified: Vec<_> = read.iter().map(|id| self.pollers[id].classify_unix(&names)).collect();
        let pollers = &mut self.pollers;
        let search = &mut self.search;
        let new_connections = |(id, classified)| {
            pollers.get_mut(id).map(|poller: &mut NamespacePoller| poller.observe_unix(classified, search))
        };
        read.iter().zip(classified).map(new_connections).map(Option::unwrap_or_default).collect()
    }
}

/// Decides when to list namespaces again: listing takes at most 1% of the time, and happens at each poll while there
/// are few processes.
#[derive(Default)]
struct Schedule {
    done: Option<(Instant, Duration)>,
}

impl Schedule {
    fn is_due(&self) -> bool {
        self.done.is_none_or(|(when, cost)| when.elapsed() >= cost * 100)
    }

    fn done(&mut self, started: Instant) {
        self.done = Some((Instant::now(), started.elapsed()));
    }
}
