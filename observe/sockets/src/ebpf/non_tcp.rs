//! UDP and Unix sockets. The kernel has no hook for them, so consecutive file scans are compared. Sockets that live
//! between two scans are missed, and bytes are not counted.

use super::flow_table::{FlowTable, address};
use super::layout::{self, ScannedSocket, TaskId};
use crate::{ObservedListener, SocketObservation};
use flows::{Attribution, Counts, Link, ListenAddress, Protocol, Side};
use std::collections::HashMap;

#[derive(Default)]
pub struct NonTcpSockets {
    /// Sockets of the last scan, by inode number.
    sockets: HashMap<u64, ScannedSocket>,
    flows: HashMap<FlowKey, Entry>,
    scanned: bool,
}

/// Connections with equal keys form one flow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FlowKey {
    owner: TaskId,
    side: Side,
    netns: u32,
    link: Link,
}

#[derive(Debug, Default)]
struct Entry {
    counts: Counts,
    example_port: u16,
}

impl NonTcpSockets {
    /// `found` are the sockets of one scan; a socket held by several processes occurs several times.
    pub fn compare(&mut self, found: impl Iterator<Item = ScannedSocket>) {
        let mut now: HashMap<u64, ScannedSocket> = HashMap::new();
        for socket in found {
            let socket_entry = now.entry(socket.inode).or_insert(socket);
            // PID 1 holds sockets of the services that it starts; prefer the process that uses the socket
            if socket_entry.tgid == 1 {
                *socket_entry = socket;
            }
        }
        for (inode, socket) in &now {
            let before = self.sockets.remove(inode);
            if before.is_some_and(|before| FlowKey::of(&before) == FlowKey::of(socket)) {
                continue;
            }
            if let Some(before) = before {
                self.count_closed(&before);
            }
            self.count_opened(socket);
        }
        for closed in std::mem::take(&mut self.sockets).into_values() {
            self.count_closed(&closed);
        }
        self.sockets = now;
        self.scanned = true;
    }

    fn count_opened(&mut self, socket: &ScannedSocket) {
        let Some(key) = FlowKey::of(socket) else { return };
        let entry = self.flows.entry(key).or_default();
        entry.example_port = socket.example_port;
        entry.counts.open += 1;
        // sockets of the first scan were opened earlier
        if self.scanned {
            entry.counts.opened += 1;
            entry.counts.established += 1;
        }
    }

    fn count_closed(&mut self, socket: &ScannedSocket) {
        if let Some(entry) = FlowKey::of(socket).and_then(|key| self.flows.get_mut(&key)) {
            entry.counts.open = entry.counts.open.saturating_sub(1);
            entry.counts.closed += 1;
        }
    }

    /// Processes whose descriptions must be kept.
    pub fn owners(&self) -> impl Iterator<Item = TaskId> {
        self.sockets.values().map(ScannedSocket::task)
    }

    /// Activity since the last call, and open connections.
    pub fn drain_changes(&mut self, flow_table: &FlowTable) -> (Vec<SocketObservation>, Vec<ObservedListener>) {
        let reported = self.flows.iter().map(|(key, entry)| SocketObservation {
            side: key.side,
            netns: u64::from(key.netns),
            owner: flow_table.owner(&key.owner),
            any_worker: false,
            link: key.link.clone(),
            example_port: (entry.example_port != 0).then_some(entry.example_port),
            attribution: Attribution::Exact,
            counts: entry.counts,
        });
        let reported = reported.collect();
        self.flows.retain(|_, entry| {
            entry.counts = Counts { open: entry.counts.open, ..Counts::default() };
            entry.counts.open > 0
        });
        let listening = self.sockets.values().filter(|socket| socket.side == 0).map(|socket| ObservedListener {
            netns: u64::from(socket.netns),
            protocol: protocol(socket),
            at: at(socket),
            owner: flow_table.owner(&socket.task()),
        });
        (reported, listening.collect())
    }
}

impl FlowKey {
    /// None for a listener.
    fn of(socket: &ScannedSocket) -> Option<FlowKey> {
        if socket.side == 0 {
            return None;
        }
        let side = if socket.side == layout::ACTIVE { Side::Active } else { Side::Passive };
        let active = (socket.protocol == layout::UDP).then(|| address(socket.active));
        let link = Link { protocol: protocol(socket), active, passive: at(socket) };
        Some(FlowKey { owner: socket.task(), side, netns: socket.netns, link })
    }
}

fn protocol(socket: &ScannedSocket) -> Protocol {
    if socket.protocol == layout::UDP { Protocol::Udp } else { Protocol::Unix }
}

fn at(socket: &ScannedSocket) -> ListenAddress {
    if socket.protocol == layout::UDP {
        return ListenAddress::Inet { ip: address(socket.passive), port: socket.port };
    }
    ListenAddress::Path(path(&socket.path[..usize::from(socket.path_len).min(socket.path.len())]))
}

/// An abstract name starts with NUL, written as `@`, and may contain any byte. Other names end at the first NUL.
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

    fn client(inode: u64, tgid: u32) -> ScannedSocket {
        let mut socket = ScannedSocket { inode, tgid, side: layout::ACTIVE, path_len: 5, ..ScannedSocket::ZERO };
        socket.path[..5].copy_from_slice(b"/sock");
        socket
    }

    fn counts(sockets: &mut NonTcpSockets) -> Vec<Counts> {
        sockets.drain_changes(&FlowTable::default()).0.into_iter().map(|it| it.counts).collect()
    }

    #[test]
    fn existing_sockets_are_open_and_new_ones_are_opened() {
        let mut sockets = NonTcpSockets::default();
        sockets.compare([client(1, 10)].into_iter());
        assert_eq!(counts(&mut sockets), [Counts { open: 1, ..Counts::default() }]);
        sockets.compare([client(1, 10), client(2, 10)].into_iter());
        assert_eq!(counts(&mut sockets), [Counts { open: 2, opened: 1, established: 1, ..Counts::default() }]);
        sockets.compare([client(2, 10)].into_iter());
        assert_eq!(counts(&mut sockets), [Counts { open: 1, closed: 1, ..Counts::default() }]);
        sockets.compare(std::iter::empty());
        assert_eq!(counts(&mut sockets), [Counts { closed: 1, ..Counts::default() }]);
        assert_eq!(counts(&mut sockets), []);
    }

    #[test]
    fn a_socket_of_many_processes_is_counted_once() {
        let mut sockets = NonTcpSockets::default();
        sockets.compare([client(1, 1), client(1, 10), client(1, 11)].into_iter());
        let (reported, _) = sockets.drain_changes(&FlowTable::default());
        assert_eq!(reported.len(), 1);
        assert_eq!(reported[0].owner.as_ref().map(|owner| owner.process.pid), Some(10));
    }

    #[test]
    fn paths_are_converted_to_text() {
        assert_eq!(path(b"/run/x.sock\0"), "/run/x.sock");
        assert_eq!(path(b"\0name\0more"), "@name@more");
    }
}
