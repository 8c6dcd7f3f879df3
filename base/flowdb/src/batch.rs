//! Converts many windows to the rows that they change. Equal entities become one row; counts are added up.

use crate::aggregate::{Aggregate, aggregate};
use crate::statement::{Row, Value};
use crate::{MINUTE_MS, enum_text};
use flows::{Counts, Flow, Host, HostId, ListenAddress, Listener, Losses, Process, Service, ServiceKey, Window};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

const DAY_MS: i64 = 86_400_000;

type BootKey = (HostId, String);

/// Hash of the cells; equal on every host and in every version.
type Key = [u8; 16];

/// Start and end, in milliseconds since the epoch.
pub type Range = (i64, i64);

/// The addresses or listeners of a host at the end of a window, by key.
struct Inventory {
    from_ms: i64,
    to_ms: i64,
    rows: BTreeMap<String, Row>,
}

#[derive(Default)]
pub struct Batch<'w> {
    hosts: BTreeMap<HostId, (String, Range)>,
    boots: BTreeMap<BootKey, Range>,
    services: BTreeMap<ServiceKey, (HostId, Service, i64)>,
    /// Last day on which services were active.
    active_until: BTreeMap<ServiceKey, i64>,
    processes: BTreeMap<(BootKey, flows::ProcessId), (Process, Range)>,
    addresses: BTreeMap<BootKey, Vec<Inventory>>,
    listeners: BTreeMap<BootKey, Vec<Inventory>>,
    /// Small entries, because a window may contain tens of thousands of flows.
    flows: BTreeMap<Key, (&'w Host, &'w Flow, Range)>,
    counts: BTreeMap<(i64, Key), Counts>,
    losses: BTreeMap<(i64, BootKey), Losses>,
}

/// Start of the bucket of a time.
pub fn bucket(at_ms: i64) -> i64 {
    at_ms.div_euclid(MINUTE_MS) * MINUTE_MS
}

/// End of the day of a time.
fn day_end(at_ms: i64) -> i64 {
    (at_ms.div_euclid(DAY_MS) + 1) * DAY_MS
}

pub fn widen(range: &mut Range, other: Range) {
    *range = (range.0.min(other.0), range.1.max(other.1));
}

