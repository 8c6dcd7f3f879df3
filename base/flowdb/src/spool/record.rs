//! Encoding of windows in a spool file. Repeated parts (hosts, services, processes, listeners, flow keys) are stored
//! once per file and referenced by number, so a window of a thousand services takes kilobytes.
//!
//! ```text
//! record:  length u32 LE | first 8 bytes of SHA-256 of the payload | payload
//! payload: agent 16 | sequence | from_ms ± | to_ms - from_ms ± | source | losses 6 ×, in files of version 1 4 ×
//!          | host part
//!          | n | n service parts | n | n process parts | 0, or 1 + n | n listener parts
//!          | n | n × (flow part | mask of the counts that are not 0, in their order | those counts)
//! part:    its number; the next free number is followed by length and JSON of the part, which gets that number
//! ```
//!
//! Numbers are encoded as in `varint`.

use super::varint::{Damaged, put, put_signed, take, take_signed, take_slice};
use flows::{Counts, Flow, FlowKey, Host, Listener, Losses, Process, Service, Source, Window};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use uuid::Uuid;

const CHECKSUM: usize = 8;
/// Length and checksum.
pub const HEADER: usize = 4 + CHECKSUM;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Part {
    Host(Host),
    Service(Service),
    Process(Process),
    Listener(Listener),
    Flow(FlowKey),
}

/// Encodes windows for one file.
#[derive(Default)]
pub struct Writer {
    parts: HashMap<Part, u64>,
}

impl Writer {
    /// Number of distinct parts written so far.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Encodes a window. The record must be written before any other, because later records refer to its parts.
    pub fn record(&mut self, window: &Window) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes.extend(window.agent.as_bytes());
        put(&mut bytes, window.sequence);
        put_signed(&mut bytes, window.from_ms);
        put_signed(&mut bytes, window.to_ms.wrapping_sub(window.from_ms));
        bytes.push(window.source as u8);
        let Losses { table_full, recursion, windows, unreadable, closed_unseen, between_polls } = window.losses;
        let losses = [table_full, recursion, windows, unreadable, closed_unseen, between_polls];
        losses.into_iter().for_each(|lost| put(&mut bytes, lost));
        self.part(&mut bytes, Part::Host(window.host.clone()));
        put(&mut bytes, window.services.len() as u64);
        window.services.iter().for_each(|service| self.part(&mut bytes, Part::Service(service.clone())));
        put(&mut bytes, window.processes.len() as u64);
        window.processes.iter().for_each(|process| self.part(&mut bytes, Part::Process(process.clone())));
        put(&mut bytes, window.listeners.as_ref().map_or(0, |listeners| 1 + listeners.len() as u64));
        let listeners = window.listeners.iter().flatten();
        listeners.for_each(|listener| self.part(&mut bytes, Part::Listener(listener.clone())));
        put(&mut bytes, window.flows.len() as u64);
        window.flows.iter().for_each(|flow| self.flow(&mut bytes, flow));
        let length = (bytes.len() - HEADER) as u32;
        let checksum = checksum(&bytes[HEADER..]);
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes[4..HEADER].copy_from_slice(&checksum);
        bytes
    }

    fn flow(&mut self, bytes: &mut Vec<u8>, flow: &Flow) {
        self.part(bytes, Part::Flow(flow.key()));
        let counts = list(flow.counts);
        bytes.push((0..7).filter(|i| counts[*i] > 0).fold(0, |mask, i| mask | 1 << i));
        counts.into_iter().filter(|count| *count > 0).for_each(|count| put(bytes, count));
    }

    fn part(&mut self, bytes: &mut Vec<u8>, part: Part) {
        if let Some(number) = self.parts.get(&part) {
            return put(bytes, *number);
        }
        let number = self.parts.len() as u64;
        let json = serde_json::to_vec(&part).unwrap_or_default();
        put(bytes, number);
        put(bytes, json.len() as u64);
        bytes.extend(json);
        self.parts.insert(part, number);
    }
}

fn list(counts: Counts) -> [u64; 7] {
    let Counts { opened, established, failed, closed, open, sent, received } = counts;
    [opened, established, failed, closed, open, sent, received]
}

fn checksum(payload: &[u8]) -> [u8; CHECKSUM] {
    let digest = Sha256::digest(payload);
    std::array::from_fn(|i| digest[i])
}

/// Removes the first record from `bytes` and returns its payload; none if the record is incomplete or damaged.
pub fn payload<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (header, rest) = bytes.split_at_checked(HEADER)?;
    let length = u32::from_le_bytes(header[..4].try_into().ok()?);
    let (payload, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    if header[4..] != checksum(payload) {
        return None;
    }
    *bytes = rest;
    Some(payload)
}

