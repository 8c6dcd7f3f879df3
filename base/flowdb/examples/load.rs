//! Cost of a fleet for its database: agents record a minute of windows per minute; then the duration of queries.
//!
//! `cargo run --release -p flowdb --features postgres --example load -- [agents 1000] [windows in a minute 1] [minutes
//! 3] [POSTGRES-URL]`
//!
//! Without a URL it starts its own PostgreSQL. Each agent has 10 services, 10 listeners and 50 flows, and records all
//! windows of its minute at once. Prints a line of JSON: for each minute of windows the seconds until 8 writers have
//! recorded them, and the CPU seconds of this process and of the server; then the seconds (the median of 5) of a slice
//! of that minute and of the paper's query.

#[allow(dead_code)] // tests use more of it
#[path = "../tests/integration/support/mod.rs"]
mod support;

use flowdb::{FlowDb, MINUTE_MS};
use flows::{Attribution, Side, Window};
use serde_json::json;
use std::time::Instant;
use support::postgres::Cluster;
use support::{Agent, T0};

const SERVICES: usize = 10;
const FLOWS: usize = 50;
const WRITERS: usize = 8;

/// CPU seconds of a process and its ended children.
fn cpu_s(stat: &str) -> f64 {
    let fields: Vec<u64> =
        stat.rsplit(')').next().unwrap_or_default().split(' ').map(|n| n.parse().unwrap_or(0)).collect();
    fields[12..16].iter().sum::<u64>() as f64 / 100.0
}

fn own_cpu_s() -> f64 {
    cpu_s(&std::fs::read_to_string("/proc/self/stat").unwrap())
}

/// CPU seconds of a PostgreSQL server and its processes; ended processes are included in their parent.
fn server_cpu_s(postmaster: u32) -> f64 {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    let family = stats.filter(|stat| {
        let (pid, parent) = (stat.split(' ').next(), stat.rsplit(')').next().and_then(|rest| rest.split(' ').nth(2)));
        [pid, parent].contains(&Some(postmaster.to_string().as_str()))
    });
    family.map(|stat| cpu_s(&stat)).sum()
}

struct Host {
    agent: Agent,
    services: Vec<flows::Service>,
}

impl Host {
    fn new(number: usize) -> Host {
        let mut agent = Agent::new(0);
        agent.host.id.0 = format!("{number:032x}");
        agent.host.name = format!("host-{number}");
        agent.host.addresses[0].ip = address(number);
        let unit = flows::ServiceKind::Unit;
        let services = (0..SERVICES).map(|i| support::service(&agent.host.id, unit, &format!("service-{i}"))).collect();
        Host { agent, services }
    }

    /// Half of the flows are active and half passive, so that both ends of each connection are observed.
    fn window(&mut self, number: usize, agents: usize, from_ms: i64) -> Window {
        let mut window = self.agent.window(from_ms);
        window.services.clone_from(&self.services);
        let own = address(number).to_string();
        for (i, service) in self.services.iter().enumerate() {
            let mut listener = self.agent.listener("0.0.0.0", 8000 + i as u16);
            listener.service = service.key.clone();
            window.listeners.get_or_insert_default().push(listener);
        }
        for i in 0..FLOWS {
            let (side, distance) =
                if i % 2 == 0 { (Side::Active, 1 + i / 2) } else { (Side::Passive, agents - 1 - i / 2) };
            let peer = address((number + distance) % agents).to_string();
            let (active, passive) = if side == Side::Active { (&own, &peer) } else { (&peer, &own) };
            let mut flow = self.agent.flow(side, active, passive, 8000 + (i / 2 % SERVICES) as u16);
            let service = i % SERVICES;
            flow.service = self.services[service].key.clone();
            flow.process = Some(support::instance(100 + service as u32));
            flow.attribution = Attribution::Exact;
            window.flows.push(flow);
        }
        window
    }
}

fn address(number: usize) -> std::net::IpAddr {
    [10, 1, (number / 250) as u8, (number % 250) as u8].into()
}

