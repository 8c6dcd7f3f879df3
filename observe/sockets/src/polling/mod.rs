//! Seeing connections by asking the kernel for its sockets at intervals (Transtracer §3.1 and §3.2).
//!
//! Two things make it affordable at 20,000 connections: only what is new since the last poll is judged, and only owners of
//! what is new are looked for (the paper looks through every process at each poll). Connections that live between two
//! polls are not seen. Bytes are not counted: asking for them doubles what a poll costs.
//!
//! Without CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH the owners of other users' sockets stay unknown but for their cgroup;
//! without CAP_SYS_ADMIN only our own network namespace is seen.

mod connections;
mod inet_diag;
mod listeners;
mod owners;
mod quick;
mod space;
mod unix_diag;

use crate::namespaces;
use crate::{Collector, Sightings};
use flows::Source;
use model::Failure;
use owners::{Owners, Wanted};
use quick::QuickMap;
use space::Space;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Asks for sockets at each call of [`Collector::collect`].
pub struct Poller {
    source: Source,
    own: u64,
    spaces: BTreeMap<u64, Space>,
    owners: Owners,
    wanted: Wanted,
    namespaces: Schedule,
}

impl Poller {
    /// `source` is [`Source::Polling`], or [`Source::Tuples`] where other users' processes cannot be read. Fails if the
    /// kernel does not tell its sockets.
    pub fn start(source: Source) -> Result<Poller, Failure> {
        let refused = |error: std::io::Error| {
            Failure::environment("the kernel does not tell its sockets")
                .why(format!("socket diagnosis over netlink: {error}"))
                .next("load the kernel modules tcp_diag, udp_diag and unix_diag")
        };
        let own = namespaces::own().map_err(refused)?;
        let mut space = Space::enter(own, "/proc/thread-self/ns/net".as_ref(), true).map_err(refused)?;
        space.read(&mut Wanted::default()).map_err(refused)?;
        Ok(Poller {
            source,
            own,
            // what was read so far must count as there before us, so it is read anew
            spaces: BTreeMap::new(),
            owners: Owners::default(),
            wanted: Wanted::default(),
            namespaces: Schedule::default(),
        })
    }

    /// Enters namespaces that are new, leaves those that have ended: our channel would keep them alive.
    fn follow_namespaces(&mut self) {
        if !self.namespaces.is_due() {
            return;
        }
        let started = Instant::now();
        let from_before = self.namespaces.done.is_none();
        let all = namespaces::all();
        self.spaces.retain(|id, _| all.contains_key(id));
        for (id, path) in all {
            if let std::collections::btree_map::Entry::Vacant(vacant) = self.spaces.entry(id)
                && let Ok(space) = Space::enter(id, &path, from_before)
            {
                vacant.insert(space);
            }
        }
        self.namespaces.done(started);
    }
}

impl Collector for Poller {
    fn source(&self) -> Source {
        self.source
    }

    fn collect(&mut self) -> Result<Sightings, Failure> {
        self.follow_namespaces();
        self.wanted.clear();
        let mut read = Vec::with_capacity(self.spaces.len());
        for (id, space) in &mut self.spaces {
            match space.read(&mut self.wanted) {
                Ok(()) => read.push(*id),
                Err(error) if *id == self.own => {
                    return Err(Failure::environment("sockets could not be read").why(error.to_string()));
                }
                // its last process may have just ended
                Err(_) => {}
            }
        }
        let unix = self.judge_unix(&read);
        let mut told = Sightings::default();
        let search = self.owners.find(&mut self.wanted);
        told.losses.unreadable = search.unreadable;
        for (id, arrivals) in read.iter().zip(unix) {
            if let Some(space) = self.spaces.get_mut(id) {
                space.settle(&self.wanted, search.complete, arrivals, &mut told);
            }
        }
        Ok(told)
    }
}

impl Poller {
    /// What is new among Unix connections, by namespace in the order of `read`.
    fn judge_unix(&mut self, read: &[u64]) -> Vec<Vec<connections::Arrival>> {
        let mut names = QuickMap::default();
        read.iter().for_each(|id| self.spaces[id].unix_names(&mut names));
        let judged: Vec<_> = read.iter().map(|id| self.spaces[id].judge_unix(&names)).collect();
        let spaces = &mut self.spaces;
        let wanted = &mut self.wanted;
        let arrivals = |(id, judged)| spaces.get_mut(id).map(|space: &mut Space| space.see_unix(judged, wanted));
        read.iter().zip(judged).map(arrivals).map(Option::unwrap_or_default).collect()
    }
}

/// When to look for namespaces again: looking takes at most a hundredth of the time, and is done at each poll while there
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
