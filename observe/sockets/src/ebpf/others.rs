//! UDP and Unix sockets: no event tells of them, so what one pass finds is compared with the pass before. What lives
//! between two passes is missed, and bytes are not counted by the kernel.

use super::layout::{self, Instance, Seen};
use super::ledger::{Ledger, address};
use crate::{Listening, Sighting};
use flows::{Attribution, Counts, Link, Passive, Protocol, Side};
use std::collections::HashMap;

#[derive(Default)]
pub struct Others {
    /// By inode number: of the sockets, which live in one file system.
    sockets: HashMap<u64, Seen>,
    ends: HashMap<End, Entry>,
    passed: bool,
}

/// What makes connections one flow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct End {
    owner: Instance,
    side: Side,
    netns: u32,
    link: Link,
}

#[derive(Debug, Default)]
struct Entry {
    counts: Counts,
    example_port: u16,
}

impl Others {
    /// `found` in one pass: sockets held by several processes come several times.
    pub fn compare(&mut self, found: impl Iterator<Item = Seen>) {
        let mut now: HashMap<u64, Seen> = HashMap::new();
        for seen in found {
            let known = now.entry(seen.inode).or_insert(seen);
            // the process that starts services keeps their sockets; others hold them to use them
            if known.tgid == 1 {
                *known = seen;
            }
        }
        for (inode, seen) in &now {
            let before = self.sockets.remove(inode);
            if before.is_some_and(|before| End::of(&before) == End::of(seen)) {
                continue;
            }
            if let Some(before) = before {
                self.closed(&before);
            }
            self.opened(seen);
        }
        for gone in std::mem::take(&mut self.sockets).into_values() {
            self.closed(&gone);
        }
        self.sockets = now;
        self.passed = true;
    }

    fn opened(&mut self, seen: &Seen) {
        let Some(end) = End::of(seen) else { return };
        let entry = self.ends.entry(end).or_default();
        entry.example_port = seen.example_port;
        entry.counts.open += 1;
        // those of the first pass were opened before anybody looked
        if self.passed {
            entry.counts.opened += 1;
            entry.counts.established += 1;
        }
    }

    fn closed(&mut self, seen: &Seen) {
        if let Some(entry) = End::of(seen).and_then(|end| self.ends.get_mut(&end)) {
            entry.counts.open = entry.counts.open.saturating_sub(1);
            entry.counts.closed += 1;
        }
    }

    /// Whose descriptions must be kept.
    pub fn owners(&self) -> impl Iterator<Item = Instance> {
        self.sockets.values().map(Seen::instance)
    }

    /// What happened since the last call, and what is open.
    pub fn tell(&mut self, ledger: &Ledger) -> (Vec<Sighting>, Vec<Listening>) {
        let told = self.ends.iter().map(|(end, entry)| Sighting {
            side: end.side,
            netns: u64::from(end.netns),
            owner: ledger.owner(&end.owner),
            link: end.link.clone(),
            example_port: (entry.example_port != 0).then_some(entry.example_port),
            attribution: Attribution::Exact,
            counts: entry.counts,
        });
        let told = told.collect();
        self.ends.retain(|_, entry| {
            entry.counts = Counts { open: entry.counts.open, ..Counts::default() };
            entry.counts.open > 0
        });
        let listening = self.sockets.values().filter(|seen| seen.side == 0).map(|seen| Listening {
            netns: u64::from(seen.netns),
            protocol: protocol(seen),
            at: at(seen),
            owner: ledger.owner(&seen.instance()),
        });
        (told, listening.collect())
    }
}

impl End {
    /// None for a socket that listens.
    fn of(seen: &Seen) -> Option<End> {
        if seen.side == 0 {
            return None;
        }
        let side = if seen.side == layout::ACTIVE { Side::Active } else { Side::Passive };
        let active = (seen.protocol == layout::UDP).then(|| address(seen.active));
        let link = Link { protocol: protocol(seen), active, passive: at(seen) };
        Some(End { owner: seen.instance(), side, netns: seen.netns, link })
    }
}

fn protocol(seen: &Seen) -> Protocol {
    if seen.protocol == layout::UDP { Protocol::Udp } else { Protocol::Unix }
}

fn at(seen: &Seen) -> Passive {
    if seen.protocol == layout::UDP {
        return Passive::Inet { ip: address(seen.passive), port: seen.port };
    }
    Passive::Path(path(&seen.path[..usize::from(seen.path_len).min(seen.path.len())]))
}

/// Abstract names begin with NUL, which is written `@`, and may hold anything; others end at the first NUL.
fn path(bytes: &[u8]) -> String {
    match bytes {
        [0, name @ ..] => format!("@{}", String::from_utf8_lossy(name).replace('\0', "@")),
        _ => String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ebpf::layout::Plain;

    fn client(inode: u64, tgid: u32) -> Seen {
        let mut seen = Seen { inode, tgid, side: layout::ACTIVE, path_len: 5, ..Seen::ZERO };
        seen.path[..5].copy_from_slice(b"/sock");
        seen
    }

    fn counts(others: &mut Others) -> Vec<Counts> {
        others.tell(&Ledger::default()).0.into_iter().map(|it| it.counts).collect()
    }

    #[test]
    fn what_was_there_is_open_and_what_comes_is_opened() {
        let mut others = Others::default();
        others.compare([client(1, 10)].into_iter());
        assert_eq!(counts(&mut others), [Counts { open: 1, ..Counts::default() }]);
        others.compare([client(1, 10), client(2, 10)].into_iter());
        assert_eq!(counts(&mut others), [Counts { open: 2, opened: 1, established: 1, ..Counts::default() }]);
        others.compare([client(2, 10)].into_iter());
        assert_eq!(counts(&mut others), [Counts { open: 1, closed: 1, ..Counts::default() }]);
        others.compare(std::iter::empty());
        assert_eq!(counts(&mut others), [Counts { closed: 1, ..Counts::default() }]);
        assert_eq!(counts(&mut others), []);
    }

    #[test]
    fn a_socket_of_many_processes_is_one() {
        let mut others = Others::default();
        others.compare([client(1, 1), client(1, 10), client(1, 11)].into_iter());
        let (told, _) = others.tell(&Ledger::default());
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].owner.as_ref().map(|it| it.instance.pid), Some(10));
    }

    #[test]
    fn paths_are_text() {
        assert_eq!(path(b"/run/x.sock\0"), "/run/x.sock");
        assert_eq!(path(b"\0name\0more"), "@name@more");
    }
}