/// Version of a spool file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// Written by 0.1.0: without the losses that were added later.
    One,
    #[default]
    Two,
}

/// Decodes windows of one file.
#[derive(Default)]
pub struct Reader {
    version: Version,
    parts: Vec<Part>,
}

impl Reader {
    pub fn new(version: Version) -> Reader {
        Reader { version, parts: Vec::new() }
    }

    /// Decodes a window. The payloads of a file must be passed in order.
    pub fn window(&mut self, mut payload: &[u8]) -> Result<Window, Damaged> {
        let bytes = &mut payload;
        let agent = Uuid::from_slice(take_slice(bytes, 16)?).map_err(|_| Damaged)?;
        let sequence = take(bytes)?;
        let from_ms = take_signed(bytes)?;
        let to_ms = from_ms.wrapping_add(take_signed(bytes)?);
        let source = match take_slice(bytes, 1)? {
            [0] => Source::Ebpf,
            [1] => Source::Polling,
            [2] => Source::Tuples,
            _ => return Err(Damaged),
        };
        let losses = self.losses(bytes)?;
        let Part::Host(host) = self.part(bytes)?.clone() else { return Err(Damaged) };
        let services = self.many(bytes, |part| match part {
            Part::Service(service) => Some(service.clone()),
            _ => None,
        })?;
        let processes = self.many(bytes, |part| match part {
            Part::Process(process) => Some(process.clone()),
            _ => None,
        })?;
        let listeners = self.listeners(bytes)?;
        let mut flows = Vec::new();
        for _ in 0..take(bytes)? {
            flows.push(self.flow(bytes)?);
        }
        let rest =
            Window { agent, sequence, from_ms, to_ms, host, source, services, processes, listeners, flows, losses };
        if payload.is_empty() { Ok(rest) } else { Err(Damaged) }
    }

    fn losses(&self, bytes: &mut &[u8]) -> Result<Losses, Damaged> {
        let losses = Losses {
            table_full: take(bytes)?,
            recursion: take(bytes)?,
            windows: take(bytes)?,
            unreadable: take(bytes)?,
            ..Losses::default()
        };
        if self.version == Version::One {
            return Ok(losses);
        }
        Ok(Losses { closed_unseen: take(bytes)?, between_polls: take(bytes)?, ..losses })
    }

    fn listeners(&mut self, bytes: &mut &[u8]) -> Result<Option<Vec<Listener>>, Damaged> {
        let Some(count) = take(bytes)?.checked_sub(1) else { return Ok(None) };
        let mut listeners = Vec::new();
        for _ in 0..count {
            let Part::Listener(listener) = self.part(bytes)? else { return Err(Damaged) };
            listeners.push(listener.clone());
        }
        Ok(Some(listeners))
    }

    fn many<T>(&mut self, bytes: &mut &[u8], of: impl Fn(&Part) -> Option<T>) -> Result<Vec<T>, Damaged> {
        let mut all = Vec::new();
        for _ in 0..take(bytes)? {
            all.push(of(self.part(bytes)?).ok_or(Damaged)?);
        }
        Ok(all)
    }

    fn flow(&mut self, bytes: &mut &[u8]) -> Result<Flow, Damaged> {
        let Part::Flow(key) = self.part(bytes)?.clone() else { return Err(Damaged) };
        let [mask] = *take_slice(bytes, 1)? else { return Err(Damaged) };
        let mut counts = [0; 7];
        for (i, count) in counts.iter_mut().enumerate() {
            if mask & 1 << i != 0 {
                *count = take(bytes)?;
            }
        }
        let [opened, established, failed, closed, open, sent, received] = counts;
        let counts = Counts { opened, established, failed, closed, open, sent, received };
        Ok(key.with_counts(counts))
    }