async fn record_minute(url: &str, hosts: &mut [Host], windows: i64, from_ms: i64) {
    let agents = hosts.len();
    let mut batches: Vec<Vec<Window>> = Vec::new();
    for (number, host) in hosts.iter_mut().enumerate() {
        let begin = |i| from_ms + i * MINUTE_MS / windows;
        batches.push((0..windows).map(|i| host.window(number, agents, begin(i))).collect());
    }
    let mut shares: Vec<Vec<Vec<Window>>> = (0..WRITERS).map(|_| Vec::new()).collect();
    batches.into_iter().enumerate().for_each(|(i, batch)| shares[i % WRITERS].push(batch));
    let mut writers = Vec::new();
    for share in shares {
        let flowdb = FlowDb::open(url).await.unwrap();
        writers.push(tokio::spawn(async move {
            for batch in share {
                flowdb.record(&batch).await.unwrap();
            }
            flowdb.close().await;
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
}

/// The paper's query of the guide, for another time, host and port.
fn papers_query(at_ms: i64) -> String {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/flowdb.md")).unwrap();
    let block = page.split("```sql paper\n").nth(1).unwrap().split("```").next().unwrap();
    let literal = block.lines().find(|line| line.trim_start().starts_with("(17")).unwrap();
    block.replace(literal, &format!("({at_ms}, 'host-7', 8003)"))
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: i64| arguments.get(i).map_or(default, |text| text.parse().expect("a number"));
    let (agents, windows, minutes) = (number(0, 1000), number(1, 1), number(2, 3));
    assert!(agents as usize > FLOWS / 2, "each agent calls {} others", FLOWS / 2);
    let own = arguments.get(3).is_none().then(|| Cluster::own("load")).flatten();
    let url = match (&own, arguments.get(3)) {
        (Some(cluster), _) => cluster.database("load"),
        (None, Some(url)) => url.clone(),
        (None, None) => return,
    };
    let postmaster = own.as_ref().map_or(0, Cluster::postmaster);
    let flowdb = FlowDb::open(&url).await.unwrap();
    let mut hosts: Vec<Host> = (0..agents as usize).map(Host::new).collect();
    let mut measured = Vec::new();
    for minute in 0..minutes {
        let (begin, own_before, server_before) = (Instant::now(), own_cpu_s(), server_cpu_s(postmaster));
        record_minute(&url, &mut hosts, windows, T0 + minute * MINUTE_MS).await;
        measured.push(json!({
            "seconds": begin.elapsed().as_secs_f64(),
            "cpu_s_agents": own_cpu_s() - own_before,
            "cpu_s_server": server_cpu_s(postmaster) - server_before,
        }));
    }
    let at_ms = T0 + (minutes - 1) * MINUTE_MS;
    let (mut slices, mut queries, mut flows, mut services, mut dependents) = (Vec::new(), Vec::new(), 0, 0, 0);
    for _ in 0..5 {
        let begin = Instant::now();
        let slice = flowdb.slice(at_ms, at_ms).await.unwrap();
        slices.push(begin.elapsed().as_secs_f64());
        flows = slice.hosts.iter().map(|host| host.flows.len()).sum();
        services = slice.hosts.iter().map(|host| host.services.len()).sum();
        if let Some(cluster) = &own {
            let begin = Instant::now();
            dependents = cluster.sql("load", &papers_query(at_ms)).lines().count();
            queries.push(begin.elapsed().as_secs_f64());
        }
    }
    let size = "SELECT pg_total_relation_size('flow_counts') / count(*) FROM flow_counts";
    let row_bytes = own.as_ref().and_then(|cluster| cluster.sql("load", size).trim().parse::<u64>().ok());
    let line = json!({
        "agents": agents, "windows_per_agent_and_minute": windows, "services": services, "flows": flows, "minutes": measured,
        "slice_s": median(slices), "papers_query_s": (!queries.is_empty()).then(|| median(queries)), "dependents": dependents,
        "flow_counts_row_bytes": row_bytes,
    });
    println!("{line}");
}
