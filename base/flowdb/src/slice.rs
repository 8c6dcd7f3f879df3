//! Reads the data of an interval.

use crate::batch::bucket;
use crate::connection::Transaction;
use crate::flow_db::HostSummary;
use crate::statement::{Row, Value};
use crate::{HOUR_MS, MINUTE_MS, enum_text, reads};
use flows::{
    Counts, Flow, Host, HostAddress, HostId, HostSlice, Link, ListenAddress, Listener, Losses, Process, ProcessId,
    Service, ServiceKey, Slice,
};
use sqlx::Error;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Limit for the memory of a small machine.
pub const FLOWS_MAX: usize = 1_000_000;

/// A host during one boot, with the services and processes that its parts reference.
struct HostData {
    slice: HostSlice,
    /// It has a window in the requested interval. Otherwise only an hour that overlaps the interval.
    overlaps: bool,
    services: HashSet<ServiceKey>,
    processes: HashSet<ProcessId>,
}

/// By host and boot.
type Hosts = BTreeMap<(String, String), HostData>;

/// Returns none if there are too many flows.
pub async fn read(tx: &mut Transaction, from_ms: i64, to_ms: i64) -> Result<Option<Slice>, Error> {
    let from_ms = bucket(from_ms);
    let to_ms = bucket(to_ms.max(from_ms + 1) - 1) + MINUTE_MS;
    let range = [from_ms, to_ms];
    let flows = tx.query(&reads::FLOWS, &[from_ms, to_ms, FLOWS_MAX as i64 + 1]).await?;
    if flows.len() > FLOWS_MAX {
        return Ok(None);
    }
    let mut hosts = Hosts::new();
    let wide = [from_ms - HOUR_MS, to_ms + HOUR_MS];
    for row in tx.query(&reads::BOOTS, &wide).await? {
        add_boot(&mut hosts, &row, range);
    }
    flows.iter().for_each(|row| add_flow(&mut hosts, row));
    hosts.retain(|_, data| data.overlaps || !data.slice.flows.is_empty());
    tx.query(&reads::ADDRESSES, &range).await?.iter().for_each(|row| add_address(&mut hosts, row));
    tx.query(&reads::LISTENERS, &range).await?.iter().for_each(|row| add_listener(&mut hosts, row));
    tx.query(&reads::PROCESSES, &wide).await?.iter().for_each(|row| add_process(&mut hosts, row, range));
    let version = tx.query(&reads::SCHEMA_VERSION, &[]).await?.first().map_or(0, |row| number(&row[0]));
    let losses = if version < 2 { &reads::LOSSES_1 } else { &reads::LOSSES };
    tx.query(losses, &range).await?.iter().for_each(|row| add_losses(&mut hosts, row));
    add_services(&mut hosts, &tx.query(&reads::SERVICES, &wide).await?);
    Ok(Some(Slice { from_ms, to_ms, hosts: hosts.into_values().map(|data| data.slice).collect() }))
}

/// All hosts with windows, by name.
pub async fn hosts(tx: &mut Transaction) -> Result<Vec<HostSummary>, Error> {
    let data = |row: &Row| HostSummary {
        id: HostId(text(&row[0])),
        name: text(&row[1]),
        first_ms: number(&row[2]),
        last_ms: number(&row[3]),
    };
    Ok(tx.query(&reads::HOSTS, &[]).await?.iter().map(data).collect())
}

fn text(value: &Value) -> String {
    value.text().unwrap_or_default().to_owned()
}

fn optional(value: &Value) -> Option<String> {
    value.text().map(str::to_owned)
}

fn number(value: &Value) -> i64 {
    value.number().unwrap_or_default()
}

fn count(value: &Value) -> u64 {
    u64::try_from(number(value)).unwrap_or(0)
}

fn host_of<'h>(hosts: &'h mut Hosts, row: &Row) -> Option<&'h mut HostData> {
    hosts.get_mut(&(text(&row[0]), text(&row[1])))
}

fn add_boot(hosts: &mut Hosts, row: &Row, [from_ms, to_ms]: [i64; 2]) {
    let host = Host { id: HostId(text(&row[0])), boot: text(&row[1]), name: text(&row[2]), addresses: Vec::new() };
    let slice = HostSlice {
        host,
        services: Vec::new(),
        processes: Vec::new(),
        listeners: Vec::new(),
        flows: Vec::new(),
        losses: Losses::default(),
        last_seen_ms: number(&row[4]),
    };
    let overlaps = number(&row[3]) < to_ms && number(&row[4]) >= from_ms;
    let data = HostData { slice, overlaps, services: HashSet::new(), processes: HashSet::new() };
    hosts.insert((text(&row[0]), text(&row[1])), data);
}