    fn part(&mut self, bytes: &mut &[u8]) -> Result<&Part, Damaged> {
        let number = usize::try_from(take(bytes)?).map_err(|_| Damaged)?;
        if number == self.parts.len() {
            let length = usize::try_from(take(bytes)?).map_err(|_| Damaged)?;
            let json = take_slice(bytes, length)?;
            self.parts.push(serde_json::from_slice(json).map_err(|_| Damaged)?);
        }
        self.parts.get(number).ok_or(Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flows::{
        Attribution, HostAddress, HostId, Link, ListenAddress, ProcessId, Protocol, ServiceKey, ServiceKind, Side,
    };
    use proptest::prelude::*;

    fn service(number: u8) -> Service {
        let host = HostId("h".to_owned());
        let (kind, name) = (ServiceKind::Unit, format!("unit {number}\n"));
        let key = ServiceKey::of(&host, kind, &name);
        let (executable, arguments, container, pod, unit, cgroup) = (None, Some(name.clone()), None, None, None, None);
        Service { key, kind, name, executable, arguments, container, pod, unit, cgroup }
    }

    prop_compose! {
        fn flow()(number in 0u8..6, port in 0u16..4, counts: [u64; 7], pid in prop::option::of(0u32..9), path: bool) -> Flow {
            let passive = match path {
                true => ListenAddress::Path(format!("@{port}")),
                false => ListenAddress::Inet { ip: [10, 0, 0, number].into(), port },
            };
            let [opened, established, failed, closed, open, sent, received] = counts;
            Flow {
                side: if number % 2 == 0 { Side::Active } else { Side::Passive },
                service: service(number).key,
                process: pid.map(|pid| ProcessId { pid, start_ticks: 5 }),
                netns: 1,
                link: Link { protocol: Protocol::Tcp, active: None, passive: passive.clone() },
                translated: pid.map(|_| passive),
                source: Source::Polling,
                attribution: Attribution::Exact,
                counts: Counts { opened, established, failed, closed, open, sent, received },
            }
        }
    }

    prop_compose! {
        fn window()(
            agent: u128, sequence: u64, from_ms: i64, to_ms: i64, lost: [u64; 6], flows in prop::collection::vec(flow(), 0..8),
            services in prop::collection::vec(0u8..6, 0..4), listeners in prop::option::of(prop::collection::vec(0u16..3, 0..3)),
        ) -> Window {
            let [table_full, recursion, windows, unreadable, closed_unseen, between_polls] = lost;
            let at = |port| ListenAddress::Inet { ip: [0, 0, 0, 0].into(), port };
            let listener = |port| Listener { service: service(1).key, netns: 1, protocol: Protocol::Udp, at: at(port) };
            let address = HostAddress { netns: 1, ip: [10, 0, 0, 1].into() };
            Window {
                agent: Uuid::from_u128(agent), sequence, from_ms, to_ms,
                host: Host { id: HostId("h".into()), name: "h".into(), boot: "b".into(), addresses: vec![address] },
                source: Source::Polling,
                services: services.into_iter().map(service).collect(),
                processes: vec![],
                listeners: listeners.map(|ports| ports.into_iter().map(listener).collect()),
                flows,
                losses: Losses { table_full, recursion, windows, unreadable, closed_unseen, between_polls },
            }
        }
    }

    fn read(bytes: &[u8]) -> (Vec<Window>, Result<(), Damaged>) {
        let (mut rest, mut reader, mut windows) = (bytes, Reader::default(), Vec::new());
        while let Some(payload) = payload(&mut rest) {
            match reader.window(payload) {
                Ok(window) => windows.push(window),
                Err(damaged) => return (windows, Err(damaged)),
            }
        }
        (windows, Ok(()))
    }

    proptest! {
        #[test]
        fn windows_survive_a_round_trip(windows in prop::collection::vec(window(), 0..6)) {
            let mut writer = Writer::default();
            let bytes: Vec<u8> = windows.iter().flat_map(|window| writer.record(window)).collect();
            prop_assert_eq!(read(&bytes), (windows, Ok(())));
        }

        /// After an incomplete write or a flipped bit, the windows before it are returned, and nothing else.
        #[test]
        fn incomplete_and_damaged_records_are_ignored(
            windows in prop::collection::vec(window(), 1..6), cut: prop::sample::Index, at: prop::sample::Index, bit in 0u8..8,
        ) {
            let mut writer = Writer::default();
            let records: Vec<Vec<u8>> = windows.iter().map(|window| writer.record(window)).collect();
            let mut bytes = records.concat();
            let whole = |length: usize| {
                records.iter().scan(0, |end, record| { *end += record.len(); Some(*end) }).filter(|end| *end <= length).count()
            };
            let cut = cut.index(bytes.len());
            prop_assert_eq!(read(&bytes[..cut]).0, &windows[..whole(cut)]);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(read(&bytes).0, &windows[..whole(at)]);
        }

        #[test]
        fn any_payload_is_decoded_or_rejected(payload: Vec<u8>) {
            let _ = Reader::default().window(&payload);
        }

        /// Payloads that start like valid ones.
        #[test]
        fn modified_payloads_are_decoded_or_rejected(window in window(), at: prop::sample::Index, byte: u8) {
            let mut record = Writer::default().record(&window);
            let at = HEADER + at.index(record.len() - HEADER);
            record[at] = byte;
            let _ = Reader::default().window(&record[HEADER..]);
        }
    }
}