impl<'w> Batch<'w> {
    /// Windows of one agent must be in order.
    pub fn of(windows: &[&'w Window]) -> Batch<'w> {
        let mut batch = Batch::default();
        windows.iter().for_each(|window| batch.add(window));
        aggregate(windows, |aggregate| batch.add_flow(&aggregate));
        batch
    }

    fn add(&mut self, window: &Window) {
        let range = (window.from_ms, window.to_ms);
        let host = &window.host;
        let boot = (host.id.clone(), host.boot.clone());
        let entry = self.hosts.entry(host.id.clone()).or_insert_with(|| (String::new(), range));
        entry.0.clone_from(&host.name);
        widen(&mut entry.1, range);
        widen(self.boots.entry(boot.clone()).or_insert(range), range);
        for service in &window.services {
            let first_ms = self.services.get(&service.key).map_or(window.from_ms, |(.., first)| *first);
            self.services.insert(service.key.clone(), (host.id.clone(), service.clone(), first_ms));
            self.mark_active(&service.key, range);
        }
        for process in &window.processes {
            self.add_process(&boot, process, range);
        }
        inventory(self.addresses.entry(boot.clone()).or_default(), range, address_rows(host));
        if let Some(listeners) = &window.listeners {
            listeners.iter().for_each(|listener| self.mark_active(&listener.service, range));
            let rows = listeners.iter().map(|listener| listener_row(&boot, listener)).collect();
            inventory(self.listeners.entry(boot.clone()).or_default(), range, rows);
        }
        if window.losses != Losses::default() {
            self.losses.entry((bucket(window.from_ms), boot)).or_default().add(&window.losses);
        }
    }

    fn add_process(&mut self, boot: &BootKey, process: &Process, (from_ms, to_ms): Range) {
        let range = (from_ms, bucket(to_ms - 1).max(bucket(from_ms)) + MINUTE_MS - 1);
        let entry = self
            .processes
            .entry((boot.clone(), process.id))
            .and_modify(|entry| widen(&mut entry.1, range))
            .or_insert_with(|| (process.clone(), range));
        if !process.comm.is_empty() {
            entry.0 = process.clone();
        }
        self.mark_active(&process.service, range);
    }

    fn add_flow(&mut self, aggregate: &Aggregate<'w>) {
        let Aggregate { host, flow, range, counts } = aggregate;
        let boot = (host.id.clone(), host.boot.clone());
        if let Some(id) = flow.process {
            let (service, netns) = (flow.service.clone(), flow.netns);
            self.add_process(&boot, &Process { id, service, netns, comm: String::new() }, *range);
        }
        self.mark_active(&flow.service, *range);
        let key = key_of(&flow_row(&boot, flow));
        for (bucket, counts) in counts {
            self.counts.entry((*bucket, key)).or_default().add(counts);
        }
        widen(&mut self.flows.entry(key).or_insert((host, flow, *range)).2, *range);
    }

    fn mark_active(&mut self, service: &ServiceKey, (_, to_ms): Range) {
        match self.active_until.get_mut(service) {
            Some(until) => *until = day_end(to_ms).max(*until),
            None => drop(self.active_until.insert(service.clone(), day_end(to_ms))),
        }
    }

    pub fn hosts(&self) -> Vec<Row> {
        let row = |(id, (name, range)): (&HostId, &(String, Range))| {
            vec![id.0.as_str().into(), name.as_str().into(), range.0.into(), range.1.into()]
        };
        self.hosts.iter().map(row).collect()
    }

    pub fn boots(&self) -> Vec<Row> {
        let row = |(boot, range): (&BootKey, &Range)| [columns(boot), vec![range.0.into(), range.1.into()]].concat();
        self.boots.iter().map(row).collect()
    }

    pub fn services(&self) -> impl Iterator<Item = Row> {
        let row = |(key, (host, service, first_ms)): (&ServiceKey, &(HostId, Service, i64))| {
            vec![
                key.0.as_str().into(),
                host.0.as_str().into(),
                enum_text::kind(service.kind).into(),
                service.name.as_str().into(),
                Value::optional(service.executable.as_deref()),
                Value::optional(service.arguments.as_deref()),
                Value::optional(service.container.as_deref()),
                Value::optional(service.pod.as_deref()),
                Value::optional(service.unit.as_deref()),
                Value::optional(service.cgroup.as_deref()),
                (*first_ms).into(),
                self.active_until[key].into(),
            ]
        };
        self.services.iter().map(row)
    }

    /// Services that are referenced but not described.
    pub fn services_active(&self) -> impl Iterator<Item = Row> {
        let undescribed = self.active_until.iter().filter(|(key, _)| !self.services.contains_key(key));
        undescribed.map(|(key, last_ms)| vec![key.0.as_str().into(), (*last_ms).into()])
    }

    pub fn processes(&self) -> impl Iterator<Item = Row> {
        let row = |((boot, instance), (process, range)): (&(BootKey, flows::ProcessId), &(Process, Range))| {
            let rest = vec![
                u64::from(instance.pid).into(),
                instance.start_ticks.into(),
                process.service.0.as_str().into(),
                process.netns.into(),
                process.comm.as_str().into(),
                range.0.into(),
                range.1.into(),
            ];
            [columns(boot), rest].concat()
        };
        self.processes.iter().map(row)
    }

    pub fn flows(&self) -> impl Iterator<Item = Row> {
        self.flows.iter().map(|(key, (host, flow, range))| {
            let mut row = vec![Value::Text(hex(key))];
            row.extend(flow_row(&(host.id.clone(), host.boot.clone()), flow));
            row.extend([range.0.into(), day_end(range.1).into()]);
            row
        })
    }

    pub fn counts(&self) -> impl Iterator<Item = Row> {
        self.counts.iter().map(|((from_ms, flow), counts)| {
            let Counts { opened, established, failed, closed, open, sent, received } = *counts;
            let mut row = vec![(*from_ms).into(), MINUTE_MS.into(), Value::Text(hex(flow))];
            row.extend([opened, established, failed, closed, open, sent, received].map(Value::from));
            row
        })
    }

    pub fn losses(&self) -> Vec<Row> {
        let row = |((from_ms, boot), losses): (&(i64, BootKey), &Losses)| {
            let Losses { table_full, recursion, windows, unreadable, closed_unseen, between_polls } = *losses;
            let counts = [table_full, recursion, windows, unreadable, closed_unseen, between_polls];
            let counts = counts.map(Value::from).to_vec();
            [vec![(*from_ms).into(), MINUTE_MS.into()], columns(boot), counts].concat()
        };
        self.losses.iter().map(row).collect()
    }

    /// Successive inventories: for each, the rows that end removed addresses and the rows of present ones.
    pub fn address_changes(&self) -> Vec<(Vec<Row>, Vec<Row>)> {
        changes(&self.addresses)
    }

    pub fn listener_changes(&self) -> Vec<(Vec<Row>, Vec<Row>)> {
        changes(&self.listeners)
    }
}

/// Adds an inventory unless it equals the last one.
fn inventory(inventories: &mut Vec<Inventory>, (from_ms, to_ms): Range, rows: BTreeMap<String, Row>) {
    let same = |before: &Inventory| before.rows.keys().eq(rows.keys());
    if !inventories.last().is_some_and(same) {
        inventories.push(Inventory { from_ms, to_ms, rows });
    }
}

fn changes(all: &BTreeMap<BootKey, Vec<Inventory>>) -> Vec<(Vec<Row>, Vec<Row>)> {
    let count = all.values().map(Vec::len).max().unwrap_or(0);
    let change = |n: usize| {
        let (mut removed, mut present) = (Vec::new(), Vec::new());
        for (boot, inventories) in all {
            let Some(inventory) = inventories.get(n) else { continue };
            let keys = inventory.rows.keys().map(|key| Value::Text(key.clone())).chain([Value::Null]);
            removed.extend(keys.map(|key| [columns(boot), vec![inventory.to_ms.into(), key]].concat()));
            for (key, row) in &inventory.rows {
                let mut row = [vec![Value::Text(key.clone())], row.clone()].concat();
                row.push(inventory.from_ms.into());
                present.push(row);
            }
        }
        present.sort_by(|a, b| a[0].text().cmp(&b[0].text()));
        (removed, present)
    };
    (0..count).map(change).collect()
}

fn columns((host, boot): &BootKey) -> Row {
    vec![host.0.as_str().into(), boot.as_str().into()]
}

fn address_rows(host: &Host) -> BTreeMap<String, Row> {
    let row = |address: &flows::HostAddress| {
        let boot = (host.id.clone(), host.boot.clone());
        let row = [columns(&boot), vec![address.netns.into(), Value::address(Some(address.ip))]].concat();
        (hex(&key_of(&row)), row)
    };
    host.addresses.iter().map(row).collect()
}

fn listener_row(boot: &BootKey, listener: &Listener) -> (String, Row) {
    let mut row = columns(boot);
    row.extend([
        listener.service.0.as_str().into(),
        listener.netns.into(),
        enum_text::protocol(listener.protocol).into(),
    ]);
    row.extend(passive(Some(&listener.at)));
    (hex(&key_of(&row)), row)
}

fn flow_row(boot: &BootKey, flow: &Flow) -> Row {
    let mut row = columns(boot);
    row.extend([
        enum_text::side(flow.side).into(),
        flow.service.0.as_str().into(),
        flow.process.map_or(Value::Null, |process| u64::from(process.pid).into()),
        flow.process.map_or(Value::Null, |process| process.start_ticks.into()),
        flow.netns.into(),
        enum_text::protocol(flow.link.protocol).into(),
        Value::address(flow.link.active),
    ]);
    row.extend(passive(Some(&flow.link.passive)));
    row.extend(passive(flow.translated.as_ref()));
    row.extend([flow.source.as_str().into(), enum_text::attribution(flow.attribution).into()]);
    row
}

/// The columns address, port and path.
fn passive(passive: Option<&ListenAddress>) -> [Value; 3] {
    match passive {
        Some(ListenAddress::Inet { ip, port }) => [Value::address(Some(*ip)), i64::from(*port).into(), Value::Null],
        Some(ListenAddress::Path(path)) => [Value::Null, Value::Null, path.as_str().into()],
        None => [Value::Null, Value::Null, Value::Null],
    }
}

fn key_of(row: &[Value]) -> Key {
    let mut digest = Sha256::new();
    for value in row {
        match value {
            Value::Null => digest.update([0]),
            Value::Int(number) => {
                digest.update([1]);
                digest.update(number.to_le_bytes());
            }
            Value::Text(text) => {
                digest.update([2]);
                digest.update((text.len() as u64).to_le_bytes());
                digest.update(text);
            }
        }
    }
    std::array::from_fn({
        let digest = digest.finalize();
        move |i| digest[i]
    })
}

fn hex(key: &Key) -> String {
    let digits = key.iter().flat_map(|byte| [byte >> 4, byte & 0xF]);
    digits.map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])).collect()
}