fn add_address(hosts: &mut Hosts, row: &Row) {
    let (Some(data), Ok(ip)) = (host_of(hosts, row), text(&row[3]).parse()) else { return };
    let address = HostAddress { netns: count(&row[2]), ip };
    // the database has one row for each time it appeared
    if !data.slice.host.addresses.contains(&address) {
        data.slice.host.addresses.push(address);
    }
}

fn add_listener(hosts: &mut Hosts, row: &Row) {
    let Some(data) = host_of(hosts, row) else { return };
    let (Some(protocol), Some(at)) = (row[4].text().and_then(enum_text::protocol_of), passive(&row[5..8])) else {
        return;
    };
    let listener = Listener { service: ServiceKey(text(&row[2])), netns: count(&row[3]), protocol, at };
    if data.slice.listeners.last() != Some(&listener) {
        data.services.insert(listener.service.clone());
        data.slice.listeners.push(listener);
    }
}

fn add_process(hosts: &mut Hosts, row: &Row, [from_ms, to_ms]: [i64; 2]) {
    let Some(data) = host_of(hosts, row) else { return };
    let Some(id) = process_id(&row[2], &row[3]) else { return };
    let overlaps = number(&row[7]) < to_ms && number(&row[8]) >= from_ms;
    if overlaps || data.processes.contains(&id) {
        let service = ServiceKey(text(&row[4]));
        data.services.insert(service.clone());
        data.slice.processes.push(Process { id, service, netns: count(&row[5]), comm: text(&row[6]) });
    }
}

fn add_flow(hosts: &mut Hosts, row: &Row) {
    let Some(data) = host_of(hosts, row) else { return };
    let Some(flow) = flow(row) else { return };
    data.services.insert(flow.service.clone());
    data.processes.extend(flow.process);
    data.slice.flows.push(flow);
}

fn add_losses(hosts: &mut Hosts, row: &Row) {
    let Some(data) = host_of(hosts, row) else { return };
    data.slice.losses = Losses {
        table_full: count(&row[2]),
        recursion: count(&row[3]),
        windows: count(&row[4]),
        unreadable: count(&row[5]),
        closed_unseen: row.get(6).map_or(0, count),
        between_polls: row.get(7).map_or(0, count),
    };
}

/// Adds the services that the slice references.
fn add_services(hosts: &mut Hosts, rows: &[Row]) {
    let services: HashMap<String, &Row> = rows.iter().map(|row| (text(&row[0]), row)).collect();
    for data in hosts.values_mut() {
        let named = data.services.iter().filter_map(|key| service(services.get(&key.0)?));
        data.slice.services.extend(named);
        data.slice.services.sort_by(|a, b| (&a.name, &a.key).cmp(&(&b.name, &b.key)));
    }
}

fn service(row: &Row) -> Option<Service> {
    Some(Service {
        key: ServiceKey(text(&row[0])),
        kind: enum_text::kind_of(row[1].text()?)?,
        name: text(&row[2]),
        executable: optional(&row[3]),
        arguments: optional(&row[4]),
        container: optional(&row[5]),
        pod: optional(&row[6]),
        unit: optional(&row[7]),
        cgroup: optional(&row[8]),
    })
}

fn process_id(pid: &Value, start_ticks: &Value) -> Option<ProcessId> {
    Some(ProcessId { pid: u32::try_from(pid.number()?).ok()?, start_ticks: u64::try_from(start_ticks.number()?).ok()? })
}

/// Parses the columns address, port and path.
fn passive(cells: &[Value]) -> Option<ListenAddress> {
    match cells {
        [Value::Text(ip), Value::Int(port), _] => {
            Some(ListenAddress::Inet { ip: ip.parse().ok()?, port: u16::try_from(*port).ok()? })
        }
        [_, _, Value::Text(path)] => Some(ListenAddress::Path(path.clone())),
        _ => None,
    }
}

fn flow(row: &Row) -> Option<Flow> {
    let active = row[8].text().and_then(|ip| ip.parse().ok());
    let counts = &row[17..];
    Some(Flow {
        side: enum_text::side_of(row[2].text()?)?,
        service: ServiceKey(text(&row[3])),
        process: process_id(&row[4], &row[5]),
        netns: count(&row[6]),
        link: Link { protocol: enum_text::protocol_of(row[7].text()?)?, active, passive: passive(&row[9..12])? },
        translated: passive(&row[12..15]),
        source: row[15].text()?.parse().ok()?,
        attribution: enum_text::attribution_of(row[16].text()?)?,
        counts: Counts {
            opened: count(&counts[0]),
            established: count(&counts[1]),
            failed: count(&counts[2]),
            closed: count(&counts[3]),
            open: count(&counts[4]),
            sent: count(&counts[5]),
            received: count(&counts[6]),
        },
    })
}
