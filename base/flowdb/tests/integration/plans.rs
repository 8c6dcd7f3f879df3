//! Query plans in a new database without statistics: queries must cost about the same as with statistics.

use crate::support::postgres::Cluster;
use crate::support::{Agent, T0};
use flowdb::FlowDb;
use flows::{Side, Window};
use serde_json::Value;
use std::time::{Duration, Instant};

const HOSTS: u8 = 100;
const FLOWS: u64 = 5000;

/// Each host has 25 clients on one port and 25 dependencies.
fn windows() -> Vec<Window> {
    let window = |number: u8| {
        let mut agent = Agent::new(number);
        let mut window = agent.busy(T0, 0);
        let own = format!("10.0.0.{number}");
        let peer = |distance: u8| format!("10.0.0.{}", (number + distance) % HOSTS);
        let calls = (1..=25).map(|i| agent.flow(Side::Active, &own, &peer(i), 5432));
        let accepted = (1..=25).map(|i| agent.flow(Side::Passive, &peer(HOSTS - i), &own, 5432));
        window.flows = calls.chain(accepted).collect();
        window
    };
    (0..HOSTS).map(window).collect()
}

/// A database without automatic statistics.
async fn filled(cluster: &Cluster, name: &str) -> String {
    let url = cluster.database(name);
    let flowdb = FlowDb::open(&url).await.unwrap();
    for table in ["hosts", "boots", "services", "processes", "listeners", "host_addresses", "flows", "flow_counts"] {
        cluster.sql(name, &format!("ALTER TABLE {table} SET (autovacuum_enabled = false)"));
    }
    for batch in windows().chunks(10) {
        flowdb.record(batch).await.unwrap();
    }
    flowdb.close().await;
    url
}

/// Number of rows that a plan and its parts read.
fn rows_read(plan: &Value) -> u64 {
    let number = |name: &str| plan[name].as_f64().unwrap_or(0.0);
    let rows = ["Actual Rows", "Rows Removed by Filter", "Rows Removed by Join Filter"].map(number).iter().sum::<f64>();
    let own = (rows * number("Actual Loops")) as u64;
    own + plan["Plans"].as_array().into_iter().flatten().map(rows_read).sum::<u64>()
}

#[tokio::test]
async fn the_papers_query_reads_each_flow_few_times() {
    let Some(cluster) = Cluster::shared() else { return };
    filled(cluster, "plan_paper").await;
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/flowdb.md")).unwrap();
    let query = page.split("```sql paper\n").nth(1).unwrap().split("```").next().unwrap();
    let query = query.replace("(1767227400000, 'db-2', 5432)", &format!("({T0}, 'web-7', 5432)"));
    let rows_of_query = || {
        let plan = cluster.sql("plan_paper", &format!("EXPLAIN (ANALYZE, FORMAT JSON) {query}"));
        rows_read(&serde_json::from_str::<Value>(&plan).unwrap()[0]["Plan"])
    };
    let fresh = rows_of_query();
    assert!(fresh < 20 * FLOWS, "{fresh} rows for {FLOWS} flows");
    assert_eq!(cluster.sql("plan_paper", &query).lines().count(), 25);
    cluster.sql("plan_paper", "ANALYZE");
    let analyzed = rows_of_query();
    assert!(analyzed < 20 * FLOWS, "{analyzed} rows for {FLOWS} flows");
}

/// Number of table rows that sessions have read; the server reports it when they end.
fn rows_read_so_far(cluster: &Cluster, database: &str) -> u64 {
    let deadline = Instant::now() + Duration::from_secs(30);
    let others =
        format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' AND pid <> pg_backend_pid()");
    while cluster.sql(database, &others).trim() != "0" {
        assert!(Instant::now() < deadline, "a session does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    const READ: &str = "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables";
    cluster.sql(database, READ).trim().parse().unwrap()
}

#[tokio::test]
async fn a_slice_without_statistics_reads_each_row_few_times() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = filled(cluster, "plan_slice").await;
    let slice = async || {
        let before = rows_read_so_far(cluster, "plan_slice");
        let flowdb = FlowDb::read(&url).await.unwrap();
        let slice = flowdb.slice(T0, T0).await.unwrap();
        assert_eq!(slice.hosts.iter().map(|host| host.flows.len() as u64).sum::<u64>(), FLOWS);
        flowdb.close().await;
        rows_read_so_far(cluster, "plan_slice") - before
    };
    let fresh = slice().await;
    assert!((FLOWS..10 * FLOWS).contains(&fresh), "{fresh} rows for {FLOWS} flows");
    cluster.sql("plan_slice", "ANALYZE");
    let analyzed = slice().await;
    assert!(fresh < 4 * analyzed, "{fresh} rows without statistics, {analyzed} with them");
}
